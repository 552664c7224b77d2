"""Pods from the image as `make image` packed it: what a container runtime does, in namespaces, without an engine.

The layers are unpacked, and bubblewrap gives a process that root read-only, the user of the pod, no capabilities and no
way to get any.  The pod's token, environment and volumes are where the kubelet puts them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml
from tools.image import archive, layout

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, Object
from echelon.client.http import HttpVerbs

from .debian_programs import debian_program
from .installed_programs import Program, expanded, until_ready
from .logins import token_of

REPOSITORY = Path(__file__).parents[2]
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
_addresses = itertools.count(1)


@dataclass(frozen=True)
class Image:
    """Its layout, and its layers unpacked where any user can read them."""

    layout: Path
    root: Path
    bubblewrap: Path
    config: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return dict(one.split("=", 1) for one in self.config["Env"])


def assemble(out: Path, *arguments: str, **environment: str) -> str:
    """`make image`; the test is skipped where it cannot be."""
    command = [sys.executable, "-m", "tools.image", "--out", str(out), *arguments]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "SOURCE_DATE_EPOCH": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and done.stderr.startswith("image: no "):
        pytest.skip(f"NO IMAGE: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def unpacked_image() -> Iterator[Image]:
    """Not below pytest's own directory, which nobody but its owner may read."""
    place = Path(mkdtemp(prefix="echelon-image-"))
    place.chmod(0o755)
    try:
        assemble(place / "layout")
        manifest = layout.read_manifest(place / "layout")
        blobs = place / "layout" / "blobs"
        for layer in manifest["layers"]:
            archive.unpack(blobs / layer["digest"].replace(":", "/"), place / "root")
        # A runtime makes mount points in a layer of its own.
        (place / "root" / TOKENS.lstrip("/")).mkdir(parents=True)
        config = json.loads((blobs / manifest["config"]["digest"].replace(":", "/")).read_bytes())
        yield Image(place / "layout", place / "root", _bubblewrap(place), config["config"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _bubblewrap(place: Path) -> Path:
    """Where any user can run it."""
    return Path(shutil.copy(debian_program("bwrap", "bubblewrap"), place / "bwrap"))


def sandbox(image: Image, user: int, *binds: tuple[Path, str], temporary: tuple[str, ...] = ()) -> list[str]:
    """The command before the command: a container without network of its own."""
    command = [
        str(image.bubblewrap), "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1",
        "--die-with-parent", "--cap-drop", "ALL", "--uid", str(user), "--gid", str(user), "--clearenv",
        "--ro-bind", str(image.root), "/", "--proc", "/proc", "--dev", "/dev", "--chdir", image.config["WorkingDir"],
    ]  # fmt: skip
    for source, target in binds:
        command += ["--ro-bind", str(source), target]
    for target in temporary:
        command += ["--tmpfs", target]
    return command


def as_user(user: int) -> dict[str, Any]:
    """Keywords for a subprocess: only root can be somebody else; others are so inside of the namespace alone."""
    return {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}


def run_in(image: Image, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a container of the image, as its own user."""
    user = int(image.config["User"].split(":")[0])
    variables = [word for name, value in image.environment.items() for word in ("--setenv", name, value)]
    whole = [*sandbox(image, user), *variables, "--", *command]
    return subprocess.run(whole, capture_output=True, text=True, check=False, timeout=300, **as_user(user))


async def start_pod(image: Image, verbs: HttpVerbs, deployment: Object, kubeconfig: Path, home: Path) -> Program:
    """The first container of a Deployment's pods, until it is ready."""
    name, space = meta.name(deployment), meta.namespace(deployment)
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    user = pod["securityContext"]["runAsUser"]
    place = image.root.parent / name
    token = await token_of(verbs, space, pod["serviceAccountName"])
    service = _service_account(place / "token", token, space, user, kubeconfig)
    binds, temporary = await _volumes(verbs, space, pod, place)
    variables = {**image.environment, **_variables(container), **service}
    given = [word for key, value in variables.items() for word in ("--setenv", key, value)]
    command = [*container.get("command", image.config["Entrypoint"]), *container["args"]]
    whole = [*sandbox(image, user, (place / "token", TOKENS), *binds, temporary=temporary), *given]
    return await _started(name, whole, [expanded(word, variables) for word in command], home / f"{name}.log", user)


async def _started(name: str, wrapped: list[str], command: list[str], log: Path, user: int) -> Program:
    read, write = os.pipe()
    began = time.monotonic()
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *wrapped,
            "--info-fd",
            str(write),
            "--",
            *command,
            stdout=out,
            stderr=out,
            pass_fds=(write,),
            **as_user(user),
        )
    os.close(write)
    with os.fdopen(read) as told:
        said = await asyncio.to_thread(told.read)
    program = Program(name, process, log)
    assert said, program.said()
    program.pid = json.loads(said)["child-pid"]
    await until_ready(program)
    program.start_seconds = time.monotonic() - began
    return program


def _variables(container: Object) -> dict[str, str]:
    """Every pod has an address of its own, as on a cluster: all of 127/8 is this machine."""
    address = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.{next(_addresses)}"
    fields = {"status.podIP": address, "metadata.name": "pod"}
    return {
        one["name"]: one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container.get("env", [])
    }


def _service_account(place: Path, token: str, namespace: str, user: int, kubeconfig: Path) -> dict[str, str]:
    """What a pod finds in its token volume, which only its user may read, and in its environment."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    place.mkdir(parents=True)
    (place / "token").write_text(token)
    (place / "token").chmod(0o600)
    if os.getuid() == 0:
        os.chown(place / "token", user, user)
    (place / "namespace").write_text(namespace)
    (place / "ca.crt").write_bytes(Path(cluster["certificate-authority"]).read_bytes())
    host, port = cluster["server"].removeprefix("https://").rsplit(":", 1)
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


async def _volumes(
    verbs: HttpVerbs, space: str, pod: Object, place: Path
) -> tuple[list[tuple[Path, str]], tuple[str, ...]]:
    """ConfigMaps as directories, and where empty directories go; no other volume is known here."""
    binds: list[tuple[Path, str]] = []
    temporary: list[str] = []
    kinds = {one["name"]: one for one in pod.get("volumes", [])}
    for mount in pod["containers"][0].get("volumeMounts", []):
        volume = kinds[mount["name"]]
        if "emptyDir" in volume:
            temporary.append(mount["mountPath"])
            continue
        target = place / mount["name"]
        target.mkdir()
        config_map = await verbs.get(CONFIG_MAPS, volume["configMap"]["name"], space)
        for key, text in config_map.get("data", {}).items():
            (target / key).write_text(text)
        (place.parent / "root" / mount["mountPath"].lstrip("/")).mkdir(parents=True, exist_ok=True)
        binds.append((target, mount["mountPath"]))
    return binds, tuple(temporary)
