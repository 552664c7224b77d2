"""How much memory a case takes: a process of its own builds and decides it, and says what it held at most."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from .cases import CASES
from .harness import Case, timed


def taken_by(case: Case) -> float:
    """Megabytes, those of Python and NumPy included."""
    command = [sys.executable, "-m", "bench.engine.memory", case.name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    (case,) = (case for case in CASES if case.name == sys.argv[1])
    timed(*case.build())
    print(most_resident())


def most_resident() -> float:
    """Megabytes this program held at most; unlike `getrusage` it leaves out the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
