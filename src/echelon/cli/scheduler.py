"""`echelon scheduler`: our scheduler beside, or instead of, the one of a real cluster."""

from __future__ import annotations

from pathlib import Path

import click

from ..runtime import cluster_mode
from .failures import Refusal
from .remote_command import remote_options, work_until_interrupted

_NAME = "echelon"


@click.command(short_help="Schedule pods and groups on a cluster.")
@remote_options
@click.option(
    "--name",
    "names",
    multiple=True,
    default=(_NAME,),
    show_default=True,
    help="The spec.schedulerName of the pods it places; may be given several times.",
)
@click.option(
    "--reserve-after",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds after which room is kept for a group that others keep passing over.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics, /healthz and /readyz over plain HTTP; 0 takes any free port.  [default: not served]",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address to serve them on.")
def scheduler(
    names: tuple[str, ...],
    reserve_after: float,
    metrics_port: int | None,
    metrics_host: str,
    kubeconfig: Path | None,
    context: str | None,
    leader_elect: bool,
) -> None:
    """Schedule the pods of a cluster that name this scheduler, and their groups, until interrupted."""
    if not all(names):
        raise Refusal("--name: a scheduler must have a name")
    lease = "-".join(("echelon-scheduler", *(name for name in names if name != _NAME))) if leader_elect else ""
    metrics = cluster_mode.Address(metrics_host, metrics_port) if metrics_port is not None else None
    settings = cluster_mode.RemoteSettings(kubeconfig, context, lease, metrics)
    work_until_interrupted("scheduler", settings, cluster_mode.scheduler(names, reserve_after))
