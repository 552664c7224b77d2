"""`echelon runtimes`: prints the built-in ClusterTrainingRuntimes, for clusters that do not have any."""

from __future__ import annotations

import click

from ..base.program_options import SCHEDULER_NAME


@click.command(short_help="Print the built-in runtimes for TrainJobs.")
@click.option(
    "--scheduler-name",
    default=SCHEDULER_NAME,
    show_default=True,
    help="spec.schedulerName of their pods; empty: that of the cluster.",
)
def runtimes(scheduler_name: str) -> None:
    """Print the built-in ClusterTrainingRuntimes; each has a twin -gang that starts whole or not at all.

    \b
    An installation has no runtimes of its own:
      echelon runtimes | kubectl apply --server-side -f -
    """
    import yaml

    from ..api.objects.builtin_runtimes import builtin_runtimes
    from ..api.schema.decoding import copy_tree

    for runtime in map(copy_tree, builtin_runtimes()):
        for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
            if scheduler_name:
                job["template"]["spec"]["template"]["spec"]["schedulerName"] = scheduler_name
        click.echo("---")
        click.echo(yaml.dump(runtime, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000), nl=False)
