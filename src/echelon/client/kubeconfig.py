"""Connecting by kubeconfig: which server, which trust, which credentials."""

from __future__ import annotations

from pathlib import Path

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from .http import HttpVerbs


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says why and what to do."""


def load(path: Path | None, context: str | None = None) -> SingleConfig:
    """The chosen context of a file, or of $KUBECONFIG / ~/.kube/config when no file is named."""
    try:
        config = KubeConfig.from_file(path) if path else KubeConfig.from_env()
        chosen = config.get(context)
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise KubeconfigError(f"{path or 'kubeconfig'}: {error}") from error
    assert chosen is not None
    return chosen


def connect(config: SingleConfig) -> HttpVerbs:
    """A client for that context; call inside the event loop that will use it."""
    user = config.user or User()
    if user.exec is not None:
        raise KubeconfigError(
            f"context {config.context_name!r} logs in with the command {user.exec.command!r}, "
            "which is not supported yet; use a context with a token or client certificate"
        )
    token = user.token
    if token is None and user.token_file is not None:
        token = Path(config.abs_file(user.token_file)).read_text().strip()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return HttpVerbs(config.cluster.server, verify_cluster(config.cluster, user, config.abs_file), headers)
