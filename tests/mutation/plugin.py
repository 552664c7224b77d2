"""The run itself, as a pytest plugin: one baseline run that notes which test calls which function and how long it
takes, then one forked child per mutant in which the function has other code, until a test fails.

A mutant counts as noticed if a test fails, raises or takes far longer than it should. What no test calls is reported
as not called, and counts as survived. Time is that of the processor, so that a busy machine finds the same.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType

import pytest

from .mutants import Mutant, Place, mutants_of

SOURCE = Path(__file__).parents[2] / "src"
NOTICED, SURVIVED, NOT_CALLED = "noticed", "survived", "not called"
#: A mutant that computes for ever ends at twice its processor time, one that waits for ever at this many times of it.
_MOST_COMPUTING, _MOST_WAITING = 2, 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutate", help="a package or module below src, as echelon/decide/job")
    parser.addoption("--mutants", type=int, default=0, help="how many, drawn at random; 0 = all")
    parser.addoption("--mutation-seed", type=int, default=1)
    parser.addoption("--mutation-seconds", type=float, default=8.0, help="processor time for the tests of one mutant")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    run = MutationRun(session)
    run.baseline()
    run.mutate()
    return True


class MutationRun:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        option = session.config.getoption
        self._files = _files(option("--mutate"))
        self._names = {str(path): str(path.relative_to(SOURCE)) for path in self._files}
        self._limit = option("--mutation-seconds")
        self._mutants = self._drawn(option("--mutants"), option("--mutation-seed"))
        #: The tests that call a function, and what each took in the baseline run.
        self._callers: dict[tuple[str, Place], list[tuple[float, pytest.Item]]] = defaultdict(list)

    def baseline(self) -> None:
        for item in self._session.items:
            called: set[tuple[str, Place]] = set()
            started = time.monotonic()
            sys.setprofile(self._recorder(called))
            try:
                passed = _passes(item)
            finally:
                sys.setprofile(None)
            if not passed:
                raise pytest.UsageError(f"{item.nodeid} fails without any mutant")
            for function in called:
                self._callers[function].append((time.monotonic() - started, item))

    def mutate(self) -> None:
        functions = _functions_of(self._names)
        results: dict[str, list[Mutant]] = {NOTICED: [], SURVIVED: [], NOT_CALLED: []}
        for number, mutant in enumerate(self._mutants, 1):
            tests = sorted(self._callers[str(mutant.path), mutant.function], key=lambda pair: pair[0])
            outcome = self._outcome(mutant, functions, tests)
            results[outcome].append(mutant)
            if outcome != NOTICED:
                print(f"{outcome}: {mutant}", flush=True)
            if number % 100 == 0:
                print(f"  {number} of {len(self._mutants)}", flush=True)
        _report(results)

    def _outcome(
        self,
        mutant: Mutant,
        functions: dict[tuple[str, Place], FunctionType],
        tests: list[tuple[float, pytest.Item]],
    ) -> str:
        function = functions.get((str(mutant.path), mutant.function))
        if function is None or not tests:
            return NOT_CALLED
        child = os.fork()
        if child == 0:
            _test_in_child(mutant, function, [item for _, item in tests], self._limit)
        return NOTICED if _ended_badly(child, self._limit * _MOST_WAITING) else SURVIVED

    def _recorder(self, called: set[tuple[str, Place]]):  # type: ignore[no-untyped-def]
        names = self._names

        def record(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and (name := names.get(frame.f_code.co_filename)):
                called.add((name, (frame.f_code.co_qualname, frame.f_code.co_firstlineno)))

        return record

    def _drawn(self, count: int, seed: int) -> list[Mutant]:
        mutants = [m for path in self._files for m in mutants_of(path, self._names[str(path)])]
        if not count or count >= len(mutants):
            return mutants
        return sorted(random.Random(seed).sample(mutants, count), key=lambda m: (m.path, m.line))


def _files(target: str) -> list[Path]:
    path = SOURCE / target
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _functions_of(names: dict[str, str]) -> dict[tuple[str, Place], FunctionType]:
    for name in names.values():
        importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    found: dict[tuple[str, Place], FunctionType] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and (name := names.get(thing.__code__.co_filename)):
            found[name, (thing.__code__.co_qualname, thing.__code__.co_firstlineno)] = thing
    return found


def _passes(item: pytest.Item) -> bool:
    reports = _reports(item)
    return not any(report.failed for report in reports)


def _reports(item: pytest.Item) -> Iterator[pytest.TestReport]:
    from _pytest.runner import runtestprotocol

    yield from runtestprotocol(item, log=False, nextitem=None)


def _test_in_child(mutant: Mutant, function: FunctionType, items: list[pytest.Item], seconds: float) -> None:
    """Ends the process: 1 if a test noticed, 0 if none did in the time that there is."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    function.__code__ = mutant.code
    most = int(seconds * _MOST_COMPUTING)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    until = time.process_time() + seconds
    try:
        for item in items:
            if not _passes(item):
                os._exit(1)
            if time.process_time() > until:
                break
    except BaseException:
        os._exit(1)
    os._exit(0)


def _ended_badly(child: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    pause = 0.001
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _report(results: dict[str, list[Mutant]]) -> None:
    by_file: dict[Path, dict[str, int]] = defaultdict(lambda: dict.fromkeys(results, 0))
    for outcome, mutants in results.items():
        for mutant in mutants:
            by_file[mutant.path][outcome] += 1
    print(f"\n{'file':60} {'mutants':>8} {NOTICED:>8} {SURVIVED:>9} {NOT_CALLED:>11}")
    for path, counts in sorted(by_file.items()):
        print(f"{path!s:60} {sum(counts.values()):8} " + "".join(f"{n:10}" for n in counts.values()))
    total = sum(map(len, results.values()))
    left = total - len(results[NOTICED])
    print(f"\n{total} mutants, {len(results[NOTICED])} noticed, {left} not: {100 * left / max(total, 1):.1f} %")
