"""How the programs of this package are started: without site packages, because every pod has one of them.

The package is found through its path, since `-S` leaves nothing else to find it by; compiled files are used as always.
"""

from __future__ import annotations

import os
import sys
from typing import Literal

#: An event loop may let files slip into its children: they are closed, because they would stay open as long as a pod.
_CODE = (
    "import os,sys;os.closerange(3,1<<20);sys.path.insert(0,sys.argv[1]);"
    "from echelon.agents.process.shim.{} import main;main(sys.argv[2:])"
)
_ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


def program(name: Literal["main", "holder", "trial", "limits_trial", "enter"], *arguments: str) -> list[str]:
    return [sys.executable, "-E", "-S", "-s", "-c", _CODE.format(name), _ROOT, *arguments]
