"""`echelon tree`: what it is asked for, and siblings in the order people count."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from echelon.cli.showing.snapshot import by_number
from echelon.cli.tree import tree


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("low", "low: expected KIND/NAME, for example jobset/training"),
        ("job/", "job/: expected KIND/NAME, for example jobset/training"),
        ("/low", "/low: expected KIND/NAME, for example jobset/training"),
        ("thing/low", "thing/low: unknown kind 'thing'; use one of"),
    ],
)
def test_a_target_that_names_no_object_is_refused(target: str, words: str) -> None:
    done = CliRunner().invoke(tree, [target])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"echelon: {words}")


def test_siblings_are_listed_as_people_count() -> None:
    names = ["w-10-0", "w-2-1", "w-2", "driver", "w-2-0", "9"]
    ordered = sorted(({"metadata": {"name": name}} for name in names), key=by_number)
    assert [obj["metadata"]["name"] for obj in ordered] == ["9", "driver", "w-2", "w-2-0", "w-2-1", "w-10-0"]
