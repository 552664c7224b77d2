"""`echelon topology`: shows the domains of a cluster as a tree, with nodes and free devices."""

from __future__ import annotations

from pathlib import Path

import click

from ..shared_options import context_option, kubeconfig_option, levels_option


@click.command(short_help="Show the topology of a cluster with free GPUs per domain.")
@levels_option
@click.option("--nodes", "with_nodes", is_flag=True, help="Show single nodes too.")
@click.option("--all-resources", is_flag=True, help="Count CPU and memory too, not devices alone.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
)
@kubeconfig_option
@context_option
def topology(
    topology_levels: tuple[str, ...] | None,
    with_nodes: bool,
    all_resources: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Show domains with nodes and free GPUs, which labels form levels, and which nodes contradict them.

    Levels are those that the installed scheduler is told, else what it would find. Works on any cluster.

    \b
    Examples:
      echelon topology
      echelon topology --nodes --all-resources -o json
    """
    import asyncio

    from .show_topology import show_topology

    asyncio.run(show_topology(topology_levels, with_nodes, all_resources, output, kubeconfig, context))
