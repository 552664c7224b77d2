"""The cluster that a reading command looks at: a kubeconfig, else the plane that runs on this machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lightkube.config.kubeconfig import SingleConfig

from ...api.errors import ApiError
from ...client.http import HttpVerbs
from ...client.kubeconfig import KubeconfigError, connect, load
from ...runtime.server_connection import advice
from ..failures import Refusal
from ..own_plane import default_data_directory, running_kubeconfig


@asynccontextmanager
async def reading(kubeconfig: Path | None, context: str | None) -> AsyncIterator[tuple[HttpVerbs, SingleConfig]]:
    """A client while the block runs; what the server refuses there ends the command with one line."""
    kubeconfig = default_kubeconfig(kubeconfig)
    try:
        config = load(kubeconfig, context)
        verbs = connect(config)
    except KubeconfigError as error:
        raise Refusal(f"{error}{_hint(kubeconfig)}") from error
    try:
        yield verbs, config
    except ApiError as error:
        raise Refusal(f"cannot read from {config.cluster.server}: {error}{advice(error)}") from error
    finally:
        await verbs.close()


def default_kubeconfig(kubeconfig: Path | None) -> Path | None:
    """Without --kubeconfig and $KUBECONFIG, the plane that runs on this machine."""
    return kubeconfig or (None if os.environ.get("KUBECONFIG") else running_kubeconfig())


def _hint(kubeconfig: Path | None) -> str:
    """What to do where no cluster was named and no plane of this machine runs."""
    if kubeconfig is not None or os.environ.get("KUBECONFIG"):
        return ""
    return f"; no plane runs with the data of {default_data_directory()}: start one with echelon up"
