"""A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager as child processes.

There is no kubelet and no kube-scheduler: nodes are objects that a test makes, and who schedules is what is tested.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

VERSION = "1.37.1"
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
    )
)
_READY_SECONDS = 60.0
_STOP_SECONDS = 15.0


def home() -> Path:
    """Where `make cluster-tools` puts the binaries."""
    chosen = os.environ.get("ECHELON_CONTROLPLANE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else cache / "echelon" / f"controlplane-{VERSION}"


def missing() -> list[str]:
    """The binaries that are not there."""
    return [name for name in BINARIES if not (home() / name).is_file()]


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane."""

    url: str
    kubeconfig: Path
    directory: Path
    #: Process ids of what it consists of, by name.
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def kubectl(self) -> Path:
        return home() / "kubectl"

    def log_of(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")


@contextmanager
def control_plane(
    directory: Path, *, manager: bool = True, durable: bool = False, strict: bool = False
) -> Iterator[ControlPlane]:
    """One that is ready, for as long as the block lasts; without its controllers if they are not wanted.

    `durable` lets etcd wait for its disk, as it does in production.  `strict` gives pods service accounts and lets
    owners be blocked by those only who may finalize them, as hardened clusters do.
    """
    client, peer, secure = _free_ports(3)
    token = secrets.token_hex(16)
    key = directory / "service-account.key"
    key.write_bytes(_private_key())
    (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    plane = ControlPlane(f"https://127.0.0.1:{secure}", directory / "kubeconfig", directory)
    with ExitStack() as stack:
        etcd = stack.enter_context(_process(directory, "etcd", _etcd(directory, client, peer, durable)))
        _wait("etcd", etcd, plane, lambda: _answers(f"http://127.0.0.1:{client}/health"))
        server = stack.enter_context(
            _process(directory, "kube-apiserver", _apiserver(directory, client, secure, key, strict))
        )
        certificate = directory / "certificates" / "apiserver.crt"
        _wait("kube-apiserver", server, plane, lambda: _ready(plane.url, certificate, token))
        plane.pids.update({"etcd": etcd.pid, "kube-apiserver": server.pid})
        _write_kubeconfig(plane, certificate, token)
        if manager:
            stack.enter_context(_process(directory, "kube-controller-manager", _manager(plane, key)))
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


def _apiserver(directory: Path, etcd: int, port: int, key: Path, strict: bool) -> list[str]:
    # Nodes here have no kubelet to take the taints off again; elsewhere pods have no service account to run under.
    admission = (
        ["--disable-admission-plugins=TaintNodesByCondition",
         "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
        if strict
        else ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]
    )  # fmt: skip
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={directory / 'certificates'}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://echelon.test",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--runtime-config=api/all=true",
        *admission,
        f"--feature-gates={GATES}",
    ]


def _manager(plane: ControlPlane, key: Path) -> list[str]:
    return [
        f"--kubeconfig={plane.kubeconfig}",
        f"--service-account-private-key-file={key}",
        "--leader-elect=false",
        "--secure-port=0",
        # It would give up on nodes that no kubelet reports on.
        "--controllers=*,-node-lifecycle-controller",
        f"--feature-gates={GATES}",
    ]


@contextmanager
def _process(directory: Path, name: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is ended with the block, by its own handle."""
    with (directory / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            [home() / name, *arguments], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=directory
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait(name: str, child: subprocess.Popen[bytes], plane: ControlPlane, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not ready():
        ended = child.poll()
        if ended is not None or time.monotonic() > deadline:
            state = "is not ready" if ended is None else f"ended with {ended}"
            raise RuntimeError(f"{name} {state}; the end of its log:\n{plane.log_of(name)[-3000:]}")
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


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, all different."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
