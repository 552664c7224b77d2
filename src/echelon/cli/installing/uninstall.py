"""`echelon uninstall`: takes Echelon off a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from ..failures import EXIT_INTERRUPTED, Refusal
from ..shared_options import context_option, kubeconfig_option
from .choices import namespace_option


@click.command(short_help="Remove what echelon install has made.")
@kubeconfig_option
@context_option
@namespace_option
@click.option(
    "--purge-crds", is_flag=True, help="Remove the kinds even if there are objects of theirs: these are removed too."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds to wait for pods and the namespace to go.",
)
def uninstall(kubeconfig: Path | None, context: str | None, namespace: str, purge_crds: bool, timeout: float) -> None:
    """Remove everything that echelon install has made, and nothing else.

    JobSets, TrainJobs and runtimes of users stay, and with them their kinds; what runs goes on running.
    """
    from ...runtime.install import steps
    from ...runtime.install.applying import CannotInstall
    from ...runtime.plane import CannotStart, run_program

    target = steps.Kubeconfig(kubeconfig, context)
    try:
        run_program(steps.uninstall(target, namespace, click.echo, purge=purge_crds, wait=timeout))
    except (CannotInstall, CannotStart) as error:
        raise Refusal(str(error)) from error
    except KeyboardInterrupt:
        click.echo("echelon: interrupted; `echelon uninstall` removes the rest", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
