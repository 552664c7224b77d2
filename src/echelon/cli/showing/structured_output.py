"""Prints what a reading command found, for programs."""

from __future__ import annotations

import json
from typing import Any

import click
import yaml


def print_data(data: Any, output: str) -> None:
    """As JSON or as YAML."""
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000), nl=False)
