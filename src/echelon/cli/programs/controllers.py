"""`echelon controllers`: runs the JobSet and TrainJob controllers on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...base.program_options import CONTROLLERS_PROGRAM
from .program_command import configuration, program_options


@click.command(short_help="Run the JobSet and TrainJob controllers on a cluster.")
@program_options(CONTROLLERS_PROGRAM)
def controllers(config: Path | None, **flags: Any) -> None:
    """Run the JobSet and TrainJob controllers and the stage queue on a cluster, until interrupted.

    The cluster must have their CustomResourceDefinitions: echelon crds | kubectl apply --server-side -f -
    """
    live = configuration(CONTROLLERS_PROGRAM, config, flags)
    from ...runtime import cluster_mode
    from .remote_command import work_until_interrupted

    work_until_interrupted(live, cluster_mode.controllers(live))
