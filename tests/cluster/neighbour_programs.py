"""Managers of Kueue, JobSet and Kubeflow Trainer beside us, as processes: real programs under their own roles.

What their manifests say is installed, but for the Deployment: its command runs here, under a token of its
ServiceAccount, with its own configuration in which only ports and certificates are others.  Their webhooks are called
as on any cluster.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.scheme import Object
from echelon.server.setup import certificates

from .child_programs import child_program
from .controlplane import ControlPlane, free_ports
from .installing import kubectl_now
from .logins import with_token
from .own_planes import skip_without_control_plane

_TOOLS = Path(__file__).parents[2] / "tools" / "neighbours"
_READY_SECONDS = 120.0
_CONFIGURATION = "controller_manager_config.yaml"
#: Run here instead of there; and an API that a Service of the cluster would serve.
_LEFT_OUT = ("Deployment", "APIService")


@dataclass(frozen=True)
class Neighbour:
    name: str
    module: str
    #: What is installed: a directory that kustomize renders, in the manifests of the module.
    overlay: str
    #: Makes its own certificate, for the name of its Service, and keeps it in a Secret that its pod mounts.
    own_certificate: bool = False
    #: What its configuration says otherwise than as shipped.
    settings: Callable[[Path], Mapping[str, Any]] = lambda _: {}
    #: Parts of the overlay that are not installed.
    without: tuple[str, ...] = ()
    #: Where the go.mod is that pins it.
    pinned: str = "."

    @property
    def version(self) -> str:
        modules = (_TOOLS / self.pinned / "go.mod").read_text()
        found = re.search(rf"^\s+{re.escape(self.module)} (v\S+)", modules, re.MULTILINE)
        assert found is not None, f"{self.module} is not in go.mod"
        return found.group(1)

    @property
    def home(self) -> Path:
        return home() / f"{self.name}-{self.version}"


KUEUE = Neighbour(
    "kueue",
    "sigs.k8s.io/kueue",
    "default",
    own_certificate=True,
    # The visibility API has a port of its own that nobody can choose.
    settings=lambda mounted: {"webhook": {"certDir": str(mounted)}, "featureGates": {"VisibilityOnDemand": False}},
)
JOBSET = Neighbour(
    "jobset",
    "sigs.k8s.io/jobset",
    "default",
    settings=lambda _: {"internalCertManagement": {"enable": False}},
)
TRAINER = Neighbour(
    "trainer",
    "github.com/kubeflow/trainer/v2",
    "overlays/manager",
    settings=lambda _: {"certManagement": {"enable": False}},
    without=("../../third-party/jobset",),  # a JobSet of the release page
)


def home() -> Path:
    """Where `tools/neighbours/build` puts them."""
    chosen = os.environ.get("ECHELON_NEIGHBOURS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else cache / "echelon" / "neighbours"


def skip_without(*neighbours: Neighbour) -> None:
    skip_without_control_plane()
    for one in neighbours:
        if not (one.home / "manager").is_file():
            pytest.skip(
                f"NO REAL {one.name.upper()} in {one.home}: `tools/neighbours/build` builds it where Go is present"
            )


@contextmanager
def beside(plane: ControlPlane, neighbour: Neighbour, **configuration: Any) -> Iterator[Path]:
    """Installed and ready for as long as the block lasts; yields its log."""
    directory = plane.directory / neighbour.name
    directory.mkdir()
    # Where controller-runtime looks for certificates unless it is told another place.
    mounted = directory / "k8s-webhook-server" / "serving-certs"
    mounted.mkdir(parents=True)
    health, webhook = free_ports(2)
    rendered = rendered_by_kustomize(plane, neighbour, directory)
    authority = None if neighbour.own_certificate else _certificate(directory / "certificates", mounted)
    for one in rendered:
        _reach(one, webhook, authority)
    apply(plane, [one for one in rendered if one["kind"] not in _LEFT_OUT])
    (deployment,) = (one for one in rendered if one["kind"] == "Deployment")
    settings = [_addresses(health, webhook), neighbour.settings(mounted), configuration]
    _write_configuration(rendered, settings, directory / _CONFIGURATION)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [one.replace(f"/{_CONFIGURATION}", str(directory / _CONFIGURATION)) for one in container["args"]]
    with running(plane, neighbour, deployment, directory, arguments) as (child, log):
        if neighbour.own_certificate:
            until(child, log, lambda: _mount(plane, deployment, mounted))
        until(child, log, lambda: answers(f"http://127.0.0.1:{health}/readyz"))
        yield log


def rendered_by_kustomize(plane: ControlPlane, neighbour: Neighbour, directory: Path) -> list[Object]:
    """What `kubectl kustomize` makes of the manifests."""
    manifests = directory / "manifests"
    shutil.copytree(neighbour.home / "manifests", manifests)
    kustomization = manifests / neighbour.overlay / "kustomization.yaml"
    content = yaml.safe_load(kustomization.read_text())
    content["resources"] = [one for one in content["resources"] if one not in neighbour.without]
    kustomization.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [plane.kubectl, "kustomize", kustomization.parent], capture_output=True, text=True, check=True, timeout=120
    )
    return [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one]


def _certificate(directory: Path, mounted: Path) -> str:
    """A certificate for loopback where the program looks for its own; the authority as webhooks name it."""
    made = certificates.ensure(directory, time.time())
    shutil.copy(made.certificate, mounted / "tls.crt")
    shutil.copy(made.key, mounted / "tls.key")
    return base64.b64encode(made.authority_pem).decode()


def _reach(obj: Object, port: int, authority: str | None) -> None:
    """Let the server find the program: by its address, or by a Service that leads to this machine."""
    if obj["kind"] == "Service":
        obj["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    clients = [hook["clientConfig"] for hook in obj.get("webhooks", ())]
    conversion = obj.get("spec", {}).get("conversion", {})
    if conversion.get("strategy") == "Webhook":
        clients.append(conversion["webhook"]["clientConfig"])
    for client in clients:
        if authority is None:
            client["service"]["port"] = port
        else:
            path = client.pop("service").get("path", "")
            client |= {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}


def _addresses(health: int, webhook: int) -> Mapping[str, Any]:
    return {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": webhook, "host": "127.0.0.1"},
        "leaderElection": {"leaderElect": False},
    }


def _write_configuration(rendered: list[Object], settings: list[Mapping[str, Any]], target: Path) -> None:
    (shipped,) = (one for one in rendered if one["kind"] == "ConfigMap" and _CONFIGURATION in one["data"])
    content = yaml.safe_load(shipped["data"][_CONFIGURATION])
    for changes in settings:
        _merge(content, changes)
    target.write_text(yaml.safe_dump(content))


def _merge(content: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping):
            _merge(content.setdefault(key, {}), value)
        else:
            content[key] = value


def apply(plane: ControlPlane, objects: list[Object]) -> None:
    content = json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
    kubectl_now(plane, "apply", "--server-side", "-f", "-", given=content)


@contextmanager
def running(
    plane: ControlPlane,
    neighbour: Neighbour,
    deployment: Object,
    directory: Path,
    arguments: list[str],
    variables: Mapping[str, str] | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """It runs under a token of the ServiceAccount of its Deployment; yields it and its log."""
    namespace, pod = deployment["metadata"]["namespace"], deployment["spec"]["template"]["spec"]
    token = kubectl_now(plane, "create", "token", "-n", namespace, pod["serviceAccountName"], "--duration=2h").strip()
    known = with_token(plane.kubeconfig, token, directory / "kubeconfig")
    surroundings = {"KUBECONFIG": str(known), "TMPDIR": str(directory), "POD_NAMESPACE": namespace, **(variables or {})}
    log = directory / "log"
    with child_program([neighbour.home / "manager", *arguments], log, {**os.environ, **surroundings}) as child:
        yield child, log


def _mount(plane: ControlPlane, deployment: Object, mounted: Path) -> bool:
    """As a kubelet does it, once its Secret has something in it."""
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (name,) = (one["secret"]["secretName"] for one in volumes if "secret" in one)
    namespace = deployment["metadata"]["namespace"]
    data = json.loads(kubectl_now(plane, "get", "secret", "-n", namespace, name, "-o", "json")).get("data") or {}
    for key, value in data.items():
        (mounted / key).write_bytes(base64.b64decode(value))
    return "tls.crt" in data


def until(child: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not ready():
        said = log.read_text(errors="replace")[-6000:]
        assert child.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
