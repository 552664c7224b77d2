"""The reference lists what there is: every command, option, exit code and annotation."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from echelon.api.objects import vocabulary
from echelon.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def options() -> list[tuple[str, str]]:
    return [
        (name, option)
        for name, command in main.commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    ]


@pytest.mark.parametrize(("command", "option"), options(), ids=" ".join)
def test_every_option_is_documented_with_its_command(command: str, option: str) -> None:
    section = section_of((DOCS / "reference" / "cli.md").read_text(), command)
    assert section, f"{command} has no section"
    assert f"`{option}" in section


def section_of(page: str, command: str) -> str:
    """The text below the heading of a command, up to the next heading of the same level."""
    found = re.search(rf"^## `echelon {command}\b.*?\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def test_a_later_section_does_not_document_an_option() -> None:
    page = "## `echelon run FILE`\n`--speed`\n### Exit codes\n`--quiet`\n## `echelon up`\n`--port`\n"
    assert section_of(page, "run") == "`--speed`\n### Exit codes\n`--quiet`\n"
    assert section_of(page, "up") == "`--port`\n"
    assert section_of(page, "u") == ""


def test_every_annotation_of_ours_is_documented() -> None:
    text = (DOCS / "reference" / "vocabulary.md").read_text()
    ours = [
        value
        for name, value in vars(vocabulary).items()
        if isinstance(value, str) and value.startswith(vocabulary.PREFIX) and name != "PREFIX"
    ]
    assert ours
    for annotation in ours:
        assert f"`{annotation}`" in text, annotation


def test_files_that_pages_name_exist() -> None:
    root = DOCS.parent
    for page in [*DOCS.rglob("*.md"), *root.glob("*.md"), root / "tests" / "README.md"]:
        for path in re.findall(r"`((?:src|tests|bench|examples|docs|tools)/[\w/.-]+)`", page.read_text()):
            assert (root / path).exists(), f"{page.name} names {path}"


def test_files_that_the_map_of_the_suite_names_exist() -> None:
    tests = DOCS.parent / "tests"
    named = re.findall(r"`([\w/]+\.(?:py|toml))`", (tests / "README.md").read_text())
    assert named
    for path in named:
        assert list(tests.rglob(path)), path


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_hooks_before_a_commit_run_what_make_lint_runs() -> None:
    makefile = (DOCS.parent / "Makefile").read_text()
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe
    linted = [line.strip().removeprefix("@").replace("$(VENV)", ".venv") for line in recipe[1].splitlines()]
    hooks = yaml.safe_load((DOCS.parent / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == linted


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [page for each in inner for page in pages(each)]  # type: ignore[attr-defined]

    site = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())
    assert sorted(pages(site["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
