"""`echelon up`: runs the embedded control plane until interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failures import Refusal
from .own_plane import default_data_directory
from .shared_options import (
    ProcessChoices,
    check_process_options,
    check_speed,
    cluster_option,
    levels_option,
    load_cluster,
    process_options,
    process_settings,
    speed_option,
)

if TYPE_CHECKING:
    from ..runtime.config import PlaneSettings
    from ..runtime.plane import Plane


@click.command(short_help="Start a control plane on this machine.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory: database, certificates, token.  [default: $XDG_STATE_HOME/echelon or ~/.local/state/echelon]",
)
@click.option("--ephemeral", is_flag=True, help="Use a temporary data directory, removed at the end.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port of the API server; 0 selects a free port.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the kubeconfig.  [default: DATA/kubeconfig]",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="IP address to listen on; 0.0.0.0 stands for all addresses of this machine.",
)
@click.option(
    "--authorization",
    type=click.Choice(["allow-all", "rbac"]),
    help="allow-all: every user may do everything; rbac: what roles and bindings grant.  "
    "[default: allow-all on a loopback address, else rbac]",
)
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append a JSON line per request: who did what, when, with which result; never bodies or tokens.",
)
@click.option(
    "--max-requests-inflight",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    help="Reading requests held at a time; beyond it clients with many are told to wait.  0: no limit.",
)
@click.option(
    "--max-mutating-requests-inflight",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="The same for requests that write.",
)
@click.option(
    "--nodes",
    type=click.Choice(["none", "simulated", "process"]),
    default="simulated",
    show_default=True,
    help="simulated: pods run on simulated nodes; process: this machine is the node, pods run as its processes; "
    "none: create your own Node objects.",
)
@process_options
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where containers on process nodes begin that do not say workingDir.  [default: an empty one of their own]",
)
@click.option(
    "--controllers",
    metavar="NAMES",
    default="*",
    show_default=True,
    help="Controllers to run, separated by commas: * stands for all, NAME for one; -NAME leaves one out.",
)
@click.option(
    "--no-job-workloads",
    is_flag=True,
    help="Make no Workloads and PodGroups for Jobs; spec.scheduling of new Jobs is dropped with a warning.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    default="",
    help="Features to switch off, as ElasticJobSet=false; all are on.",
)
@click.option("--no-scheduler", is_flag=True, help="Run no scheduler; pods wait until something else binds them.")
@levels_option
@cluster_option
@speed_option
def up(
    data: Path | None,
    ephemeral: bool,
    bind: str,
    nodes: str,
    processes: ProcessChoices,
    directory: Path | None,
    controllers: str,
    no_job_workloads: bool,
    feature_gates: str,
    no_scheduler: bool,
    topology_levels: tuple[str, ...] | None,
    cluster_file: Path | None,
    speed: float,
    **settings_as_given: Any,
) -> None:
    """Start a control plane on this machine and write a kubeconfig for it.

    kubectl and other Kubernetes clients can use it. Ctrl-C stops it; started again with the same --data it continues.

    \b
    Example:
      echelon up --ephemeral --kubeconfig /tmp/kubeconfig &
      kubectl --kubeconfig /tmp/kubeconfig get nodes
    """
    cluster = load_cluster(cluster_file, this_machine=nodes == "process")
    check_speed(cluster, speed)
    check_process_options(cluster)
    # Imported after the cluster file is read, so that bad input is reported at once.
    from ..runtime import config

    with _data_directory(data, ephemeral) as kept:
        settings = config.PlaneSettings(
            data=kept,
            bind=_address(bind),
            nodes="none" if nodes == "none" else "simulated",
            processes=process_settings(kept, processes, directory, temporary=ephemeral),
            cluster=cluster,
            levels=topology_levels,
            speed=speed,
            scheduler_names=() if no_scheduler else config.EMBEDDED_SCHEDULER_NAMES,
            controllers=_controllers(controllers),
            job_workloads=not no_job_workloads,
            disabled_features=_disabled(feature_gates),
            **settings_as_given,
        )
        _run(settings, "data is not kept" if ephemeral else f"data is in {kept}")


@contextmanager
def _data_directory(data: Path | None, ephemeral: bool) -> Iterator[Path]:
    """The data directory while the block runs; an ephemeral one is removed after it."""
    import tempfile

    if not ephemeral:
        yield data or default_data_directory()
        return
    if data is not None:
        raise Refusal("--ephemeral and --data are mutually exclusive")
    with tempfile.TemporaryDirectory(prefix="echelon-") as directory:
        yield Path(directory)


def _controllers(names: str) -> tuple[str, ...]:
    from ..runtime import config

    try:
        return config.select(names)
    except config.UnknownController as error:
        raise Refusal(f"--controllers {names}: {error}") from error


def _disabled(feature_gates: str) -> frozenset[str]:
    from ..api.admission.feature_gates import disabled

    try:
        return disabled(feature_gates)
    except ValueError as error:
        raise Refusal(f"--feature-gates {feature_gates}: {error}") from error


def _address(bind: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.ip_address(bind))
    except ValueError:
        raise Refusal(f"--bind {bind}: not an IP address") from None


def _run(settings: PlaneSettings, keeping: str) -> None:
    from ..runtime.plane import CannotStart, run_program

    try:
        run_program(_serve(settings, keeping))
    except CannotStart as error:
        raise Refusal(str(error)) from error


async def _serve(settings: PlaneSettings, keeping: str) -> None:
    import shlex

    from ..runtime.plane import running
    from .stop_signals import StopSignals

    stop = StopSignals()
    async with running(settings) as plane:
        stop.nodes = plane.process_nodes
        click.echo(f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
        if plane.process_nodes is not None:
            click.echo(f"pods run as processes of this machine: {plane.process_nodes.described}")
        click.echo(f"echelon is ready at {plane.url} (Ctrl-C stops it, {keeping})")
        await stop.asked.wait()
        click.echo(_stopping(plane))


def _stopping(plane: Plane) -> str:
    from ..api.scheme import PODS

    own = plane.process_nodes.names if plane.process_nodes is not None else frozenset[str]()
    phases = [pod["status"].get("phase") for pod in plane.caches.of(PODS).all() if pod["spec"].get("nodeName") in own]
    count = phases.count("Pending") + phases.count("Running")
    return f"stopping {count} pod{'' if count == 1 else 's'}; Ctrl-C kills what is left" if count else "stopping"
