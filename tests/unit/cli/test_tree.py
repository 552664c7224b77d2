"""`echelon tree`: siblings in the order people count."""

from __future__ import annotations

from echelon.cli.tree import as_counted


def test_siblings_are_listed_as_people_count() -> None:
    names = ["w-10-0", "w-2-1", "w-2", "driver", "w-2-0", "9"]
    ordered = sorted(({"metadata": {"name": name}} for name in names), key=as_counted)
    assert [obj["metadata"]["name"] for obj in ordered] == ["9", "driver", "w-2", "w-2-0", "w-2-1", "w-10-0"]
