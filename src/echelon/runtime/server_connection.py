"""Connects to the API server of a kubeconfig; a kubeconfig that cannot be used is a `CannotStart`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .plane import CannotStart

if TYPE_CHECKING:
    from ..api.errors import ApiError
    from ..client.http import HttpVerbs


def advice(error: ApiError) -> str:
    """What to do about a refusal that has nothing to do with what was asked; goes behind its words."""
    away = "; is the server up, and are these the kubeconfig and the context that you mean?"
    return {
        401: "; the server rejects the credentials of this kubeconfig",
        403: "; a cluster administrator may do this",
        503: away,
        504: away,
    }.get(error.code, "")


def connect_to(path: Path | None, context: str | None) -> tuple[HttpVerbs, str]:
    """A client, to be closed by the caller, and the address of the server."""
    # Imported here, because loading the kubeconfig library takes time that other commands need not spend.
    from ..client.kubeconfig import KubeconfigError, connect, load

    try:
        config = load(path, context)
        return connect(config), config.cluster.server
    except KubeconfigError as error:
        raise CannotStart(str(error)) from error


@asynccontextmanager
async def connected(path: Path | None, context: str | None) -> AsyncIterator[tuple[HttpVerbs, str]]:
    """The same, while the block runs."""
    verbs, server = connect_to(path, context)
    try:
        yield verbs, server
    finally:
        await verbs.close()
