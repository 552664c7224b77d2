"""`make bench`: the embedded plane, one table per question; `ARGS="--size 1k --scale 0.2"` asks less."""

from __future__ import annotations

import click
from rich.console import Console

from . import bind, blocked, lives


@click.command()
@click.option("--size", "sizes", multiple=True, type=click.Choice(list(bind.SIZES)), help="[default: all]")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Size of the full cluster.")
def main(sizes: tuple[str, ...], scale: float) -> None:
    """Scheduling through the durable store."""
    console = Console(width=140)
    console.print(bind.table(bind.measure(sizes or list(bind.SIZES))))
    console.print(blocked.table(blocked.measure(scale)))
    console.print(lives.table(lives.measure()))


main()
