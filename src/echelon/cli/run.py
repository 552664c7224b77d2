"""`echelon run`: starts a control plane, submits manifests, follows them to the end, shows where the pods ran."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .failures import Refusal
from .shared_options import cluster_option, load_cluster, speed_option


@click.command()
@click.argument("manifests", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
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
def run(manifests: tuple[Path, ...], cluster_file: Path | None, speed: float, stagger: float, output: str) -> None:
    """Run MANIFESTS on a simulated cluster to their end.

    Each is a file, a directory with .yaml, .yml and .json files, or - for standard input.

    \b
    Examples:
      echelon run examples/gang-job.yaml --cluster examples/clusters/small.yaml --speed 10
      helm template ./chart | echelon run - --output json

    \b
    Exit codes:
      0    everything completed
      1    something failed
      2    bad input
      3    blocked: nothing moves any more, because something cannot be placed, a controller is refused or
           something is on hold; the reasons are printed
      130  interrupted
    """
    from .following.manifests import BadManifest, load

    try:
        loaded = load(manifests)
    except BadManifest as error:
        raise Refusal(str(error)) from error
    cluster = load_cluster(cluster_file)
    # Imported after the manifests are read, so that bad input is reported at once.
    import tempfile

    from ..runtime.config import PlaneSettings
    from ..runtime.plane import CannotStart, run_program
    from .following.follow import follow_to_the_end

    with tempfile.TemporaryDirectory(prefix="echelon-") as data:
        settings = PlaneSettings(data=Path(data), cluster=cluster, speed=speed)
        try:
            code = run_program(follow_to_the_end(settings, loaded, stagger, output))
        except CannotStart as error:
            raise Refusal(str(error)) from error
    sys.exit(code)
