"""kubectl 1.32 and 1.37 against a whole plane: every command that needs no container, with default settings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import controlplane
from tests.e2e.kubectl import Kubectl

from .environments import program

pytestmark = pytest.mark.clients
VERSIONS = ("1.32", "1.37")


def binary(version: str) -> Path:
    """The one on PATH if it is of that version, else one that is built."""
    own = shutil.which("kubectl")
    if own and f'"v{version}.' in subprocess.check_output([own, "version", "--client", "-o", "json"], text=True):
        return Path(own)
    if version == "1.32":
        return program("kubectl132")
    found = controlplane.home() / "kubectl"
    if not found.is_file():
        pytest.skip("NO KUBECTL 1.37: run `make cluster-tools`")
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def everywhere(request: pytest.FixtureRequest, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """One kubectl, as its user has it."""
    return Kubectl(kubeconfig, tmp_path_factory.mktemp("cache"), str(binary(request.param)))


class Within(Kubectl):
    """kubectl in a namespace of its own."""

    def command(self, *arguments: str) -> list[str]:
        return [*super().command(), "--namespace", self.cache.name.removeprefix("cache-"), *arguments]


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, everywhere: Kubectl, tmp_path: Path) -> Iterator[Kubectl]:
    assert everywhere.binary is not None
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:50]
    everywhere("create", "namespace", name)
    cache = tmp_path / f"cache-{name}"
    cache.mkdir()
    yield Within(everywhere.kubeconfig, cache, everywhere.binary)
    everywhere("delete", "namespace", name, "--wait=false")


def job(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {**spec, "template": template},
    }  # fmt: skip


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_version_discovery_and_cluster_info(kubectl: Kubectl) -> None:
    versions = yaml.safe_load(kubectl("version", "-o", "yaml"))
    assert versions["serverVersion"]["minor"].startswith("37")
    assert "is running at" in kubectl("cluster-info")
    assert {"v1", "apps/v1", "batch/v1", "scheduling.k8s.io/v1beta1"} <= set(kubectl("api-versions").split())
    kinds = kubectl("api-resources", "--verbs=list", "-o", "wide")
    assert {"pods", "jobs", "podgroups", "nodes"} <= {line.split()[0] for line in kinds.splitlines()}
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "current-context" in kubectl("config", "view")


def test_get_in_every_form(kubectl: Kubectl) -> None:
    kubectl("create", manifest=[config_map("a", {"x": "1"}, k="v"), config_map("b", {"x": "2"}, k="w")])
    assert kubectl("get", "cm", "-l", "x=1", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "-l", "x in (1,2)", "-o", "jsonpath={.items[*].data.k}") == "v w"
    assert kubectl("get", "cm", "a", "-o", "go-template={{.data.k}}") == "v"
    columns = kubectl("get", "cm", "-l", "x", "-o", "custom-columns=N:.metadata.name,V:.data.k", "--no-headers")
    assert [line.split() for line in columns.splitlines()] == [["a", "v"], ["b", "w"]]
    assert kubectl("get", "cm,secrets", "-l", "x", "--show-labels").count("configmap/") == 2
    assert kubectl("get", "cm", "-l", "x", "--sort-by=.data.k", "-o", "name") == "configmap/a\nconfigmap/b\n"
    assert "kube-root-ca.crt" not in kubectl("get", "cm", "--field-selector", "metadata.name=a")
    assert json.loads(kubectl("get", "cm", "a", "-o", "json", "--show-managed-fields"))["kind"] == "ConfigMap"
    assert "INTERNAL-IP" in kubectl("get", "nodes", "-o", "wide")
    kubectl("get", "all", "-A")
    missing = kubectl.run("get", "cm", "nosuch")
    assert (missing.code, missing.err) == (1, 'Error from server (NotFound): configmaps "nosuch" not found\n')
    assert kubectl("get", "cm", "nosuch", "--ignore-not-found") == ""
    assert 'doesn\'t have a resource type "nosuch"' in kubectl.run("get", "nosuch").err


def test_watch_of_a_list_and_of_one_object(kubectl: Kubectl) -> None:
    kubectl("create", manifest=config_map("w", k="v"))
    for watched in (("cm", "w"), ("cm", "--field-selector", "metadata.name=w")):
        process = kubectl.start("get", *watched, "-w", "--output-watch-events", "--no-headers")
        assert process.stdout is not None
        try:
            assert process.stdout.readline().split()[0] == "ADDED"
            kubectl("annotate", "cm", "w", f"at={time.monotonic_ns()}", "--overwrite")
            assert process.stdout.readline().split()[0] == "MODIFIED"
        finally:
            process.kill()
            process.communicate()


def test_describe_every_kind_that_exists(kubectl: Kubectl) -> None:
    kubectl("create", manifest=job("told"))
    kubectl("wait", "--for=condition=Complete", "job/told", "--timeout=60s")
    until(lambda: "Completed" in kubectl("describe", "job", "told"))
    assert re.search(r"Status: +Succeeded", kubectl("describe", "pods", "-l", "job-name=told"))
    node = kubectl("get", "nodes", "-o", "name").split()[0]
    assert "Allocated resources:" in kubectl("describe", node)
    listed = kubectl("api-resources", "--verbs=list,get", "-o", "name").split()
    for kind in listed:
        kubectl("describe", kind, "-A" if kind != "nodes" else "--all-namespaces")


def test_apply_in_every_way(kubectl: Kubectl, tmp_path: Path) -> None:
    one = config_map("one", {"set": "x"}, a="1")
    assert kubectl("apply", manifest=one) == "configmap/one created\n"
    assert kubectl("apply", manifest=one) == "configmap/one unchanged\n"
    assert kubectl("apply", manifest=config_map("one", {"set": "x"}, b="2")) == "configmap/one configured\n"
    assert kubectl.object("cm", "one")["data"] == {"b": "2"}
    assert kubectl("apply", "--server-side", manifest=one) == "configmap/one serverside-applied\n"
    assert kubectl.object("cm", "one")["data"] == {"a": "1"}
    assert kubectl("apply", "view-last-applied", "cm/one")
    other = config_map("one", {"set": "x"}, a="2")
    refused = kubectl.run("apply", "--server-side", "--field-manager=other", manifest=other)
    assert "conflict" in refused.err
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", manifest=other)
    diff = kubectl.run("diff", "--server-side", "--field-manager=other", manifest=one)
    assert diff.code == 1
    assert "+  a: " in diff.out
    assert kubectl.run("diff", manifest=config_map("one", {"set": "x"}, a="2")).code in (0, 1)
    kubectl("apply", "--dry-run=server", manifest=config_map("never", a="1"))
    assert kubectl.run("get", "cm", "never").code == 1
    folder = tmp_path / "kustomized"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text("configMapGenerator:\n- name: made\n  literals: [a=1]\n")
    assert "configmap/made-" in kubectl("apply", "-k", str(folder))


def test_prune_and_applysets(kubectl: Kubectl) -> None:
    both = [config_map("p1", {"set": "p"}, a="1"), config_map("p2", {"set": "p"}, a="1")]
    kubectl("apply", "--prune", "-l", "set=p", "--prune-allowlist=core/v1/ConfigMap", manifest=both)
    told = kubectl("apply", "--prune", "-l", "set=p", "--prune-allowlist=core/v1/ConfigMap", manifest=both[:1])
    assert "configmap/p2 pruned" in told
    kubectl = _with_environment(kubectl, KUBECTL_APPLYSET="true")
    sets = [config_map("s1", a="1"), config_map("s2", a="1")]
    kubectl("apply", "--server-side", "--prune", "--applyset=group", manifest=sets)
    assert "configmap/s2 pruned" in kubectl("apply", "--server-side", "--prune", "--applyset=group", manifest=sets[:1])


def _with_environment(kubectl: Kubectl, **values: str) -> Kubectl:
    class Changed(type(kubectl)):  # type: ignore[misc]
        def environment(self) -> dict[str, str]:
            return {**super().environment(), **values}

    return Changed(kubectl.kubeconfig, kubectl.cache, kubectl.binary)


def test_create_replace_edit_and_set(kubectl: Kubectl) -> None:
    kubectl("create", manifest=config_map("one", a="1"))
    assert "AlreadyExists" in kubectl.run("create", manifest=config_map("one", a="1")).err
    kubectl("replace", manifest=config_map("one", b="2"))
    kubectl("replace", "--force", manifest=config_map("one", c="3"))
    assert kubectl.object("cm", "one")["data"] == {"c": "3"}
    editing = _with_environment(kubectl, KUBE_EDITOR="sed -i 's/c: .*/c: edited/'")
    assert "configmap/one edited" in editing("edit", "cm", "one")
    assert kubectl.object("cm", "one")["data"] == {"c": "edited"}
    kubectl("create", manifest=job("work", suspend=True))
    strict = config_map("odd", a="1")
    strict["dat"] = {}
    assert 'unknown field "dat"' in kubectl.run("create", manifest=strict).err
    kubectl("create", "--validate=ignore", manifest=strict)


GENERATORS = {
    "clusterrole": ("{name}", "--verb=get,list", "--resource=pods"),
    "clusterrolebinding": ("{name}", "--clusterrole=view", "--user=u"),
    "configmap": ("{name}", "--from-literal=a=1"),
    "cronjob": ("{name}", "--image=busybox", "--schedule=*/5 * * * *"),
    "deployment": ("{name}", "--image=nginx", "--replicas=2"),
    "ingress": ("{name}", "--rule=example.org/*=svc:80,tls=cert"),
    "job": ("{name}", "--image=busybox"),
    "namespace": ("{name}",),
    "poddisruptionbudget": ("{name}", "--selector=a=b", "--min-available=1"),
    "priorityclass": ("{name}", "--value=7"),
    "quota": ("{name}", "--hard=pods=100"),
    "role": ("{name}", "--verb=get", "--resource=pods"),
    "rolebinding": ("{name}", "--role=r", "--serviceaccount=default:default"),
    "secret docker-registry": ("{name}", "--docker-username=u", "--docker-password=p"),
    "secret generic": ("{name}", "--from-literal=a=1"),
    "service clusterip": ("{name}", "--tcp=80"),
    "service externalname": ("{name}", "--external-name=example.org"),
    "service loadbalancer": ("{name}", "--tcp=80"),
    "service nodeport": ("{name}", "--tcp=80"),
    "serviceaccount": ("{name}",),
}


@pytest.mark.conformance("API-101")
@pytest.mark.parametrize("generator", GENERATORS)
def test_generator(everywhere: Kubectl, generator: str, request: pytest.FixtureRequest) -> None:
    version = request.node.callspec.params["everywhere"].replace(".", "")
    name = f"made-{generator.replace(' ', '-')}-{version}"
    arguments = (word.format(name=name) for word in GENERATORS[generator])
    assert everywhere("create", *generator.split(), *arguments).endswith(f"/{name} created\n")
    everywhere("delete", "secret" if generator.startswith("secret") else generator.split()[0], name, "--wait=false")


def test_run_and_expose(kubectl: Kubectl) -> None:
    assert kubectl("run", "web", "--image=nginx", "--port=80", "--labels=app=web") == "pod/web created\n"
    assert kubectl("expose", "pod", "web", "--port=8080", "--target-port=80") == "service/web exposed\n"
    assert kubectl.object("service", "web")["spec"]["selector"] == {"app": "web"}
    kubectl("run", "direct", "--image=nginx", "--expose", "--port=80")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    kubectl("create", "deployment", "d", "--image=nginx")
    assert kubectl("expose", "deployment", "d", "--port=80", "--type=NodePort") == "service/d exposed\n"


def test_patch_label_annotate_and_subresources(kubectl: Kubectl) -> None:
    kubectl("create", manifest=[config_map("one", a="1"), job("work", suspend=True)])
    kubectl("patch", "cm", "one", "-p", '{"data": {"b": "2"}}')
    kubectl("patch", "cm", "one", "--type=merge", "-p", '{"data": {"a": null}}')
    kubectl("patch", "cm", "one", "--type=json", "-p", '[{"op": "add", "path": "/data/c", "value": "3"}]')
    assert kubectl.object("cm", "one")["data"] == {"b": "2", "c": "3"}
    kubectl("patch", "job", "work", "--subresource=status", "--type=merge", "-p", '{"status": {"ready": 0}}')
    kubectl("get", "job", "work", "--subresource=status")
    kubectl("label", "cm", "one", "x=1")
    assert "already has a value" in kubectl.run("label", "cm", "one", "x=2").err
    kubectl("label", "cm", "--all", "x=2", "--overwrite")
    kubectl("annotate", "cm", "one", "note=hello")
    assert kubectl.object("cm", "one")["metadata"]["labels"] == {"x": "2"}
    assert kubectl("label", "cm", "one", "--list") == "x=2\n"
    kubectl("label", "cm", "one", "x-")
    kubectl("annotate", "cm", "one", "note-")
    assert "labels" not in kubectl.object("cm", "one")["metadata"]


def test_deployment_through_its_life(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("scale", "deployment/web", "--replicas=3", "--current-replicas=2")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert len(kubectl("get", "pods", "-l", "app=web", "-o", "name").split()) == 3
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("set", "env", "deployment/web", "COLOUR=red")
    kubectl("set", "resources", "deployment/web", "--limits=cpu=1", "--requests=cpu=500m")
    kubectl("set", "serviceaccount", "deployment/web", "default")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    history = kubectl("rollout", "history", "deployment/web")
    assert len(history.split("\n")) > 4, history
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert kubectl.object("deployment", "web")["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"
    kubectl("rollout", "pause", "deployment/web")
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "Replicas:" in kubectl("describe", "deployment", "web")
    kubectl("scale", "rs", "-l", "app=web", "--replicas=0")
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert kubectl("get", "rs,pods", "-l", "app=web", "-o", "name") == ""


def test_wait_in_every_form(kubectl: Kubectl) -> None:
    kubectl("create", manifest=[job("work"), config_map("one", a="1")])
    kubectl("wait", "--for=condition=Complete", "job/work", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.data.a}=1", "cm/one", "--timeout=60s")
    kubectl("wait", "--for=create", "cm/one", "--timeout=60s")
    waiting = kubectl.start("wait", "--for=delete", "cm/one", "--timeout=60s")
    time.sleep(0.5)
    assert waiting.poll() is None
    kubectl("delete", "cm", "one")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out + err
    late = kubectl.run("wait", "--for=condition=Never", "job/work", "--timeout=1s")
    assert "timed out waiting" in late.err


def test_delete_in_every_way(kubectl: Kubectl) -> None:
    pods = ("pods", "-o", "name", "-l")
    for cascade in ("background", "foreground", "orphan"):
        kubectl("create", manifest=job(cascade))
        until(lambda name=cascade: kubectl("get", *pods, f"job-name={name}") != "")  # type: ignore[misc]
        kubectl("delete", "job", cascade, f"--cascade={cascade}", "--timeout=60s")
        if cascade == "orphan":
            assert kubectl("get", *pods, f"job-name={cascade}") != ""
        else:
            until(lambda name=cascade: kubectl("get", *pods, f"job-name={name}") == "")  # type: ignore[misc]
    for extra in (("--now",), ("--force",), ("--grace-period=1",), ("--wait=false",)):
        kubectl("run", "one", "--image=busybox", "--restart=Never", "--", "sleep", "1000")
        kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
        kubectl("delete", "pod", "one", *extra)
        until(lambda: kubectl("get", "pod", "one", "--ignore-not-found") == "")
    kubectl("create", manifest=[config_map("a", {"x": "1"}), config_map("b", {"x": "1"})])
    kubectl("delete", "cm", "-l", "x=1", "--dry-run=server")
    assert kubectl("delete", "cm", "-l", "x=1").count("deleted") == 2
    kubectl("delete", "cm", "--all")


def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl) -> None:
    kubectl("run", "one", "--image=busybox", "--", "sleep", "1000")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    node = kubectl("get", "pod", "one", "-o", "jsonpath={.spec.nodeName}")
    kubectl("cordon", node)
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    assert "cannot delete" in kubectl.run("drain", node).err
    told = kubectl("drain", node, "--force", "--timeout=60s", "--ignore-daemonsets", "--delete-emptydir-data")
    assert "pod/one evicted" in told
    kubectl("uncordon", node)
    kubectl("taint", "node", node, "key=value:NoSchedule")
    kubectl("taint", "node", node, "key:NoSchedule-")
    kubectl("label", "node", node, "kubectl-")


def test_explain(kubectl: Kubectl) -> None:
    assert "restartPolicy" in kubectl("explain", "pod.spec")
    assert "FIELDS:" in kubectl("explain", "jobs", "--recursive")
    assert "minCount" in kubectl("explain", "podgroup.spec.schedulingPolicy.gang")


def test_access_and_accounts(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "Resources" in kubectl("auth", "can-i", "--list")
    assert "Username" in kubectl("auth", "whoami")
    kubectl("create", "serviceaccount", "robot")
    assert kubectl("create", "token", "robot", "--duration=1h").count(".") == 2
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": kubectl.object("sa", "default")["metadata"]["namespace"]},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }  # fmt: skip
    assert "reconciled" in kubectl("auth", "reconcile", manifest=role)
    kubectl("create", "rolebinding", "rb", "--role=r", "--user=u")
    kubectl("set", "subject", "rolebinding/rb", "--user=v")
    assert [subject["name"] for subject in kubectl.object("rolebinding", "rb")["subjects"]] == ["u", "v"]


def test_events(kubectl: Kubectl) -> None:
    kubectl("create", manifest=job("work"))
    kubectl("wait", "--for=condition=Complete", "job/work", "--timeout=60s")
    until(lambda: "Completed" in kubectl("events", "--for", "job/work"))
    assert "SuccessfulCreate" in kubectl("get", "events", "--field-selector", "involvedObject.kind=Job")
    assert "LAST SEEN" in kubectl("get", "events", "--sort-by=.metadata.creationTimestamp")


def test_proxy(kubectl: Kubectl) -> None:
    process = kubectl.start("proxy", "--port=0")
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"http://{address}/api/v1/namespaces/default", timeout=10) as answer:
            assert json.load(answer)["kind"] == "Namespace"
    finally:
        process.kill()
        process.communicate()


def test_what_needs_no_server(kubectl: Kubectl) -> None:
    assert "kubectl" in kubectl("completion", "bash")
    assert kubectl("create", "configmap", "x", "--dry-run=client", "-o", "yaml").startswith("apiVersion: v1")
    assert "--namespace" in kubectl("options")


def test_autoscale_says_what_is_missing(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    outcome = kubectl.run("autoscale", "deployment", "web", "--max=3")
    assert outcome.code == 1
    assert re.search("could not find the requested resource|failed to create autoscaling/v2", outcome.err)
