"""Reads a kubeconfig and connects: server, certificate authority, credentials."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from .http import HttpVerbs


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says why and what to do."""


def load(path: Path | None, context: str | None = None) -> SingleConfig:
    """The chosen context of `path`, else of $KUBECONFIG, else the service account of the pod, else ~/.kube/config."""
    named = os.environ.get("KUBECONFIG")
    if path is None and not named:
        try:
            return _chosen(KubeConfig.from_service_account(), context)
        except (ConfigError, KeyError):  # not in a pod, or a context is named
            pass
    path = path or Path(named or DEFAULT_KUBECONFIG).expanduser()
    if not path.is_file():
        raise KubeconfigError(f"{path}: no such kubeconfig; set --kubeconfig or $KUBECONFIG")
    try:
        return _chosen(KubeConfig.from_file(path), context)
    except ConfigError as error:
        raise KubeconfigError(f"{path}: {error}") from error
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise KubeconfigError(f"{path}: not a valid kubeconfig: cannot read clusters and contexts") from error


def _chosen(config: KubeConfig, context: str | None) -> SingleConfig:
    chosen = config.get(context)
    assert chosen is not None
    return chosen


def connect(config: SingleConfig) -> HttpVerbs:
    """A client for that context; call inside the event loop that will use it."""
    user = config.user or User()
    if user.exec is not None:
        raise KubeconfigError(
            f"context {config.context_name!r} logs in with the command {user.exec.command!r}, "
            "which is not supported; use a context with a token or a client certificate"
        )
    token = user.token
    if token is None and user.token_file is not None:
        token = Path(config.abs_file(user.token_file)).read_text().strip()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return HttpVerbs(config.cluster.server, verify_cluster(config.cluster, user, config.abs_file), headers)
