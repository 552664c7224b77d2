"""Reads a kubeconfig and connects: server, certificate authority, credentials."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from .http import HttpVerbs
from .login.credentials import FileCredentials, FileValue, LoginSource
from .login.exec_login import ExecCredentials


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
    return HttpVerbs(config.cluster.server, _credentials(config, asyncio.get_running_loop().time))


def _credentials(config: SingleConfig, now: Callable[[], float]) -> LoginSource:
    user = config.user or User()
    try:
        if user.exec is not None:
            return ExecCredentials(config, user.exec, time.time)
        return FileCredentials(_authorization(config, user), _tls(config, user), now)
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"context {config.context_name!r}: cannot read its credentials: {error}") from error


def _authorization(config: SingleConfig, user: User) -> FileValue[str]:
    """The Authorization header; a token file has precedence, as the other token is only what it contained once."""
    if user.token_file is None:
        return FileValue((), lambda: f"Bearer {user.token}" if user.token else "")
    file = Path(config.abs_file(user.token_file))

    def read() -> str:
        token = file.read_text().strip()
        if not token:
            raise ValueError(f"{file} is empty")
        return f"Bearer {token}"

    return FileValue((file,), read)


def _tls(config: SingleConfig, user: User) -> FileValue[ssl.SSLContext]:
    """The TLS context; certificates that are part of the kubeconfig itself are not read again."""
    named = (config.cluster.certificate_auth, user.client_cert, user.client_key)
    files = [Path(config.abs_file(name)) for name in named if name]
    return FileValue(files, lambda: verify_cluster(config.cluster, user, config.abs_file))
