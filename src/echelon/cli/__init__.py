"""The `echelon` command: one file per subcommand.

These files import click alone, and the rest of Echelon when a command runs: `--help` and completion answer at once.
"""

from __future__ import annotations

from typing import Any

import click

from ..base.version import __version__
from .completion import completion
from .crds import crds
from .failures import EXIT_INTERRUPTED
from .installing.doctor import doctor
from .installing.install import install, upgrade
from .installing.uninstall import uninstall
from .print_runtimes import runtimes
from .programs.controllers import controllers
from .programs.scheduler import scheduler
from .run import run
from .showing.topology_command import topology
from .tree import tree
from .up import up
from .user import user

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Echelon(click.Group):
    """A command that Ctrl-C meets before it listens to signals ends as later: in one line, with the same code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("echelon: interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)


@click.group(cls=_Echelon, context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="echelon")
@click.option("-v", "--verbose", count=True, help="Log to standard error; -vv logs debug messages too.")
def main(verbose: int) -> None:
    """Run and schedule distributed training jobs on Kubernetes APIs.

    \b
    Try it without a cluster:
      echelon run train.yaml              run a manifest on simulated nodes
      echelon run train.yaml --local      run it for real, on this machine
      echelon up                          start a local API server for kubectl
    On a real cluster:
      echelon install                     put scheduler and controllers there
      echelon scheduler                   schedule pods and pod groups
      echelon controllers                 run the JobSet and TrainJob controllers
    """
    import logging

    level = {0: logging.ERROR, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(level=level, format="%(asctime)s %(name)s: %(message)s")


main.add_command(up)
main.add_command(run)
main.add_command(tree)
main.add_command(topology)
main.add_command(scheduler)
main.add_command(controllers)
main.add_command(crds)
main.add_command(runtimes)
main.add_command(install)
main.add_command(upgrade)
main.add_command(uninstall)
main.add_command(doctor)
main.add_command(user)
main.add_command(completion)
