"""A token file whose token is replaced and revoked while a client runs, on our server and on a real one.

A token bound to a Secret ends with that Secret, so rotation need not be waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, ROLE_BINDINGS, SECRETS, SERVICE_ACCOUNTS
from echelon.api.verbs import ListOptions
from echelon.client.http import HttpVerbs

from .conftest import Side
from .logins import client_of, token_of, with_user

_ACCOUNT = "robot"


class Robot:
    """A service account with a token file, as a pod has one."""

    def __init__(self, admin: HttpVerbs, namespace: str, home: Path) -> None:
        self._admin = admin
        self._namespace = namespace
        self._tokens: dict[str, str] = {}
        self.file = home / "token"
        self.kubeconfig = home / "robot.kubeconfig"

    async def issue(self, name: str) -> None:
        """A new token in the file, valid as long as the Secret of that name exists."""
        secret = await self._admin.create(SECRETS, {"metadata": {"name": name}}, self._namespace)
        self._tokens[name] = await token_of(self._admin, self._namespace, _ACCOUNT, 600, ends_with=secret)
        self.file.write_text(self._tokens[name])

    async def revoke(self, name: str) -> None:
        """Until the server refuses it, which has caches of its own."""
        await self._admin.delete(SECRETS, name, self._namespace)
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": self._tokens[name]},
        }
        async with asyncio.timeout(60):
            while True:
                answer = await self._admin._call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
                if not answer["status"].get("authenticated"):
                    return
                await asyncio.sleep(0.2)


@pytest.fixture
async def robot(side: Side, namespace: str, tmp_path: Path) -> Robot:
    assert isinstance(side.verbs, HttpVerbs)
    await side.verbs.create(SERVICE_ACCOUNTS, {"metadata": {"name": _ACCOUNT}}, namespace)
    subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": _ACCOUNT}, "roleRef": role, "subjects": [subject]}
    await side.verbs.create(ROLE_BINDINGS, binding, namespace)
    made = Robot(side.verbs, namespace, tmp_path)
    # What the file contained once, as the configuration of a pod has it, must not be used.
    with_user(side.kubeconfig, {"token": "stale", "tokenFile": str(made.file)}, made.kubeconfig)
    await made.issue("first")
    return made


@pytest.fixture
async def client(robot: Robot) -> AsyncIterator[HttpVerbs]:
    async with client_of(robot.kubeconfig) as client:
        yield client


async def test_no_request_fails_when_the_token_is_replaced_and_the_old_one_revoked(
    robot: Robot, client: HttpVerbs, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": "m-0"}}, namespace)
    old = robot.file.read_text()
    await robot.issue("second")
    new = robot.file.read_text()
    robot.file.write_text(old)
    await robot.revoke("first")
    for way in ("get", "list", "watch", "create"):
        # Each way meets the refusal first: the file has the new token, the client the old one.
        async with client_of(robot.kubeconfig) as fresh:
            robot.file.write_text(new)
            if way == "get":
                await fresh.get(CONFIG_MAPS, "m-0", namespace)
            elif way == "list":
                assert await fresh.list(CONFIG_MAPS, namespace, ListOptions(limit=1))
            elif way == "watch":
                assert (await anext(fresh.watch(CONFIG_MAPS, namespace))).type == "ADDED"
            else:
                await fresh.create(CONFIG_MAPS, {"metadata": {"name": "m-1"}}, namespace)
        robot.file.write_text(old)
    robot.file.write_text(new)
    assert await client.get(CONFIG_MAPS, "m-1", namespace)


async def test_requests_go_on_while_tokens_are_replaced_and_revoked(
    robot: Robot, client: HttpVerbs, namespace: str
) -> None:
    """As the kubelet does it: first the new token, then the end of the old one."""
    sent = 0

    async def load() -> None:
        nonlocal sent
        while True:
            await client.create(CONFIG_MAPS, {"metadata": {"generateName": "m-"}}, namespace)
            sent += 1

    loads = [asyncio.create_task(load()) for _ in range(8)]
    try:
        for number in range(3):
            before = sent
            await robot.issue(f"token-{number}")
            await robot.revoke("first" if number == 0 else f"token-{number - 1}")
            async with asyncio.timeout(60):
                while sent < before + 20:
                    await asyncio.sleep(0.05)
                    assert not any(task.done() for task in loads)
    finally:
        for task in loads:
            task.cancel()
    results = await asyncio.gather(*loads, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in results), results


async def test_a_token_that_nobody_replaces_is_refused_until_somebody_does(
    robot: Robot, client: HttpVerbs, namespace: str
) -> None:
    with suppress(ApiError):
        await client.get(CONFIG_MAPS, "m", namespace)
    await robot.revoke("first")
    with pytest.raises(ApiError) as refused:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace)
    assert refused.value.code == 401
    await robot.issue("second")
    await client.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace)
