"""`echelon crds`: prints the CustomResourceDefinitions of JobSet and the Trainer kinds."""

from __future__ import annotations

import click


@click.command(short_help="Print CustomResourceDefinitions for JobSets and TrainJobs.")
@click.option(
    "--groups", is_flag=True, help="Print those of groups of pods as well, for servers that do not have all of these."
)
def crds(groups: bool) -> None:
    """Print the CustomResourceDefinitions of JobSet and the Trainer kinds.

    \b
    For clusters that do not have these kinds:
      echelon crds | kubectl apply --server-side -f -
    """
    import yaml

    from ..api.group_definitions import group_definitions
    from ..api.schema.crd_manifests import custom_resource_definitions

    for definition in [*(group_definitions() if groups else ()), *custom_resource_definitions()]:
        click.echo("---")
        click.echo(yaml.dump(definition, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000), nl=False)
