"""The conformance lists themselves are in order."""

from __future__ import annotations

from tests.conformance.report import load_lists, load_not_applicable


def test_every_exemption_names_a_listed_behaviour_and_a_reason() -> None:
    listed = {identifier for titles in load_lists().values() for identifier in titles}
    for identifier, reason in load_not_applicable().items():
        assert identifier in listed
        assert reason


def test_ids_belong_to_their_list_and_have_titles() -> None:
    for name, titles in load_lists().items():
        for identifier, title in titles.items():
            assert identifier.startswith(f"{name}-")
            assert title
