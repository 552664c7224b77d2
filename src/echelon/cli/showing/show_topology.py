"""Reads nodes, pods and Topology objects of a cluster and prints its domains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text
from rich.tree import Tree

from ...api.cluster.topology_levels import LabelledNode, Levels, choose_levels, some
from ...api.errors import ApiError
from ...api.objects.vocabulary import HOSTNAME, INSTALLATION
from ...api.scheme import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, Object, Resource
from ...api.verbs import ListOptions, Verbs
from ...base import quantity
from ...client.topology_objects import TopologyReader
from ...deploy.objects.programs import configured_levels
from ..output import plain_console
from .connection import reading
from .domains import DomainEntry, amounts_of, domains_of
from .structured_output import print_data


async def show_topology(
    levels: tuple[str, ...] | None,
    with_nodes: bool,
    all_resources: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    async with reading(kubeconfig, context) as (verbs, _):
        nodes, pods = (await verbs.list(NODES)).items, (await verbs.list(PODS)).items
        told = levels or configured_levels(await _installed(verbs, DEPLOYMENTS), await _installed(verbs, CONFIG_MAPS))
        objects = [] if told else await TopologyReader(verbs).read()
    amounts = amounts_of(nodes, pods, common=all_resources)
    chosen = choose_levels([LabelledNode(node.name, node.labels) for node in amounts], told, objects)
    top = domains_of(amounts, chosen, with_nodes=with_nodes)
    if output == "text":
        _draw(top, chosen)
    else:
        print_data(_as_data(top, chosen), output)


async def _installed(verbs: Verbs, kind: Resource) -> list[Object]:
    """Our Deployments or ConfigMaps; none for whoever may not read them."""
    try:
        return (await verbs.list(kind, options=ListOptions(label_selector=INSTALLATION))).items
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise


def _as_data(top: DomainEntry, levels: Levels) -> dict[str, Any]:
    return {
        "levels": list(levels.keys),
        "source": levels.source,
        "cluster": top.as_data(),
        "contradictions": [
            {"key": one.narrow, "wider": one.wide, "message": str(one), "nodes": list(one.odd_nodes)}
            for one in levels.contradictions
        ],
        "unlabelled": {key: list(names) for key, names in levels.unlabelled},
    }


def _draw(top: DomainEntry, levels: Levels) -> None:
    console = plain_console()
    console.print(f"levels: {' > '.join(levels.keys)}  ({levels.source})")
    tree = Tree(_label(top), guide_style="dim")
    _add(tree, top)
    console.print(tree, soft_wrap=False)
    for one in levels.contradictions:
        console.print(Text(f"contradiction: {one}", style="red"))
    for again in levels.reused:
        console.print(Text(f"note: {again}", style="dim"))
    for key, names in levels.unlabelled:
        count = "1 node lacks" if len(names) == 1 else f"{len(names)} nodes lack"
        console.print(Text(f"note: {count} {key}: {some(names)}", style="yellow"))


def _add(tree: Tree, entry: DomainEntry) -> None:
    for child in entry.children:
        _add(tree.add(_label(child)), child)


def _label(entry: DomainEntry) -> Text:
    short = entry.key.rpartition("/")[2]
    head = Text(entry.name if entry.key == HOSTNAME else f"{short}={entry.name}" if entry.name else f"no {short}")
    if not entry.key:
        head = Text("cluster")
    if entry.key != HOSTNAME:
        head.append(f"  {entry.nodes} node{'' if entry.nodes == 1 else 's'}")
    if entry.unavailable:
        away = "unavailable" if entry.key == HOSTNAME else f"{entry.unavailable} unavailable"
        head.append(f"  {away}", style="yellow")
    for text in _amounts(entry.total, entry.free):
        head.append(f"  {text}", style="dim")
    return head


def _amounts(total: Mapping[str, int], free: Mapping[str, int]) -> list[str]:
    return [
        f"{name} {quantity.spelt(name, free[name])} of {quantity.spelt(name, amount)} free"
        for name, amount in total.items()
    ]
