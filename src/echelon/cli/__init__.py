"""The `echelon` command: one file per subcommand.

These files import click alone, and the rest of Echelon when a command runs: `--help` and completion answer at once.
"""

from __future__ import annotations

import click

from ..base.version import __version__
from .completion import completion
from .controllers import controllers
from .crds import crds
from .installing.doctor import doctor
from .installing.install import install, upgrade
from .installing.uninstall import uninstall
from .run import run
from .scheduler import scheduler
from .tree import tree
from .up import up
from .user import user

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="echelon")
@click.option("-v", "--verbose", count=True, help="Log to standard error; -vv logs debug messages too.")
def main(verbose: int) -> None:
    """Run and schedule distributed training jobs on Kubernetes APIs.

    \b
    Try it without a cluster:
      echelon run examples/gang-job.yaml  run a manifest on simulated nodes
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
main.add_command(scheduler)
main.add_command(controllers)
main.add_command(crds)
main.add_command(install)
main.add_command(upgrade)
main.add_command(uninstall)
main.add_command(doctor)
main.add_command(user)
main.add_command(completion)
