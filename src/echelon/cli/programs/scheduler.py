"""`echelon scheduler`: runs the scheduler on a real cluster, beside or instead of kube-scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...base.program_options import SCHEDULER_PROGRAM
from .program_command import configuration, program_options


@click.command(short_help="Schedule pods and groups on a cluster.")
@program_options(SCHEDULER_PROGRAM)
def scheduler(config: Path | None, **flags: Any) -> None:
    """Schedule pods with this spec.schedulerName, and their pod groups, until interrupted.

    \b
    Example:
      echelon scheduler --kubeconfig ~/.kube/config --metrics-port 10259
    """
    live = configuration(SCHEDULER_PROGRAM, config, flags)
    from ...runtime import cluster_mode
    from .remote_command import work_until_interrupted

    work_until_interrupted(live, cluster_mode.scheduler(live))
