"""Several users of one control plane: `echelon up --authorization rbac`, `echelon user`, kubectl, the audit log."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import kubectl as kubectl_module
from .kubectl import Kubectl, Outcome
from .process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="NO KUBECTL ON PATH")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    data = tmp_path_factory.mktemp("users") / "data"
    up = UpProcess(data, "--nodes", "none", "--authorization", "rbac", "--audit-log", str(data.parent / "audit.jsonl"))
    up.start()
    yield up
    assert up.stop() == 0


@pytest.fixture(scope="module")
def admin(plane: UpProcess) -> Kubectl:
    return Kubectl(plane.kubeconfig, plane.data.parent / "cache")


def echelon(plane: UpProcess, *arguments: str) -> Outcome:
    command = [sys.executable, "-m", "echelon", "user", *arguments, "--data", str(plane.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ}, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def added(plane: UpProcess, name: str, *options: str) -> Kubectl:
    outcome = echelon(plane, "add", name, *options)
    assert outcome.code == 0, outcome.err
    path = plane.data.parent / f"{name}.kubeconfig"
    path.write_text(outcome.out)
    return Kubectl(path, plane.data.parent / f"{name}-cache")


def audited(plane: UpProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (plane.data.parent / "audit.jsonl").read_text().splitlines()]


@pytest.mark.conformance("API-116")
@pytest.mark.parametrize("options", [(), ("--certificate",)], ids=["token", "certificate"])
def test_a_user_may_do_what_its_group_is_granted(plane: UpProcess, admin: Kubectl, options: tuple[str, ...]) -> None:
    name = "cat" if options else "ann"
    group = f"{name}-group"
    person = added(plane, name, "--group", group, *options)
    assert group in person("auth", "whoami")
    refused = person.run("get", "pods")
    assert f'pods is forbidden: User "{name}" cannot list resource "pods"' in refused.err
    assert person.run("auth", "can-i", "list", "pods").out.strip() == "no"
    admin("create", "rolebinding", group, "--clusterrole=edit", f"--group={group}")
    assert person("auth", "can-i", "list", "pods").strip() == "yes"
    person("create", "configmap", name, "--from-literal=a=b")
    assert person.run("get", "pods", "-n", "kube-system").code == 1
    assert name in echelon(plane, "list").out
    assert echelon(plane, "remove", name).code == 0
    assert "Unauthorized" in person.run("get", "pods").err


def test_expiry_is_listed_and_bad_input_refused_in_one_line(plane: UpProcess) -> None:
    added(plane, "brief", "--expires", "30m")
    line = next(line for line in echelon(plane, "list").out.splitlines() if line.startswith("brief"))
    assert "never" not in line
    for arguments, words in (
        (("add", "brief"), "user brief exists"),
        (("add", "system:admin"), "must not be empty or start with system:"),
        (("add", "x", "--expires", "soon"), "write it as 30m"),
        (("remove", "absent"), "there is no user absent"),
    ):
        outcome = echelon(plane, *arguments)
        assert outcome.code == 2
        assert words in outcome.err
        assert len(outcome.err.splitlines()) == 1


def test_users_are_kept_as_hashes_that_others_cannot_read(plane: UpProcess) -> None:
    person = added(plane, "hashed")
    token = person.kubeconfig.read_text().partition("token: ")[2].split()[0]
    path = plane.data / "pki" / "users.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()


def test_every_namespace_gets_a_default_service_account(admin: Kubectl) -> None:
    admin("create", "namespace", "fresh")
    admin("wait", "--for=create", "serviceaccount/default", "-n", "fresh", "--timeout=20s")
    issued = admin("create", "token", "default", "-n", "fresh").strip()
    assert "system:serviceaccounts:fresh" in admin("auth", "whoami", "--token", issued)


def test_the_audit_log_says_who_did_what_and_no_secrets(plane: UpProcess, admin: Kubectl) -> None:
    admin("create", "secret", "generic", "hidden", "--from-literal=password=hunter2")
    admin.run("get", "secrets", "--as", "mallory")
    events = audited(plane)
    created = next(
        event
        for event in events
        if event["verb"] == "create" and event.get("objectRef", {}).get("resource") == "secrets"
    )
    assert created["user"]["username"] == "admin"
    assert created["responseStatus"]["code"] == 201
    refused = next(event for event in events if event.get("impersonatedUser", {}).get("username") == "mallory")
    assert refused["user"]["username"] == "admin"
    path = plane.data.parent / "audit.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "hunter2" not in text
    assert (plane.data / "pki" / "token").read_text() not in text


def test_an_address_that_is_not_loopback_needs_roles(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "echelon", "up", "--data", str(tmp_path / "d"), "--bind", "0.0.0.0", "--port", "0",
        "--authorization", "allow-all", "--nodes", "none",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "needs RBAC" in done.stderr
