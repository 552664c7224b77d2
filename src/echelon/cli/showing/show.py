"""Connects, reads a snapshot of the namespace, prints the branches that were asked for."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import click
import yaml
from lightkube.config.kubeconfig import SingleConfig

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import Resource
from ...client.kubeconfig import KubeconfigError, connect, load
from ..failures import Refusal
from ..output import plain_console
from ..own_plane import default_data_directory, running_kubeconfig
from .drawing import drawn
from .entries import TreeEntry, entry_of
from .snapshot import Snapshot
from .targets import Target, parse

#: How long the completion of names may take.
_PATIENCE_SECONDS = 3.0


async def show(
    targets: Sequence[Target], namespace: str | None, output: str, kubeconfig: Path | None, context: str | None
) -> None:
    kubeconfig = _default(kubeconfig)
    try:
        config = load(kubeconfig, context)
        verbs = connect(config)
    except KubeconfigError as error:
        raise Refusal(f"{error}{_hint(kubeconfig)}") from error
    space = namespace or config.namespace
    try:
        snapshot = await Snapshot.read(verbs, space)
    except ApiError as error:
        raise Refusal(f"cannot read from {config.cluster.server}: {error}") from error
    finally:
        await verbs.close()
    branches: list[TreeEntry] = []
    for resource, name in targets:
        root = snapshot.find(resource, name)
        if root is None:
            raise Refusal(f'{resource.qualified} "{name}" not found in namespace {space}')
        branches.append(entry_of(snapshot, resource, root))
    _print(branches, output)


def names(kind: str, namespace: str | None, kubeconfig: Path | None, context: str | None) -> list[str]:
    """Names of the objects of a kind, to complete what is typed; none if there is no cluster to ask."""
    try:
        ((resource, _),) = parse([kind, "any"])
        config = load(_default(kubeconfig), context)
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


def _default(kubeconfig: Path | None) -> Path | None:
    """Without --kubeconfig and $KUBECONFIG, the plane that runs on this machine."""
    return kubeconfig or (None if os.environ.get("KUBECONFIG") else running_kubeconfig())


def _hint(kubeconfig: Path | None) -> str:
    """What to do where no cluster was named and no plane of this machine runs."""
    if kubeconfig is not None or os.environ.get("KUBECONFIG"):
        return ""
    return f"; no plane runs with the data of {default_data_directory()}: start one with echelon up"


def _print(branches: Sequence[TreeEntry], output: str) -> None:
    if output == "text":
        console = plain_console()
        for branch in branches:
            console.print(drawn(branch), soft_wrap=False)
        return
    items = [branch.as_data() for branch in branches]
    data = items[0] if len(items) == 1 else {"items": items}
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000), nl=False)
