"""Kubeconfigs that log in with a command: a real script as the plugin, a real server behind TLS."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.errors import ApiError
from echelon.api.scheme import NAMESPACES
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from tests.https_server import running

#: Prints what `answer.json` has, counts how often it is asked, and notes what it was told.
PLUGIN = """#!{python}
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
(here / "asked").write_text((here / "asked").read_text() + " ".join(sys.argv[1:]) + os.environ.get("EXTRA", "") + "\\n")
(here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
answer = (here / "answer").read_text()
print(answer)
sys.exit(3 if answer == "fail" else 0)
"""


class Plugin:
    """A kubeconfig whose user is a command."""

    def __init__(self, home: Path, original: Path) -> None:
        self.home = home
        self.kubeconfig = home / "exec.kubeconfig"
        content = yaml.safe_load(original.read_text())
        self.token = content["users"][0]["user"]["token"]
        self.exec: dict[str, Any] = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "args": ["get-token"],
            "env": [{"name": "EXTRA", "value": "!"}],
            "installHint": "install it from example.com",
            "interactiveMode": "Never",
        }
        self._content = content
        script = home / "login"
        script.write_text(PLUGIN.format(python=sys.executable))
        script.chmod(0o755)
        (home / "asked").write_text("")
        self.answers(token=self.token)

    def answers(self, **status: str) -> None:
        self.prints(json.dumps({"apiVersion": self.exec["apiVersion"], "kind": "ExecCredential", "status": status}))

    def prints(self, text: str) -> None:
        (self.home / "answer").write_text(text)

    def connect(self) -> HttpVerbs:
        self._content["users"][0]["user"] = {"exec": self.exec}
        self.kubeconfig.write_text(yaml.safe_dump(self._content))
        return kubeconfig.connect(kubeconfig.load(self.kubeconfig))

    @property
    def asked(self) -> list[str]:
        return (self.home / "asked").read_text().splitlines()


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    async with running(tmp_path / "server") as (server, _):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield Plugin(tmp_path, tmp_path / "kubeconfig")


async def refusal(verbs: HttpVerbs) -> str:
    try:
        with pytest.raises(ApiError) as caught:
            await verbs.list(NAMESPACES)
    finally:
        await verbs.close()
    return str(caught.value)


async def test_a_command_is_run_once_for_many_requests(plugin: Plugin) -> None:
    verbs = plugin.connect()
    listed = await asyncio.gather(*(verbs.list(NAMESPACES) for _ in range(8)))
    assert all(one.items for one in listed)
    await verbs.close()
    assert plugin.asked == ["get-token!"]
    info = json.loads((plugin.home / "info").read_text())
    assert info["kind"] == "ExecCredential"
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"]["server"].startswith("https://")
    assert info["spec"]["cluster"]["certificate-authority-data"]


async def test_a_login_that_expires_is_renewed(plugin: Plugin) -> None:
    plugin.answers(token=plugin.token, expirationTimestamp="2001-01-01T00:00:00Z")
    verbs = plugin.connect()
    await verbs.list(NAMESPACES)
    await verbs.list(NAMESPACES)
    assert len(plugin.asked) == 2
    plugin.answers(token=plugin.token, expirationTimestamp="2999-01-01T00:00:00Z")
    await verbs.list(NAMESPACES)
    await verbs.list(NAMESPACES)
    await verbs.close()
    assert len(plugin.asked) == 3


async def test_a_login_that_the_server_refuses_is_renewed(plugin: Plugin) -> None:
    verbs = plugin.connect()
    await verbs.list(NAMESPACES)
    plugin.answers(token="wrong")
    await verbs.close()
    plugin.answers(token="stale")
    verbs = plugin.connect()
    assert "Unauthorized" in str(await refused_once(verbs))
    plugin.answers(token=plugin.token)
    assert (await verbs.list(NAMESPACES)).items
    await verbs.close()


async def refused_once(verbs: HttpVerbs) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await verbs.list(NAMESPACES)
    return caught.value


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("fail", "ended with exit code 3"),
        ("not json", "did not print JSON"),
        ("[]", "did not print an ExecCredential"),
        ('{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1"}', "the kubeconfig says"),
        (
            '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {}}',
            "printed neither a token nor a client certificate",
        ),
        (
            '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", '
            '"status": {"clientCertificateData": "x", "clientKeyData": "y"}}',
            "the client certificate of ./login",
        ),
        (
            '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", '
            '"status": {"token": "t", "expirationTimestamp": "tomorrow"}}',
            "./login printed expirationTimestamp 'tomorrow'",
        ),
    ],
)
async def test_what_is_wrong_with_a_command_is_said(plugin: Plugin, printed: str, words: str) -> None:
    plugin.prints(printed)
    told = await refusal(plugin.connect())
    assert "cannot log in: " in told
    assert words in told


async def test_a_command_that_is_not_there_is_said_with_its_hint(plugin: Plugin) -> None:
    plugin.exec["command"] = "no-such-login-command"
    told = await refusal(plugin.connect())
    assert "no-such-login-command: No such file or directory; install it from example.com" in told


async def test_a_version_that_is_not_known_is_refused_at_once(plugin: Plugin) -> None:
    plugin.exec["apiVersion"] = "client.authentication.k8s.io/v1alpha1"
    with pytest.raises(kubeconfig.KubeconfigError, match="v1alpha1; known are"):
        plugin.connect()
