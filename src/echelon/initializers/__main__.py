"""`python -m echelon.initializers dataset|model [--folder PATH]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .http_session import HttpSession
from .loading import FOLDERS, Kind, load
from .problems import LoadingFailed


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("echelon.initializers", description="Fetch what a training begins with.")
    parser.add_argument("kind", choices=sorted(FOLDERS), help="what to fetch")
    parser.add_argument(
        "--folder", type=Path, help="where to put it; /workspace/dataset or /workspace/model by default"
    )
    asked = parser.parse_args(words)
    kind: Kind = asked.kind
    try:
        load(kind, os.environ, asked.folder or FOLDERS[kind], HttpSession(), lambda line: print(line, flush=True))
    except (LoadingFailed, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
