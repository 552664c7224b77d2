"""The page of served kinds says what a server answers."""

from __future__ import annotations

from pathlib import Path

from tests.https_server import Https, in_thread

from .api_coverage import PAGE, page, served


def test_the_page_says_what_the_server_does(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        assert PAGE.read_text() == page(Https(server)), "run `make reference`"


def test_discovery_lists_the_verbs_that_are_answered(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        ask = Https(server)
        for one in served(ask):
            letters = page_row(one.api_version, one.entry["kind"])[4]
            listed = {"D" if verb == "deletecollection" else verb[0] for verb in one.entry["verbs"] if verb != "patch"}
            assert set(letters) == listed, one.entry["kind"]


def page_row(api_version: str, kind: str) -> list[str]:
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PAGE.read_text().splitlines()]
    return next(row for row in rows if row[:2] == [api_version, kind])
