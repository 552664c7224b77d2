"""Runs `echelon scheduler` and `echelon controllers`: leader election, shutdown."""

from __future__ import annotations

import asyncio
import signal

import click

from ..runtime.cluster_mode import MakeComponents, RemoteSettings, running_in_cluster
from ..runtime.plane import CannotStart, run_program
from ..runtime.supervision import ComponentFailed
from .failures import EXIT_FAILED, Refusal


def work_until_interrupted(title: str, settings: RemoteSettings, make: MakeComponents) -> None:
    """Run the components until Ctrl-C or SIGTERM; a lost lease or a failed component ends with exit code 1."""
    try:
        run_program(_work(title, settings, make))
    except CannotStart as error:
        raise Refusal(str(error)) from error
    except ComponentFailed as error:
        click.echo(f"echelon: {title} failed: {error.__cause__ or error}", err=True)
        raise click.exceptions.Exit(EXIT_FAILED) from error


async def _work(title: str, settings: RemoteSettings, make: MakeComponents) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    interrupted = asyncio.Event()

    def stop() -> None:
        """Cancel the task, whether it waits for the lease or for the end."""
        if not interrupted.is_set():
            interrupted.set()
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with running_in_cluster(settings, make, click.echo) as server:
            click.echo(f"echelon {title} is ready at {server} (Ctrl-C stops it)")
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        task.uncancel()
    click.echo("stopped")
