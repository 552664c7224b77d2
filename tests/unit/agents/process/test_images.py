"""Which programs containers find where no image is pulled."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from echelon.agents.process.images import Images, read_images

OWN = os.path.dirname(sys.executable)
CHOSEN = ("VIRTUAL_ENV", "CONDA_DEFAULT_ENV")


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOSEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/home/you/torch/bin:/usr/bin")


@pytest.mark.parametrize("variables", [{}, {"VIRTUAL_ENV": sys.prefix}, {"CONDA_DEFAULT_ENV": "base"}])
def test_programs_are_those_beside_echelon_unless_another_environment_was_chosen(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Images().of("python:3.12").env["PATH"] == f"{OWN}:/home/you/torch/bin:/usr/bin"


@pytest.mark.parametrize(("name", "value"), [("VIRTUAL_ENV", "/home/you/torch"), ("CONDA_DEFAULT_ENV", "torch")])
def test_the_environment_that_is_activated_comes_before_that_of_echelon(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    env = Images().of("python:3.12").env
    assert env["PATH"] == f"/home/you/torch/bin:/usr/bin:{OWN}"
    assert {key: env[key] for key in CHOSEN if key in env} == {name: value}


def test_what_a_file_says_of_an_image_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/home/you/torch")
    (tmp_path / "jax" / "bin").mkdir(parents=True)
    file = tmp_path / "images.yaml"
    file.write_text(f'images: [{{image: "jax/*", virtualenv: {tmp_path}/jax}}]')
    env = read_images(file).of("jax/jax:1").env
    assert env["PATH"] == f"{tmp_path}/jax/bin:/home/you/torch/bin:/usr/bin:{OWN}"
    assert env["VIRTUAL_ENV"] == f"{tmp_path}/jax"
