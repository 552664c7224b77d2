"""The built-in ClusterTrainingRuntimes: package data, one file each in data/runtimes."""

from __future__ import annotations

from importlib import resources

import yaml

from ..scheme import Object


def builtin_runtimes() -> list[Object]:
    """All built-in runtimes, by file name."""
    folder = resources.files("echelon.api").joinpath("data", "runtimes")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return [yaml.safe_load(one.read_text(encoding="utf-8")) for one in files]
