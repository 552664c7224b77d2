"""A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager as child processes.

There is no kubelet and no kube-scheduler: nodes are objects that a test makes, and who schedules is what is tested.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from .child_programs import child_program

VERSION = "1.37.1"
#: Releases whose servers can be had besides: a directory each, with the modules that they are built from.
OLDER = Path(__file__).parents[2] / "tools" / "controlplane" / "older"
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
#: The gates behind which 1.37 keeps groups of pods.
GATES = ",".join(
    f"{gate}=true"
    for gate in (
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        "CompositePodGroup",
        "WorkloadWithJob",
        "PodGroupPreemptionPolicy",
        "DRAWorkloadResourceClaims",
    )
)


class GateSet(StrEnum):
    """Which gates and versions of APIs a control plane has."""

    #: All that groups of pods need, and every version of every API.
    ALL = "all-gates"
    #: No alpha and no beta gate and no alpha and beta version, as managed clusters are; pods need service accounts.
    NONE = "no-gates"
    #: As above, but with PodGroups: there are no CompositePodGroups, and topology constraints are dropped.
    FLAT_GROUPS = "flat-groups"
    #: Those of the release, whatever they are; pods need service accounts.
    DEFAULT = "default-gates"

    @property
    def flags(self) -> list[str]:
        """What kube-apiserver and kube-controller-manager are both started with."""
        if self is GateSet.DEFAULT:
            return []
        none = "AllAlpha=false,AllBeta=false"
        chosen = {GateSet.ALL: GATES, GateSet.NONE: none, GateSet.FLAT_GROUPS: f"{none},GenericWorkload=true"}[self]
        return [f"--feature-gates={chosen}"]

    @property
    def versions(self) -> list[str]:
        served = {GateSet.ALL: "api/all=true", GateSet.FLAT_GROUPS: "scheduling.k8s.io/v1beta1=true"}
        return [f"--runtime-config={served[self]}"] if self in served else []


_READY_SECONDS = 60.0


def home(release: str = "") -> Path:
    """Where `tools/controlplane/build` puts the binaries; those of an older release stand beside the others."""
    chosen = os.environ.get("ECHELON_CONTROLPLANE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    current = Path(chosen) if chosen else cache / "echelon" / f"controlplane-{VERSION}"
    return current.with_name(f"controlplane-{version_of(release)}") if release else current


def version_of(release: str) -> str:
    """The version of which the servers of an older release are built."""
    (version,) = re.findall(r"k8s\.io/kubernetes v(\S+)", (OLDER / release / "go.mod").read_text())
    return str(version)


def missing(release: str = "") -> list[str]:
    """The binaries that are not there; an older release has those that its modules name as tools, and no etcd."""
    absent = [name for name in BINARIES if not (home() / name).is_file()]
    if release:
        tools = re.findall(
            r"^(?:tool |\t)k8s\.io/kubernetes/cmd/(\S+)$", (OLDER / release / "go.mod").read_text(), re.M
        )
        assert tools
        absent += [f"{name} {release}" for name in tools if not (home(release) / name).is_file()]
    return absent


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane."""

    url: str
    kubeconfig: Path
    directory: Path
    #: Process ids of what it consists of, by name.
    pids: dict[str, int] = field(default_factory=dict)
    gates: GateSet = GateSet.ALL
    #: One of `OLDER`; "" for the current one.
    release: str = ""

    @property
    def kubectl(self) -> Path:
        return home() / "kubectl"

    @property
    def audit_log(self) -> Path:
        """What the server was asked and by whom, if it was started with an audit policy."""
        return self.directory / "audit.log"

    def log_of(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")


@contextmanager
def control_plane(
    directory: Path,
    *,
    manager: bool = True,
    durable: bool = False,
    strict: bool = False,
    gates: GateSet = GateSet.ALL,
    audit: Mapping[str, object] | None = None,
    release: str = "",
) -> Iterator[ControlPlane]:
    """One that is ready, for as long as the block lasts; without its controllers if they are not wanted.

    `durable` lets etcd wait for its disk, as it does in production.  `strict` gives pods service accounts and lets
    owners be blocked by those only who may finalize them, as hardened clusters do.  `audit` is an audit policy.
    `release` is one of `OLDER`, "" the current one.
    """
    with (
        etcd_for(directory, durable=durable) as storage,
        servers_on(storage, manager=manager, strict=strict, gates=gates, audit=audit, release=release) as plane,
    ):
        yield plane


@dataclass(frozen=True)
class Storage:
    """A running etcd, and what servers on it have in common: where they listen, and as whom one asks them."""

    directory: Path
    pid: int
    client_port: int
    secure_port: int
    token: str
    key: Path


@contextmanager
def etcd_for(directory: Path, *, durable: bool = False) -> Iterator[Storage]:
    """An etcd, for as long as the block lasts: servers of several gate sets may follow one another on it."""
    client, peer, secure = free_ports(3)
    token = secrets.token_hex(16)
    key = directory / "service-account.key"
    key.write_bytes(_private_key())
    (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    with _process(directory, "etcd", _etcd(directory, client, peer, durable)) as etcd:
        _wait("etcd", etcd, directory, lambda: _answers(f"http://127.0.0.1:{client}/health"))
        yield Storage(directory, etcd.pid, client, secure, token, key)


@contextmanager
def servers_on(
    storage: Storage,
    *,
    manager: bool = True,
    strict: bool = False,
    gates: GateSet = GateSet.ALL,
    audit: Mapping[str, object] | None = None,
    release: str = "",
) -> Iterator[ControlPlane]:
    """kube-apiserver, and kube-controller-manager if it is wanted, for as long as the block lasts."""
    directory = storage.directory
    url = f"https://127.0.0.1:{storage.secure_port}"
    plane = ControlPlane(url, directory / "kubeconfig", directory, gates=gates, release=release)
    with ExitStack() as stack:
        arguments = _apiserver(storage, strict, gates)
        if audit is not None:
            policy = directory / "audit-policy.yaml"
            policy.write_text(yaml.safe_dump(audit))
            arguments += [f"--audit-policy-file={policy}", f"--audit-log-path={plane.audit_log}"]
        server = stack.enter_context(_process(directory, "kube-apiserver", arguments, release))
        certificate = directory / "certificates" / "apiserver.crt"
        _wait("kube-apiserver", server, directory, lambda: _ready(plane.url, certificate, storage.token))
        plane.pids.update({"etcd": storage.pid, "kube-apiserver": server.pid})
        _write_kubeconfig(plane, certificate, storage.token)
        if manager:
            arguments = _manager(plane, storage.key, gates)
            stack.enter_context(_process(directory, "kube-controller-manager", arguments, release))
        yield plane


def _etcd(directory: Path, client: int, peer: int, durable: bool) -> list[str]:
    own, other = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={own}",
        f"--advertise-client-urls={own}",
        f"--listen-peer-urls={other}",
        f"--initial-advertise-peer-urls={other}",
        f"--initial-cluster=default={other}",
        f"--unsafe-no-fsync={'false' if durable else 'true'}",
        "--log-level=warn",
    ]


def _apiserver(storage: Storage, strict: bool, gates: GateSet) -> list[str]:
    # Nodes here have no kubelet to take the taints off again.
    off, on = ["TaintNodesByCondition"], []
    if strict:
        on = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
    elif gates is GateSet.ALL:
        off.append("ServiceAccount")  # pods need no account to run under
    return [
        f"--etcd-servers=http://127.0.0.1:{storage.client_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={storage.secure_port}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={storage.directory / 'certificates'}",
        f"--token-auth-file={storage.directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://echelon.test",
        f"--service-account-key-file={storage.key}",
        f"--service-account-signing-key-file={storage.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--disable-admission-plugins={','.join(off)}",
        *on,
        *gates.versions,
        *gates.flags,
    ]


def _manager(plane: ControlPlane, key: Path, gates: GateSet) -> list[str]:
    return [
        f"--kubeconfig={plane.kubeconfig}",
        f"--service-account-private-key-file={key}",
        "--leader-elect=false",
        "--secure-port=0",
        # It would give up on nodes that no kubelet reports on.
        "--controllers=*,-node-lifecycle-controller",
        *gates.flags,
    ]


def _process(
    directory: Path, name: str, arguments: Sequence[str], release: str = ""
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return child_program([home(release) / name, *arguments], directory / f"{name}.log")


def _wait(name: str, child: subprocess.Popen[bytes], directory: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not ready():
        ended = child.poll()
        if ended is not None or time.monotonic() > deadline:
            state = "is not ready" if ended is None else f"ended with {ended}"
            said = (directory / f"{name}.log").read_text(errors="replace")
            raise RuntimeError(f"{name} {state}; the end of its log:\n{said[-3000:]}")
        time.sleep(0.1)


def _ready(url: str, certificate: Path, token: str) -> bool:
    if not certificate.is_file():
        return False
    try:
        trust = ssl.create_default_context(cafile=str(certificate))
    except ssl.SSLError:
        return False  # still being written
    return _answers(f"{url}/readyz", trust, {"Authorization": f"Bearer {token}"})


def _answers(url: str, trust: ssl.SSLContext | None = None, headers: dict[str, str] | None = None) -> bool:
    try:
        request = urllib.request.Request(url, headers=headers or {})
        with urllib.request.urlopen(request, timeout=2, context=trust) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _write_kubeconfig(plane: ControlPlane, certificate: Path, token: str) -> None:
    """The server's certificate signs itself, so it is the authority too."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {"server": plane.url, "certificate-authority": str(certificate)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "current-context": "real",
    }
    plane.kubeconfig.write_text(yaml.safe_dump(content))
    plane.kubeconfig.chmod(0o600)


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, all different."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
