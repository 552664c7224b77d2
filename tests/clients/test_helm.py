"""Helm 3 and 4 install, upgrade, roll back and uninstall a chart, waiting for its Jobs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from .environments import HERE, program

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
RELEASE = "first"


class Helm:
    def __init__(self, binary: Path, kubeconfig: Path, home: Path, namespace: str) -> None:
        self._binary, self._namespace = binary, namespace
        self._environment = {"HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._binary, "--namespace", self._namespace, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=self._environment)

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout


@pytest.mark.parametrize("version", ["helm3", "helm4"])
def test_a_chart_goes_through_its_life(version: str, kubeconfig: Path, tmp_path: Path) -> None:
    helm = Helm(program(version), kubeconfig, tmp_path, version)
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))

    def greeting() -> str:
        return str(core.read_namespaced_config_map(RELEASE, version).data["greeting"])

    chart = str(HERE / "chart")
    assert "STATUS: deployed" in helm("install", RELEASE, chart, "--create-namespace", "--wait", "--timeout", "60s")
    assert greeting() == "hello"
    helm("upgrade", RELEASE, chart, "--set", "greeting=goodbye", "--set", "parallelism=2", "--wait", "--timeout", "60s")
    assert greeting() == "goodbye"
    helm("rollback", RELEASE, "1", "--wait", "--timeout", "60s")
    assert greeting() == "hello"
    history: list[Any] = json.loads(helm("history", RELEASE, "-o", "json"))
    assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]
    assert [entry["name"] for entry in json.loads(helm("list", "-o", "json"))] == [RELEASE]
    assert "kind: RoleBinding" in helm("get", "manifest", RELEASE)
    assert "STATUS: deployed" in helm("status", RELEASE)
    again = helm.run("install", RELEASE, chart)
    assert "a name that is still in use" in again.stderr
    helm("uninstall", RELEASE, "--wait", "--timeout", "60s")
    assert not core.list_namespaced_config_map(version, field_selector=f"metadata.name={RELEASE}").items
    assert not core.list_namespaced_secret(version).items


@pytest.mark.parametrize("version", ["helm3", "helm4"])
def test_a_kind_that_is_not_served_is_told(version: str, kubeconfig: Path, tmp_path: Path) -> None:
    helm = Helm(program(version), kubeconfig, tmp_path, "default")
    templates = tmp_path / "chart" / "templates"
    templates.mkdir(parents=True)
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: odd\nversion: 1.0.0\n")
    (templates / "odd.yaml").write_text("apiVersion: example.com/v1\nkind: Nosuch\nmetadata: {name: x}\n")
    refused = helm.run("install", "odd", str(tmp_path / "chart"))
    assert refused.returncode != 0
    assert 'no matches for kind "Nosuch" in version "example.com/v1"' in refused.stderr
