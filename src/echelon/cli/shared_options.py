"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from .failures import Refusal

if TYPE_CHECKING:
    from ..api.cluster.pools import Cluster
    from ..runtime.config import ProcessSettings

F = TypeVar("F", bound=Callable[..., Any])

#: `OWN_SCHEDULER` of the vocabulary, which is not imported for a help text.
SCHEDULER_NAME = "echelon"


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


def metrics_options(command: F) -> F:
    """Add the options of commands that serve their own metrics."""
    for option in (
        click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address of the metrics port."),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            help="Port of /metrics, /healthz and /readyz over plain HTTP; 0 selects a free port.  "
            "[default: not served]",
        ),
    ):
        command = option(command)
    return command


_PROCESS_OPTIONS = ("tier", "images", "directory", "allow_host_paths", "capacity")


def process_options(command: F) -> F:
    """Add the options of commands whose pods may run as processes of this machine."""
    for option in (
        click.option(
            "--capacity",
            metavar="AMOUNTS",
            default="",
            help="What process nodes of this machine have, such as cpu=4,memory=8Gi.  [default: what is found]",
        ),
        click.option(
            "--allow-host-paths", is_flag=True, help="Let pods on process nodes mount files of this machine (hostPath)."
        ),
        click.option(
            "--images",
            type=click.Path(path_type=Path, dir_okay=False),
            help="What images mean on process nodes: a file that maps image names to virtualenvs, PATHs or root "
            "directories.  [default: the environment that Echelon was started from]",
        ),
        click.option(
            "--tier",
            type=click.Choice(["auto", "net", "names", "plain"]),
            default="auto",
            show_default=True,
            help="What pods on process nodes have to themselves: net: network, names, files; names: names and files; "
            "plain: nothing; auto: the most that this machine allows.",
        ),
    ):
        command = option(command)
    return command


def process_settings(
    data: Path,
    tier: Literal["auto", "net", "names", "plain"],
    images: Path | None,
    host_paths: bool,
    capacity: str,
    directory: Path | None = Path(),
) -> ProcessSettings:
    """Containers that do not say where begin in `directory`, or in an empty one of their own."""
    from ..runtime.config import BadImages, Images, ProcessSettings, read_images

    try:
        known = read_images(images) if images is not None else Images()
    except BadImages as error:
        raise Refusal(str(error)) from error
    begin = str(directory.resolve()) if directory is not None else ""
    return ProcessSettings(data, tier, known, host_paths, begin, _amounts(capacity))


def _amounts(text: str) -> dict[str, str]:
    from ..base import quantity

    amounts: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        name, _, amount = entry.partition("=")
        try:
            quantity.parse(amount)
        except ValueError:
            raise Refusal(f"--capacity {entry}: must be NAME=AMOUNT, such as cpu=4 or memory=8Gi") from None
        amounts[name.strip()] = quantity.canonical(amount)
    return amounts


def check_speed(cluster: Cluster, speed: float) -> None:
    """Processes run in real time."""
    from ..api.cluster.pools import nodes, runs_processes

    if speed != 1.0 and any(map(runs_processes, nodes(cluster))):
        raise Refusal(f"--speed {speed:g}: pods that run as processes take real time; leave it out")


def check_process_options(cluster: Cluster, *, local: bool = False, logs: bool = False) -> None:
    """Options about processes need nodes that run them."""
    from ..api.cluster.pools import nodes, runs_processes

    if any(map(runs_processes, nodes(cluster))):
        return
    if local:
        raise Refusal("--local: no node of the cluster file runs processes; say runs: processes in a pool")
    source = click.get_current_context().get_parameter_source
    given = [name for name in _PROCESS_OPTIONS if source(name) is ParameterSource.COMMANDLINE]
    for name in [*given, *(["logs"] if logs else [])]:
        raise Refusal(f"--{name.replace('_', '-')}: all nodes are simulated; it is about pods that run as processes")


def load_cluster(path: Path | None, *, this_machine: bool = False) -> Cluster:
    from ..api.cluster import pools
    from ..api.cluster.pools import BadCluster, default_cluster, parse

    if this_machine:
        if path is not None:
            raise Refusal("--nodes process and --cluster are mutually exclusive: say runs: processes in its pools")
        return pools.this_machine(_machine_name())
    if path is None:
        return default_cluster()
    try:
        return parse(path.read_text(), str(path))
    except BadCluster as error:
        raise Refusal(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise Refusal(f"{path}: {reason}") from error


def _machine_name() -> str:
    import re
    import socket

    return re.sub(r"[^a-z0-9.-]", "-", socket.gethostname().lower()).strip("-.") or "localhost"
