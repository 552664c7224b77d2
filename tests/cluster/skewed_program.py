"""`python -m tests.cluster.skewed_program SECONDS …`: the `echelon` command with a clock that is wrong by so much."""

from __future__ import annotations

import sys
import time
from typing import Any

from echelon.cli import main
from echelon.runtime import cluster_mode
from echelon.runtime.clocks import RealClock


def skewed_by(seconds: float) -> None:
    def clock(**options: Any) -> RealClock:
        return RealClock(start=time.time() + seconds, **options)

    cluster_mode.RealClock = clock  # type: ignore[assignment, attr-defined]


if __name__ == "__main__":
    skewed_by(float(sys.argv.pop(1)))
    main()
