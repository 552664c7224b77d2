"""The cases of the tests of rules as data: every write that they judge, and every object that they default."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from echelon.api.scheme import OWN_GROUP_KINDS, RESOURCES, Resource

_ROOT = Path(__file__).parents[2]
#: Tests of the kinds that admission policies are about.
_TESTS = (
    "rules/test_jobset.py",
    "rules/test_jobset_exclusive.py",
    "rules/test_jobset_scheduling.py",
    "rules/test_jobset_stages.py",
    "rules/test_trainer.py",
    "admission/test_trainjob.py",
    # Of native groups, whose rules hold for those of our own.
    "rules/test_scheduling.py",
    "rules/test_workload.py",
)
_OWN = {native.qualified: own for native, own in OWN_GROUP_KINDS.items()}
_BY_NAME = {**{one.qualified: one for one in RESOURCES}, **_OWN}


class Write(msgspec.Struct, frozen=True):
    """An object that is created, or takes the place of `old`, and what our own server would refuse it for."""

    test: str
    kind: str
    new: Any
    old: Any
    problems: list[str]
    #: Kind and object of what else there is.
    beside: list[tuple[str, Any]] = []

    @property
    def resource(self) -> Resource:
        return _BY_NAME[self.kind]


class Default(msgspec.Struct, frozen=True):
    """An object as it is sent, and as our own server stores it."""

    test: str
    kind: str
    body: Any
    stored: Any

    @property
    def resource(self) -> Resource:
        return _BY_NAME[self.kind]


class Recorded(msgspec.Struct):
    writes: list[Write]
    defaults: list[Default]


def recorded(directory: Path, *tests: str) -> Recorded:
    """Run the tests of rules in a process of their own and read what they decided, each case once."""
    target = directory / "recorded.json"
    files = tests or tuple(f"tests/unit/api/{name}" for name in _TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tests.admission.recording"]
    done = subprocess.run(
        [*command, *files],
        cwd=_ROOT,
        env={**os.environ, "ECHELON_RECORD": str(target)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the tests of rules fail:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    found = msgspec.json.decode(target.read_bytes(), type=Recorded)
    return Recorded(_once(found.writes, "kind", "new", "old", "beside"), _once(found.defaults, "kind", "body"))


def _once(found: list[Any], *fields: str) -> list[Any]:
    kept: dict[bytes, Any] = {}
    for one in found:
        kept.setdefault(msgspec.json.encode([getattr(one, field) for field in fields]), one)
    return list(kept.values())
