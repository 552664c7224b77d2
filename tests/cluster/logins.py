"""As whom a server is asked: clients, tokens of service accounts, and kubeconfigs that have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from echelon.api.objects import meta
from echelon.api.scheme import SECRETS, Object
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs


@asynccontextmanager
async def client_of(login: Path) -> AsyncIterator[HttpVerbs]:
    """A client of that kubeconfig, for as long as the block lasts."""
    client = kubeconfig.connect(kubeconfig.load(login))
    try:
        yield client
    finally:
        await client.close()


async def token_of(
    verbs: HttpVerbs, namespace: str, account: str, seconds: int = 3600, ends_with: Object | None = None
) -> str:
    """A token of a service account, which ends with that Secret if one is given."""
    spec: Object = {"expirationSeconds": seconds}
    if ends_with is not None:
        name, uid = meta.name(ends_with), meta.uid(ends_with)
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": SECRETS.kind, "name": name, "uid": uid}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await verbs._call("POST", path, body)
    return str(answer["status"]["token"])


def with_token(login: Path, token: str, target: Path) -> Path:
    """A copy of a kubeconfig with this token in place of its user's."""
    return with_user(login, {"token": token}, target)


def with_user(login: Path, user: Mapping[str, str], target: Path) -> Path:
    content = yaml.safe_load(login.read_text())
    content["users"][0]["user"] = dict(user)
    target.write_text(yaml.safe_dump(content))
    return target
