"""`echelon tree KIND/NAME`: shows an object with its children: phases, groups, domains, nodes."""

from __future__ import annotations

from pathlib import Path

import click

from .shared_options import context_option, kubeconfig_option


@click.command(short_help="Show an object with its children, down to pods and nodes.")
@click.argument("target", metavar="KIND/NAME")
@click.option("-n", "--namespace", help="Namespace of the object.  [default: that of the context]")
@kubeconfig_option
@context_option
def tree(target: str, namespace: str | None, kubeconfig: Path | None, context: str | None) -> None:
    """Show KIND/NAME with its children, down to pods and nodes.

    KIND is trainjob, jobset, job, workload, compositepodgroup, podgroup or pod.

    \b
    Example:
      echelon tree jobset/training -n default
    """
    import asyncio

    from .showing.snapshot import parse, show

    resource, name = parse(target)
    asyncio.run(show(resource, name, namespace, kubeconfig, context))
