"""`kubectl create <generator>`, which sends protobuf: every generator whose kind is served, with two kubectls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api import scheme
from tests.cluster import controlplane

from .kubectl import Kubectl

#: The kubectl on PATH, and the one built with the real control plane.
BINARIES = [path for path in (shutil.which("kubectl"), str(controlplane.home() / "kubectl")) if path]
#: What is created: apiVersion and kind, the resource, the arguments.
GENERATORS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "namespace": ("v1", "Namespace", ()),
    "configmap": ("v1", "ConfigMap", ("--from-literal=a=1", "--from-literal=b=")),
    "secret generic": ("v1", "Secret", ("--from-literal=a=1",)),
    "secret docker-registry": ("v1", "Secret", ("--docker-username=u", "--docker-password=p")),
    "serviceaccount": ("v1", "ServiceAccount", ()),
    "service clusterip": ("v1", "Service", ("--tcp=80:8080",)),
    "service nodeport": ("v1", "Service", ("--tcp=80",)),
    "service externalname": ("v1", "Service", ("--external-name=example.org",)),
    "quota": ("v1", "ResourceQuota", ("--hard=cpu=1,pods=2",)),
    "job": ("batch/v1", "Job", ("--image=busybox", "--", "date")),
    "cronjob": ("batch/v1", "CronJob", ("--image=busybox", "--schedule=*/5 * * * *", "--", "date")),
    "deployment": ("apps/v1", "Deployment", ("--image=nginx", "--replicas=2")),
    "priorityclass": ("scheduling.k8s.io/v1", "PriorityClass", ("--value=1000", "--description=d")),
    "poddisruptionbudget": ("policy/v1", "PodDisruptionBudget", ("--selector=a=b", "--min-available=50%")),
    "role": ("rbac.authorization.k8s.io/v1", "Role", ("--verb=get,list", "--resource=pods")),
    "rolebinding": ("rbac.authorization.k8s.io/v1", "RoleBinding", ("--clusterrole=view", "--user=u")),
    "clusterrole": ("rbac.authorization.k8s.io/v1", "ClusterRole", ("--verb=get", "--resource=nodes")),
    "clusterrolebinding": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ("--clusterrole=view", "--group=g")),
    "ingress": ("networking.k8s.io/v1", "Ingress", ("--rule=example.org/=svc:80",)),
}
SERVED = [name for name, (version, kind, _) in GENERATORS.items() if scheme.by_kind(version, kind)]


@pytest.fixture(scope="module", params=BINARIES, ids=[f"kubectl {number}" for number, _ in enumerate(BINARIES)])
def any_kubectl(request: pytest.FixtureRequest, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    if not Path(request.param).is_file():
        pytest.skip("no kubectl of the real control plane: run `make cluster-tools`")
    return Kubectl(kubectl.kubeconfig, tmp_path_factory.mktemp("cache"), request.param)


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    return (f"made-{number}" for number in range(1000))


@pytest.mark.conformance("API-101")
@pytest.mark.parametrize("generator", SERVED)
def test_generator_creates_what_its_own_json_creates(
    any_kubectl: Kubectl, names: Iterator[str], generator: str
) -> None:
    version, kind, arguments = GENERATORS[generator]
    resource = scheme.by_kind(version, kind)
    assert resource is not None
    name = next(names)
    words = ("create", *generator.split(), name, *arguments)
    written = any_kubectl(*_with_flags(words, "--dry-run=client", "-o", "yaml"))
    any_kubectl(*words)
    by_protobuf = any_kubectl.object(resource.qualified, name)
    any_kubectl("delete", resource.qualified, name, "--wait=false")
    if resource is scheme.NAMESPACES:
        return  # it stays until its controller has emptied it
    any_kubectl("create", manifest=yaml.safe_load(written))
    by_json = any_kubectl.object(resource.qualified, name)
    assert _comparable(by_protobuf) == _comparable(by_json)
    any_kubectl("delete", resource.qualified, name, "--wait=false")


def _with_flags(words: tuple[str, ...], *flags: str) -> tuple[str, ...]:
    """Flags stand before the command of the container."""
    at = words.index("--") if "--" in words else len(words)
    return (*words[:at], *flags, *words[at:])


def _comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """What does not differ between two objects of the same content.

    Node ports are given out one by one, and the server writes the status of a quota in a moment of its own.
    """
    found: dict[str, Any] = yaml.safe_load(yaml.safe_dump(obj).replace(obj["metadata"]["uid"], "UID"))
    for field in ("creationTimestamp", "resourceVersion", "managedFields"):
        found["metadata"].pop(field, None)
    for port in found.get("spec", {}).get("ports") or () if found["kind"] == "Service" else ():
        port.pop("nodePort", None)
    if found["kind"] == "ResourceQuota":
        found.pop("status", None)
    return found


@pytest.mark.parametrize("command", ["create", "apply"])
def test_a_kind_that_is_not_served_has_no_matches(any_kubectl: Kubectl, command: str) -> None:
    manifest = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "x"}}
    outcome = any_kubectl.run(command, manifest=manifest)
    assert outcome.code == 1
    assert 'no matches for kind "Thing" in version "example.org/v1"' in outcome.err
    assert "ensure CRDs are installed first" in outcome.err


def test_a_token_is_made_for_a_service_account(any_kubectl: Kubectl, names: Iterator[str]) -> None:
    account = next(names)
    any_kubectl("create", "serviceaccount", account)
    token = any_kubectl("create", "token", account, "--duration=1h").strip()
    assert token
    said = any_kubectl("--token", token, "auth", "whoami", "-o", "yaml")
    assert yaml.safe_load(said)["status"]["userInfo"]["username"] == f"system:serviceaccount:default:{account}"


def test_reviews_are_answered(any_kubectl: Kubectl) -> None:
    assert any_kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "admin" in any_kubectl("auth", "whoami")
