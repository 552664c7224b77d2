"""`echelon crds`: prints the CustomResourceDefinitions of JobSet and the Trainer kinds."""

from __future__ import annotations

import click


@click.command(short_help="Print CustomResourceDefinitions for JobSets and TrainJobs.")
def crds() -> None:
    """Print the CustomResourceDefinitions of JobSet and the Trainer kinds.

    \b
    For clusters that do not have these kinds:
      echelon crds | kubectl apply --server-side -f -
    """
    import yaml

    from ..api.schema.crd_manifests import custom_resource_definitions

    for definition in custom_resource_definitions():
        click.echo("---")
        click.echo(yaml.dump(definition, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000), nl=False)
