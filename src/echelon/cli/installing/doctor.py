"""`echelon doctor`: looks whether a cluster and an installation on it are sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...base.program_options import SCHEDULER_NAME
from ..failures import EXIT_FAILED, Refusal
from ..shared_options import context_option, kubeconfig_option

if TYPE_CHECKING:
    from ...deploy.checks.findings import Finding

_MARKS = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}


@click.command(short_help="Check a cluster before and after an installation.")
@kubeconfig_option
@context_option
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    default=(SCHEDULER_NAME,),
    show_default=True,
    help="spec.schedulerName that is ours; may be given several times.",
)
def doctor(kubeconfig: Path | None, context: str | None, names: tuple[str, ...]) -> None:
    """Check server, groups, kinds, rights, topology, clock and neighbours, with a remedy for what is wrong.

    Changes nothing. Exit code 1 if there is a problem; notes are not problems.
    """
    from ...api.errors import ApiError
    from ...runtime.plane import CannotStart, run_program
    from ...runtime.server_connection import advice

    try:
        findings = run_program(_look(kubeconfig, context, names))
    except CannotStart as error:
        raise Refusal(str(error)) from error
    except ApiError as error:
        raise Refusal(f"{error}{advice(error)}") from error
    for one in findings:
        click.echo(f"{_MARKS[one.level]}{one.subject}: {one.text}")
        if one.remedy:
            click.echo(f"        {'':>{len(one.subject)}}  do: {one.remedy}")
    problems = sum(one.level == "problem" for one in findings)
    click.echo(f"{problems} problem{'s' * (problems > 1)}" if problems else "no problem")
    if problems:
        raise click.exceptions.Exit(EXIT_FAILED)


async def _look(kubeconfig: Path | None, context: str | None, names: tuple[str, ...]) -> list[Finding]:
    from ...deploy.checks.findings import examine
    from ...runtime.clocks import RealClock
    from ...runtime.install.examining import examine_cluster
    from ...runtime.server_connection import connected

    async with connected(kubeconfig, context) as (verbs, _):
        return examine(await examine_cluster(verbs, RealClock()), names)
