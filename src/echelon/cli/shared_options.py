"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .failures import Refusal

if TYPE_CHECKING:
    from ..api.cluster.pools import Cluster

F = TypeVar("F", bound=Callable[..., Any])


def cluster_option(command: F) -> F:
    return click.option(
        "--cluster",
        "cluster_file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Nodes to simulate: a cluster file, or what kubectl get nodes -o yaml prints.  "
        "[default: 2 blocks × 3 racks × 4 nodes with 8 GPUs each]",
    )(command)


def speed_option(command: F) -> F:
    return click.option(
        "--speed",
        type=click.FloatRange(min=0, min_open=True),
        default=1.0,
        show_default=True,
        help="Seconds of cluster time per real second.",
    )(command)


def kubeconfig_option(command: F) -> F:
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubeconfig of the cluster.  [default: $KUBECONFIG, the service account of a pod, ~/.kube/config]",
    )(command)


def context_option(command: F) -> F:
    return click.option("--context", help="Context of the kubeconfig.  [default: the current one]")(command)


def remote_options(command: F) -> F:
    """Add the options of commands that run on a real cluster."""
    for option in (
        click.option(
            "--leader-elect/--no-leader-elect",
            default=True,
            show_default=True,
            help="Elect a leader through a Lease in kube-system, so that several instances can run.",
        ),
        context_option,
        kubeconfig_option,
    ):
        command = option(command)
    return command


def load_cluster(path: Path | None) -> Cluster:
    from ..api.cluster.pools import BadCluster, default_cluster, parse

    if path is None:
        return default_cluster()
    try:
        return parse(path.read_text(), str(path))
    except BadCluster as error:
        raise Refusal(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise Refusal(f"{path}: {reason}") from error
