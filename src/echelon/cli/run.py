"""`echelon run`: starts a control plane, submits manifests, follows them to the end, shows where the pods ran."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .failures import Refusal
from .shared_options import (
    ProcessChoices,
    check_process_options,
    check_speed,
    cluster_option,
    load_cluster,
    process_options,
    process_settings,
    speed_option,
)


@click.command(short_help="Run manifests to their end, simulated or for real.")
@click.argument("manifests", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--local",
    is_flag=True,
    help="Really run the pods, as processes of this machine; with --cluster on its nodes that say runs: processes.",
)
@click.option(
    "--logs", is_flag=True, help="Print everything that pods on this machine write, each line after pod and container."
)
@process_options
@cluster_option
@speed_option
@click.option(
    "--every",
    "stagger",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Submit the manifests one by one, this many seconds of cluster time apart.  [default: all at once]",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text with a chart at the end, or one JSON object per line.",
)
def run(
    manifests: tuple[Path, ...],
    local: bool,
    logs: bool,
    processes: ProcessChoices,
    cluster_file: Path | None,
    speed: float,
    stagger: float,
    output: str,
) -> None:
    """Run MANIFESTS to their end: on a simulated cluster, or with --local as processes of this machine.

    Each is a file, a directory with .yaml, .yml and .json files, or - for standard input.

    \b
    Examples:
      echelon run train.yaml --local --logs
      echelon run examples/gang-job.yaml --cluster examples/clusters/blocks.yaml --speed 10
      helm template ./chart | echelon run - --output json

    \b
    Exit codes:
      0    everything completed
      1    something failed
      2    bad input
      3    blocked: nothing moves any more, because something cannot be placed, a controller is refused or
           something is on hold; the reasons are printed
      130  interrupted

    Ctrl-C ends pods of this machine within their grace, a second one at once; nothing of them stays.
    """
    from .following.manifests import BadManifest, load

    try:
        loaded = load(manifests)
    except BadManifest as error:
        raise Refusal(str(error)) from error
    cluster = load_cluster(cluster_file, this_machine=local and cluster_file is None)
    check_speed(cluster, speed)
    check_process_options(cluster, local=local, logs=logs)
    # Imported after the manifests are read, so that bad input is reported at once.
    import tempfile

    from ..runtime.config import PlaneSettings
    from ..runtime.plane import CannotStart, run_program
    from .following.follow import follow_to_the_end

    with tempfile.TemporaryDirectory(prefix="echelon-") as data:
        own = process_settings(Path(data), processes, temporary=True)
        settings = PlaneSettings(data=Path(data), cluster=cluster, speed=speed, processes=own)
        try:
            code = run_program(follow_to_the_end(settings, loaded, stagger, output, logs=logs))
        except CannotStart as error:
            raise Refusal(str(error)) from error
    sys.exit(code)
