"""`echelon runtimes`: the built-in runtimes as manifests for a cluster."""

from __future__ import annotations

from typing import Any

import yaml
from click.testing import CliRunner

from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.cli.print_runtimes import runtimes


def _printed(*arguments: str) -> list[Any]:
    done = CliRunner().invoke(runtimes, arguments)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def _schedulers(given: list[Any]) -> set[str | None]:
    jobs = [job for one in given for job in one["spec"]["template"]["spec"]["replicatedJobs"]]
    return {job["template"]["spec"]["template"]["spec"].get("schedulerName") for job in jobs}


def test_pods_of_printed_runtimes_are_placed_by_echelon_unless_another_scheduler_is_named() -> None:
    assert _schedulers(_printed()) == {"echelon"}
    assert _schedulers(_printed("--scheduler-name", "mine")) == {"mine"}
    assert _printed("--scheduler-name", "") == builtin_runtimes(), "and nothing else is changed"
    assert _schedulers(builtin_runtimes()) == {None}
