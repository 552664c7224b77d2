"""The Helm chart and the kustomize tree: the objects of `echelon install`, and Helm's whole life on a real cluster."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.objects import meta
from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, Object
from echelon.client.http import HttpVerbs
from echelon.deploy.objects.installation import resource_of
from echelon.testing.builders import make_node
from tests.clients.environments import program

from .audit import nothing_forbidden
from .controlplane import ControlPlane, home, missing
from .gangs import places, submit_gang
from .installed_programs import kubelet_for
from .installing import everything, kubectl, kubectl_now
from .logins import client_of
from .open_definitions import open_definition
from .own_planes import own_plane
from .process import echelon
from .shipped_roles import NAMESPACE
from .waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = str(DEPLOY / "helm" / "echelon")
#: What a server tells Helm, which is not asked here.
POLICIES = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


@dataclass(frozen=True)
class Way:
    """The same wishes, said to Helm and to `echelon install`."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


WAYS = (
    Way("defaults"),
    Way(
        "monitoring, three replicas, other scheduler names",
        {"monitoring": True, "replicas": 3, "schedulerNames": ["mine", "echelon"]},
        ("--monitoring", "on", "--replicas", "3", "--scheduler-name", "mine", "--scheduler-name", "echelon"),
    ),
    Way(
        "everything chosen",
        {
            "image": "registry.example:5000/echelon@sha256:" + "0" * 64,
            "imagePullSecrets": [{"name": "registry"}],
            "replicas": 1,
            "parts": ["controllers", "scheduler"],
            "schedulerNames": ["mine"],
            "controllers": ["jobset", "trainjob"],
            "monitoring": True,
            "dashboard": False,
            "priorityClassName": "",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
            "resources": {"scheduler": {"requests": {"cpu": "2", "memory": "4Gi"}}},
        },
        (
            "--image", "registry.example:5000/echelon@sha256:" + "0" * 64, "--image-pull-secret", "registry",
            "--replicas", "1", "--scheduler-name", "mine", "--controllers", "jobset,trainjob", "--monitoring", "on",
            "--no-dashboard", "--priority-class", "", "--node-selector", "node-role.kubernetes.io/control-plane=",
            "--toleration", "node-role.kubernetes.io/control-plane", "--requests", "scheduler:cpu=2,memory=4Gi",
        ),
    ),
    Way("scheduler alone", {"parts": ["scheduler"]}, ("--only", "scheduler")),
    Way(
        "one controller alone",
        {"parts": ["controllers"], "controllers": ["stage-quota"]},
        ("--only", "controllers", "--controllers", "stage-quota"),
    ),
)  # fmt: skip


class Helm:
    def __init__(self, version: str, directory: Path, plane: ControlPlane | None = None) -> None:
        self._binary, self._directory = program(version), directory
        self._environment = {"HOME": str(directory), **({"KUBECONFIG": str(plane.kubeconfig)} if plane else {})}

    def run(self, *arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        given = self._directory / "values.yaml"
        given.write_text(yaml.safe_dump(values or {}))
        command = [str(self._binary), *arguments, "--namespace", NAMESPACE]
        if values is not None:
            command += ["--values", str(given)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=self._environment)

    def __call__(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        done = self.run(*arguments, values=values)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout


def by_name(objects: Iterable[Object]) -> dict[tuple[str, str, str], Object]:
    found = {(obj["kind"], meta.namespace(obj), meta.name(obj)): obj for obj in objects if obj}
    assert found
    return found


def loaded(text: str) -> list[Object]:
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


async def rendered(*arguments: str) -> list[Object]:
    async with echelon("install", "--render", *arguments) as command:
        assert await command.wait() == 0, "".join(command.said)
    return loaded("".join(command.said))


@pytest.mark.parametrize("version", ["helm3", "helm4"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_helm_makes_of_the_chart_what_echelon_install_makes(version: str, way: Way, tmp_path: Path) -> None:
    helm = Helm(version, tmp_path)
    template = await asyncio.to_thread(
        helm, "template", "any", CHART, "--kube-version", "1.37.1", "--api-versions", POLICIES, values=way.values
    )
    made = by_name(loaded(template))
    wanted = by_name(obj for obj in await rendered(*way.arguments) if resource_of(obj) != NAMESPACES)
    # Selectors given to Helm are added to the default, resources of a part in place of it.
    kinds = {key: obj for key, obj in wanted.items() if resource_of(obj) == CUSTOM_RESOURCE_DEFINITIONS}
    assert made == {key: obj for key, obj in wanted.items() if key not in kinds}
    crds = by_name(loaded((DEPLOY / "helm/echelon/crds/kinds.yaml").read_text()))
    assert {key: crds[key] for key in kinds} == kinds


@pytest.mark.parametrize("version", ["helm3", "helm4"])
async def test_a_server_that_policies_can_end_gets_none_of_the_chart(version: str, tmp_path: Path) -> None:
    made = {}
    for server in ("1.35.7", "1.36.0"):
        text = await asyncio.to_thread(Helm(version, tmp_path), "template", "any", CHART, "--kube-version", server)
        made[server] = {obj["kind"] for obj in loaded(text)}
    assert made["1.36.0"] - made["1.35.7"] == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert not {kind for kind in made["1.35.7"] if "Policy" in kind}


@pytest.mark.parametrize(
    ("folder", "options"),
    [("default", ()), ("monitoring", ("--monitoring", "on")), ("no-policies", ("--no-policies",))],
)
async def test_kubectl_makes_of_the_kustomize_tree_what_echelon_install_makes(
    folder: str, options: tuple[str, ...]
) -> None:
    if missing():
        pytest.skip(f"NO KUBECTL in {home()}: `make cluster-tools` builds it where Go is present")
    build = [str(home() / "kubectl"), "kustomize", str(DEPLOY / "kustomize" / folder)]
    done = await asyncio.to_thread(
        lambda: subprocess.run(build, capture_output=True, text=True, check=False, timeout=60)
    )
    assert done.returncode == 0, done.stderr
    assert by_name(loaded(done.stdout)) == by_name(await rendered(*options))


@pytest.mark.parametrize("version", ["helm3", "helm4"])
def test_the_chart_passes_lint_with_every_set_of_values(version: str, tmp_path: Path) -> None:
    helm = Helm(version, tmp_path)
    for way in WAYS:
        assert "0 chart(s) failed" in helm("lint", "--strict", CHART, values=way.values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shedulerNames": ["x"]}, "shedulerNames"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"parts": []}, "parts"),
        ({"parts": ["scheduler", "scheduler"]}, "parts"),
        ({"controllers": ["jobsets"]}, "controllers"),
        ({"schedulerNames": [""]}, "schedulerNames"),
        ({"imagePullSecrets": ["registry"]}, "imagePullSecrets"),
        ({"tolerations": [{"key": "a", "efect": "NoSchedule"}]}, "efect"),
        ({"resources": {"scheduler": {"request": {"cpu": "1"}}}}, "request"),
        ({"resources": {"webhook": {}}}, "webhook"),
        ({"monitoring": "yes"}, "monitoring"),
    ],
    ids=str,
)
def test_values_with_a_mistake_are_refused_by_name(values: dict[str, Any], words: str, tmp_path: Path) -> None:
    refused = Helm("helm4", tmp_path).run("template", "any", CHART, values=values)
    assert refused.returncode != 0
    assert words in refused.stderr


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "helm") as found:
        _serve_operator_kinds(found)
        yield found


def _serve_operator_kinds(plane: ControlPlane) -> None:
    """The Prometheus operator's kinds, as far as a server needs to know them."""
    kinds = (("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule"))
    definitions = [open_definition("monitoring.coreos.com", "v1", plural, kind) for plural, kind in kinds]
    kubectl_now(plane, "apply", "-f", "-", given=yaml.safe_dump_all(definitions))
    kubectl_now(plane, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


@pytest.fixture
async def verbs(plane: ControlPlane) -> AsyncIterator[HttpVerbs]:
    async with client_of(plane.kubeconfig) as client:
        yield client


@asynccontextmanager
async def node(verbs: HttpVerbs) -> AsyncIterator[str]:
    await verbs.create(NODES, make_node("n1", cpu=16))
    yield "n1"
    await verbs.delete(NODES, "n1")


#: Those of WAYS whose schedulers a process here can be.
@pytest.mark.parametrize(("version", "number"), [("helm4", 0), ("helm4", 1), ("helm4", 2), ("helm3", 0)])
async def test_a_release_is_installed_upgraded_and_removed_without_a_trace(
    plane: ControlPlane, verbs: HttpVerbs, tmp_path: Path, version: str, number: int
) -> None:
    helm, way = Helm(version, tmp_path, plane), WAYS[number]
    before = await _there(plane)
    await asyncio.to_thread(helm, "install", "first", CHART, "--create-namespace", values=way.values)
    with nothing_forbidden(plane.audit_log):
        async with kubelet_for(verbs, plane, tmp_path) as programs, node(verbs) as name:
            await eventually(lambda: _running(programs), 2)
            await _schedules(plane, verbs, name, way.values.get("schedulerNames", ["echelon"])[0])
    status = json.loads(await asyncio.to_thread(helm, "get", "metadata", "first", "-o", "json"))
    assert status["status"] == "deployed"
    # Nothing but the number of pods changes.
    there = await _generations(plane)
    changed = {**way.values, "replicas": 4}
    await asyncio.to_thread(helm, "upgrade", "first", CHART, values=changed)
    after = await _generations(plane)
    assert {key for key in after if after[key] != there.get(key)} == {
        key for key in there if key.startswith("deployment")
    }
    await asyncio.to_thread(helm, "uninstall", "first", "--wait", "--timeout", "120s")
    # Helm leaves the kinds; the programs leave their leases, and somebody else made the namespace's own objects.
    kinds = {f"customresourcedefinition.apiextensions.k8s.io/{name}" for name in _kinds()}
    await eventually(functools.partial(_left, plane, before), kinds)
    await kubectl(plane, "delete", "namespace", NAMESPACE)
    await kubectl(plane, "delete", "crd", *_kinds())


async def _there(plane: ControlPlane) -> set[str]:
    """Everything but what a namespace has by itself; names that Helm gives its records."""
    more = ",".join(
        (
            "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings", "servicemonitors", "prometheusrules",
        )
    )  # fmt: skip
    found = await everything(plane) | set((await kubectl(plane, "get", more, "-A", "-o", "name")).split())
    own = {f"namespace/{NAMESPACE}", "serviceaccount/default", "configmap/kube-root-ca.crt"}
    return found - own


async def _left(plane: ControlPlane, before: set[str]) -> set[str]:
    return {one for one in await _there(plane) - before if not one.startswith("lease")}


async def _running(programs: dict[str, Any]) -> int:
    return len(programs)


async def _schedules(plane: ControlPlane, verbs: HttpVerbs, node: str, scheduler: str) -> None:
    gang = await submit_gang(verbs, "default", node, "gang", scheduler)
    await eventually(places(verbs, "default", gang), {node})
    await kubectl(plane, "delete", "pods", "--all", "-n", "default", "--grace-period=0", "--force")
    await kubectl(plane, "delete", "podgroups", "--all", "-n", "default")


async def _generations(plane: ControlPlane) -> dict[str, str]:
    columns = "-o=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{'\\n'}{end}"
    lines = (await kubectl(plane, "-n", NAMESPACE, "get", "deploy,pdb", columns)).splitlines()
    return dict(line.lower().split(" ") for line in lines)


def _kinds() -> list[str]:
    return [meta.name(obj) for obj in loaded((DEPLOY / "helm/echelon/crds/kinds.yaml").read_text())]
