"""`python -m bench.large`: memory and start of a plane with many pods, and what others notice of large requests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import uvloop
from rich.console import Console
from rich.table import Table

from .beside import Beside, measure
from .fill import fill


def _table(found: list[Beside]) -> Table:
    table = Table("beside a GET every 20 ms", "took", "GETs", "median", "p99", "server: median", "p99", "longest")
    for one in found:
        times = [one.passed(0.5), one.passed(0.99), one.worked(0.5), one.worked(0.99), one.worked(1.0)]
        table.add_row(one.name, f"{one.seconds:.2f} s", str(len(one.times)), *(f"{1000 * t:.1f} ms" for t in times))
    return table


@click.command()
@click.option("--pods", default=100_000, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="Kept and used again.  [default: a temporary directory]")
@click.option("--delete", is_flag=True, help="Delete all pods at the end.")
def main(pods: int, data: Path | None, delete: bool) -> None:
    """A plane with many pods."""
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as temporary:
        directory = data or Path(temporary)
        uvloop.run(fill(directory, pods))
        command = [sys.executable, "-m", "bench.large.plane", str(directory), str(pods)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as plane:
            assert plane.stdin is not None
            assert plane.stdout is not None
            started = json.loads(plane.stdout.readline())
            console.print(
                f"{pods} pods: {started['resident']:.0f} MB resident, {started['peak']:.0f} MB at most; "
                f"started in {started['seconds']:.1f} s, {started['cpu']:.1f} s of processor time"
            )
            console.print(_table(asyncio.run(measure(directory, started["url"], plane.pid, delete=delete))))
            plane.stdin.write("memory\n")
            plane.stdin.flush()
            console.print(f"afterwards {json.loads(plane.stdout.readline())['resident']:.0f} MB resident")
            plane.stdin.close()


main()
