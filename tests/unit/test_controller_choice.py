"""`--controllers`: read as kube-controller-manager reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.controllers.registry import ALL_CONTROLLERS, UnknownController, select

WITHOUT_JOB = tuple(name for name in ALL_CONTROLLERS if name != "job")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("*", ALL_CONTROLLERS),
        ("", ()),
        ("job", ("job",)),
        (" job , jobset ", ("jobset", "job")),
        ("job-controller", ("job",)),
        ("*,-job", WITHOUT_JOB),
        ("-job", WITHOUT_JOB),
        ("-job-controller,*", WITHOUT_JOB),
        ("job,-jobset", ("job",)),
        ("*,job,-job", ALL_CONTROLLERS),
    ],
)
def test_a_list_of_controllers_is_read_as_upstream_reads_it(choice: str, expected: tuple[str, ...]) -> None:
    assert select(choice) == expected


@pytest.mark.parametrize("choice", ["jobs", "*,-nothing", "-*", "job,,x"])
def test_an_unknown_controller_is_refused_with_the_list_of_those_known(choice: str) -> None:
    with pytest.raises(UnknownController, match="known are trainjob, jobset, job, "):
        select(choice)


def test_the_reference_lists_every_controller() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    assert [name for name in ALL_CONTROLLERS if f"`{name}`" not in page] == []
