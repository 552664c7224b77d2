"""Runs `echelon scheduler` and `echelon controllers`: logging, leader election, shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal

import click

from ...runtime.cluster_mode import MakeComponents, RemoteSettings, running_in_cluster
from ...runtime.operations.live_configuration import LiveConfiguration
from ...runtime.operations.log_lines import set_up_logging
from ...runtime.plane import CannotStart, run_program
from ...runtime.supervision import ComponentFailed
from ..failures import EXIT_BAD_INPUT, EXIT_FAILED, Refusal

log = logging.getLogger("echelon")


def work_until_interrupted(live: LiveConfiguration, make: MakeComponents) -> None:
    """Run the components until Ctrl-C or SIGTERM; a lost lease or a failed component ends with exit code 1."""
    set_up_logging(live.values)
    live.on_change(set_up_logging)
    settings = RemoteSettings(live)
    title = live.program.name
    try:
        run_program(_work(title, settings, make))
    except CannotStart as error:
        if _is_for_machines(live):
            log.error("cannot start", extra={"fields": {"reason": str(error)}})
            raise click.exceptions.Exit(EXIT_BAD_INPUT) from error
        raise Refusal(str(error)) from error
    except ComponentFailed as error:
        if _is_for_machines(live):
            log.error("failed", extra={"fields": {"program": title, "reason": str(error.__cause__ or error)}})
        else:
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

    def report(message: str) -> None:
        """Progress, for people on standard output; machines read the log."""
        if _is_for_machines(settings.live):
            log.info(message)
        else:
            click.echo(message)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with running_in_cluster(settings, make, report) as server:
            report(f"echelon {title} is ready at {server} (Ctrl-C stops it)")
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        task.uncancel()
    report("stopped")


def _is_for_machines(live: LiveConfiguration) -> bool:
    return bool(live.values["logFormat"] == "json")
