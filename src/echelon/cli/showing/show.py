"""Connects, reads a snapshot of the namespace, prints the branches that were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lightkube.config.kubeconfig import SingleConfig

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import Resource
from ...api.verbs import Verbs
from ...client.group_discovery import GroupsNotServed, group_support, speaking
from ...client.http import HttpVerbs
from ...client.kubeconfig import KubeconfigError, connect, load
from ..failures import Refusal
from ..output import plain_console
from .connection import default_kubeconfig, reading
from .drawing import drawn
from .entries import TreeEntry, entry_of
from .snapshot import Snapshot
from .structured_output import print_data
from .targets import Target, parse

#: How long the completion of names may take.
_PATIENCE_SECONDS = 3.0


async def show(
    targets: Sequence[Target], namespace: str | None, output: str, kubeconfig: Path | None, context: str | None
) -> None:
    async with reading(kubeconfig, context) as (verbs, config):
        space = namespace or config.namespace
        snapshot = await Snapshot.read(await _with_groups(verbs), space)
    branches: list[TreeEntry] = []
    for resource, name in targets:
        root = snapshot.find(resource, name)
        if root is None:
            if resource in snapshot.hidden:
                raise Refusal(snapshot.hidden[resource])
            raise Refusal(f'{resource.qualified} "{name}" not found in namespace {space}')
        branches.append(entry_of(snapshot, resource, root))
    _print(branches, output)


async def _with_groups(verbs: HttpVerbs) -> Verbs:
    """The client that reads groups in the form that the server has for them."""
    try:
        return speaking(verbs, await group_support(verbs, trial=False))
    except GroupsNotServed:
        return verbs  # there are none


def names(kind: str, namespace: str | None, kubeconfig: Path | None, context: str | None) -> list[str]:
    """Names of the objects of a kind, to complete what is typed; none if there is no cluster to ask."""
    try:
        ((resource, _),) = parse([kind, "any"])
        config = load(default_kubeconfig(kubeconfig), context)
        return asyncio.run(
            asyncio.wait_for(_listed(config, resource, namespace or config.namespace), _PATIENCE_SECONDS)
        )
    except (Refusal, KubeconfigError, ApiError, OSError, TimeoutError):
        return []


async def _listed(config: SingleConfig, resource: Resource, namespace: str) -> list[str]:
    verbs = connect(config)
    try:
        return [meta.name(obj) for obj in (await verbs.list(resource, namespace)).items]
    finally:
        await verbs.close()


def _print(branches: Sequence[TreeEntry], output: str) -> None:
    if output == "text":
        console = plain_console()
        for branch in branches:
            console.print(drawn(branch), soft_wrap=False)
        return
    items = [branch.as_data() for branch in branches]
    data = items[0] if len(items) == 1 else {"items": items}
    print_data(data, output)
