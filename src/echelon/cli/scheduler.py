"""`echelon scheduler`: runs the scheduler on a real cluster, beside or instead of kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from .failures import Refusal
from .shared_options import SCHEDULER_NAME, metrics_options, remote_options


@click.command(short_help="Schedule pods and groups on a cluster.")
@remote_options
@click.option(
    "--name",
    "names",
    multiple=True,
    default=(SCHEDULER_NAME,),
    show_default=True,
    help="spec.schedulerName of the pods to schedule; may be given several times.",
)
@click.option(
    "--reserve-after",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds after which capacity is reserved for a group that waits while others are placed.",
)
@metrics_options
def scheduler(
    names: tuple[str, ...],
    reserve_after: float,
    metrics_port: int | None,
    metrics_host: str,
    kubeconfig: Path | None,
    context: str | None,
    leader_elect: bool,
) -> None:
    """Schedule pods with this spec.schedulerName, and their pod groups, until interrupted.

    \b
    Example:
      echelon scheduler --kubeconfig ~/.kube/config --metrics-port 10259
    """
    if not all(names):
        raise Refusal("--name: must not be empty")
    from ..deploy.options import scheduler_lease
    from ..runtime import cluster_mode
    from .remote_command import work_until_interrupted

    lease = scheduler_lease(names) if leader_elect else ""
    metrics = cluster_mode.Address(metrics_host, metrics_port) if metrics_port is not None else None
    settings = cluster_mode.RemoteSettings(kubeconfig, context, lease, metrics)
    work_until_interrupted("scheduler", settings, cluster_mode.scheduler(names, reserve_after))
