"""`echelon controllers`: runs the JobSet and TrainJob controllers on a real cluster."""

from __future__ import annotations

from pathlib import Path

import click

from .failures import Refusal
from .shared_options import SCHEDULER_NAME, metrics_options, remote_options


@click.command(short_help="Run the JobSet and TrainJob controllers on a cluster.")
@remote_options
@click.option(
    "--only",
    default="jobset,trainjob,stage-quota",
    show_default=True,
    metavar="NAMES",
    help="Controllers to run, separated by commas. Leave out those that already run on the cluster.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=(SCHEDULER_NAME,),
    show_default=True,
    help="spec.schedulerName that echelon scheduler serves; may be given several times. Pods of exclusive JobSets that "
    "name another get affinity terms instead of groups.",
)
@metrics_options
def controllers(
    only: str,
    schedulers: tuple[str, ...],
    metrics_port: int | None,
    metrics_host: str,
    kubeconfig: Path | None,
    context: str | None,
    leader_elect: bool,
) -> None:
    """Run the JobSet and TrainJob controllers and the stage queue on a cluster, until interrupted.

    The cluster must have their CustomResourceDefinitions: echelon crds | kubectl apply --server-side -f -
    """
    from ..deploy.options import controllers_lease
    from ..runtime import cluster_mode
    from .remote_command import work_until_interrupted

    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in cluster_mode.CLUSTER_CONTROLLERS]
    if unknown or not names:
        wrong = f"unknown controller {', '.join(unknown)}" if unknown else "no controller given"
        raise Refusal(f"--only {only}: {wrong}; known are {', '.join(cluster_mode.CLUSTER_CONTROLLERS)}")
    lease = controllers_lease(tuple(names)) if leader_elect else ""
    metrics = cluster_mode.Address(metrics_host, metrics_port) if metrics_port is not None else None
    settings = cluster_mode.RemoteSettings(kubeconfig, context, lease, metrics)
    work_until_interrupted("controllers", settings, cluster_mode.controllers(names, schedulers))
