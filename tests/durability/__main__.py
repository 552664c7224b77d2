"""`make durability`: a plane killed under 64 writers, histories of one key, damage of every byte.

ROUNDS=n      rounds of SIGKILL (200)
HISTORIES=n   histories that are judged (1000)
SEED=n        of both (1)
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from . import killed_rounds


def main() -> int:
    rounds, seed = int(os.environ.get("ROUNDS", "200")), int(os.environ.get("SEED", "1"))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        figures = asyncio.run(killed_rounds.run(Path(directory), rounds, seed))
    print(
        f"seed {seed}: {figures.rounds} rounds, {figures.writes} acknowledged writes, none lost; "
        f"{figures.unanswered} more were stored but not answered; {time.monotonic() - begin:.0f} s"
    )
    os.environ["ECHELON_LONG"] = "1"
    tests = ("tests/durability/test_linearizability.py", "tests/unit/store")
    return int(pytest.main(["-n", "0", "-q", "-m", "", "-o", "timeout=7200", *tests]))


sys.exit(main())
