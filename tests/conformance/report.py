"""`make conformance`: for every list, how many behaviours are covered by a test, how many pass, which are missing.

Runs as a pytest plugin (`-p tests.conformance.report`): collects the `conformance` marks of all tests, follows
their outcome, and prints the table at the end.  `--conformance-missing` also names what is missing.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_OUTCOMES: pytest.StashKey[dict[str, list[bool]]] = pytest.StashKey()


def load_lists() -> dict[str, dict[str, str]]:
    """list name -> id -> title"""
    return tomllib.loads((_HERE / "lists.toml").read_text())


def load_not_applicable() -> dict[str, str]:
    return tomllib.loads((_HERE / "not_applicable.toml").read_text())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance-missing", action="store_true", help="name every behaviour without a test")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OUTCOMES] = {}
    config.pluginmanager.register(_Recorder(config.stash[_OUTCOMES]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A worker runs the test, so that what it proves goes with its report to the process that prints the table."""
    report = yield
    report.conformance = [identifier for mark in item.iter_markers("conformance") for identifier in mark.args]
    return report


class _Recorder:
    def __init__(self, outcomes: dict[str, list[bool]]) -> None:
        self._outcomes = outcomes

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ran = report.when == "call" or (report.when == "setup" and not report.passed)
        if ran and not report.skipped:
            for identifier in getattr(report, "conformance", ()):
                self._outcomes.setdefault(identifier, []).append(report.passed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash[_OUTCOMES]
    skipped = load_not_applicable()
    lists = load_lists()
    write = terminalreporter.write_line
    write("")
    write(f"{'list':<6}{'items':>7}{'n/a':>6}{'covered':>9}{'passing':>9}{'missing':>9}")
    for name, titles in lists.items():
        applicable = [identifier for identifier in titles if identifier not in skipped]
        covered = [identifier for identifier in applicable if identifier in outcomes]
        passing = [identifier for identifier in covered if all(outcomes[identifier])]
        missing = [identifier for identifier in applicable if identifier not in outcomes]
        write(
            f"{name:<6}{len(titles):>7}{len(titles) - len(applicable):>6}"
            f"{len(covered):>9}{len(passing):>9}{len(missing):>9}"
        )
        if config.getoption("--conformance-missing"):
            for identifier in missing:
                write(f"    {identifier}  {titles[identifier]}")
    known = {identifier for titles in lists.values() for identifier in titles}
    for identifier in sorted(set(outcomes) - known):
        write(f"unknown id {identifier}: not in tests/conformance/lists.toml")
