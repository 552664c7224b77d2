"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from .failures import Refusal

if TYPE_CHECKING:
    from ..api.cluster.pools import Cluster
    from ..runtime.config import ProcessSettings

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


def levels_option(command: F) -> F:
    return click.option(
        "--topology-levels",
        metavar="KEY,...",
        callback=_read_levels,
        help="Node labels that form topology domains, from wide to narrow.  "
        "[default: those of a Kueue or KAI Topology, else known labels that nodes carry]",
    )(command)


def _read_levels(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    from ..api.cluster.topology_levels import read_levels

    try:
        return read_levels(text)
    except ValueError as error:
        raise Refusal(f"--topology-levels: {error}") from error


_PROCESS_OPTIONS = ("tier", "images", "directory", "allow_host_paths", "capacity")


@dataclass(frozen=True)
class ProcessChoices:
    """What a user said about pods that run as processes of this machine."""

    tier: Literal["auto", "net", "names", "plain"]
    images: Path | None
    allow_host_paths: bool
    capacity: str


def process_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands whose pods may run as processes; the command gets them as `processes`."""

    @wraps(command)
    def collected(
        tier: Literal["auto", "net", "names", "plain"],
        images: Path | None,
        allow_host_paths: bool,
        capacity: str,
        **others: Any,
    ) -> None:
        command(processes=ProcessChoices(tier, images, allow_host_paths, capacity), **others)

    decorated: Callable[..., None] = collected
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
        decorated = option(decorated)
    return decorated


def process_settings(
    data: Path, chosen: ProcessChoices, directory: Path | None = Path(), *, temporary: bool
) -> ProcessSettings:
    """Containers that do not say where begin in `directory`, or in an empty one of their own.

    `temporary`: nobody will come back to `data`.
    """
    from ..runtime.config import BadImages, Images, ProcessSettings, read_images

    try:
        known = read_images(chosen.images) if chosen.images is not None else Images()
    except BadImages as error:
        raise Refusal(str(error)) from error
    begin = str(directory.resolve()) if directory is not None else ""
    amounts = _amounts(chosen.capacity)
    return ProcessSettings(data, chosen.tier, known, chosen.allow_host_paths, begin, amounts, temporary)


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
