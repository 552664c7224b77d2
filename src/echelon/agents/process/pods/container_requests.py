"""From the spec of a container to what the shim is told to start: command, environment, directory, mounts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....api.objects import meta
from ....api.scheme import Object
from ..images import Images, ImageUse
from ..pod_directories import PodDirectory
from ..resources.gpu_allotment import GPU, gpu_env, wanted_gpus
from ..rules import plain_paths
from ..rules.capabilities import kept_capabilities, may_gain_rights
from ..rules.container_env import BadConfig, DownwardFacts, Lookup, command_line, environment, expand, named_in
from ..rules.empty_dirs import in_memory
from ..rules.host_names import inner_host_name, rewritten
from ..rules.kubelet_status import Waiting
from ..rules.limit_settings import EnforcedLimits, limit_settings
from ..shim.container_process import MARK, mark_of
from ..volume_files import has_files

#: Where a container finds the directory that is its own.
_OWN = "/pod"
_LOG_BYTES, _LOG_FILES = 10 << 20, 5
#: Source and target of a mount, whether it is read-only, and whether the shim makes the source where it is missing.
SourceAndTarget = tuple[str, str, bool, bool]


class CannotStartContainer(Exception):
    """Why a container waits."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__(waiting.message)
        self.waiting = waiting


@dataclass(frozen=True)
class ContainerSetting:
    """Everything about a pod that its containers share."""

    directory: PodDirectory
    tier: str
    facts: DownwardFacts
    lookup: Lookup
    #: Volume → its directory or file on this machine.
    volumes: Mapping[str, str]
    images: Images
    #: Where containers begin that do not say where; "" for an empty directory of their own.
    default_directory: str
    #: Name → address, for tier plain.
    resolve: Callable[[str], str | None]
    #: Files and directories of this machine that no pod may see.
    hidden: tuple[str, ...]
    #: Of the node: what every container gets beside its own variables.
    extra_env: Mapping[str, str]
    #: What the kernel enforces.
    limits: EnforcedLimits
    #: Container → GPUs; None while other pods have them.
    gpus: Mapping[str, tuple[int, ...]] | None


def start_request(pod: Object, container: Object, attempt: int, setting: ContainerSetting) -> dict[str, Any]:
    """The `start` command for the shim; CannotStartContainer says what is missing."""
    name, image = container["name"], container.get("image", "")
    use = setting.images.of(image)
    try:
        own = environment(pod, container, setting.facts, setting.lookup, setting.extra_env)
    except BadConfig as error:
        raise CannotStartContainer(Waiting("CreateContainerConfigError", str(error))) from error
    argv = command_line(container, own)
    if not container.get("command"):
        if not use.command:
            raise CannotStartContainer(Waiting("InvalidImageName", setting.images.advice(name, image)))
        argv = [*use.command, *argv]
    place = str(setting.directory.own(name)) if setting.tier == "plain" else _OWN
    terminal = {"TERM": "xterm"} if container.get("tty") else {}
    given = {**_with_own_packages(use, place), "HOSTNAME": inner_host_name(pod), **terminal}
    env = {**given, **_gpus(container, setting), **own}
    begin = setting.default_directory or f"{place}/work"
    cwd = os.path.join("/" if use.root else begin, container.get("workingDir") or "")
    mounts = _mounts(pod, container, attempt, setting, own)
    if setting.tier == "plain":
        argv, env, cwd = _in_plain(container, argv, env, cwd, mounts, own, setting)
        mounts = []
        if use.root:
            raise CannotStartContainer(_refused(f"image {image} has a root directory, which needs tier names or net"))
    _make_directories(container, attempt, setting)
    return {
        "do": "start",
        "container": name,
        "attempt": attempt,
        "argv": argv,
        "env": env,
        "cwd": cwd,
        "mounts": mounts,
        "root": use.root,
        "hidden": setting.hidden,
        "capabilities": kept_capabilities(container),
        "may_gain_rights": may_gain_rights(container),
        "scratch": str(setting.directory.scratch(name)),
        "log": str(setting.directory.log(name, attempt)),
        "limits": limit_settings(container, setting.limits),
        "rotation": {"bytes": _LOG_BYTES, "files": _LOG_FILES},
        "stdin": str(setting.directory.container(name) / "stdin") if container.get("stdin") else "",
        "tty": bool(container.get("tty")),
    }


def facts_for_clients(pod: Object, container: Object, request: Mapping[str, Any]) -> dict[str, Any]:
    """What exec and attach must know about a container that was started."""
    mark = mark_of(meta.uid(pod), container["name"], request["attempt"])
    return {
        "cwd": request["cwd"],
        "tty": request["tty"],
        "stdin_once": bool(container.get("stdinOnce")),
        # The container may overwrite what the kernel shows of it, as by a title of its own.
        "env": {**request["env"], MARK: mark},
    }


def stop_signal(container: Object) -> int:
    """The signal that asks a container to end."""
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal, name, signal.SIGTERM))


def _with_own_packages(use: ImageUse, place: str) -> dict[str, str]:
    """What a container installs with pip stays its own, as in a container with files of its own."""
    if use.root:
        return dict(use.env)
    packages = f"{place}/packages"
    seen = [packages, *filter(None, [use.env.get("PYTHONPATH")])]
    return {
        **use.env,
        "PIP_TARGET": packages,
        "PYTHONPATH": ":".join(seen),
        "PATH": f"{packages}/bin:{use.env['PATH']}",
    }


def _gpus(container: Object, setting: ContainerSetting) -> dict[str, str]:
    if setting.gpus is None and wanted_gpus(container):
        raise CannotStartContainer(Waiting("ContainerCreating", f"waiting for {GPU} that pods still have which end"))
    return gpu_env((setting.gpus or {}).get(container["name"], ()))


def _refused(message: str) -> Waiting:
    return Waiting("CreateContainerConfigError", message)


def _mounts(
    pod: Object, container: Object, attempt: int, setting: ContainerSetting, env: Mapping[str, str]
) -> list[SourceAndTarget]:
    made: list[SourceAndTarget] = []
    # As a kubelet does: files that are made from objects are nobody's to change.
    fixed = {volume["name"] for volume in pod["spec"].get("volumes") or () if has_files(volume)}
    for mount in container.get("volumeMounts") or ():
        source = setting.volumes.get(mount["name"], "")
        inner = _expanded(mount.get("subPathExpr") or "", env) or mount.get("subPath") or ""
        # What is in memory is mounted for the shim alone, which makes the directories there.
        unseen = mount["name"] in in_memory(pod) and bool(inner)
        if inner:
            _check_inner(inner)
            source = os.path.join(os.path.realpath(source), inner) if unseen else _inside(source, inner)
        if _from_root(mount["mountPath"]) == "/":
            raise CannotStartContainer(_refused("mountPath / is refused: nothing can be mounted over the root"))
        read_only = mount["name"] in fixed or bool(mount.get("readOnly"))
        made.append((source, _from_root(mount["mountPath"]), read_only, unseen))
    path = _from_root(container.get("terminationMessagePath") or "/dev/termination-log")
    made.append((str(setting.directory.termination_log(container["name"], attempt)), path, False, False))
    if setting.tier == "plain":
        return made
    made.append((str(setting.directory.own(container["name"])), _OWN, False, False))
    # Followed here and not again: other containers of the pod may put a link in the way meanwhile.
    return [
        (source if unseen else os.path.realpath(source), target, read_only, unseen)
        for source, target, read_only, unseen in made
    ]


def _from_root(path: str) -> str:
    """A path in the container, as a kubelet reads it: from the root, and never above it."""
    return os.path.normpath("/" + path.lstrip("/"))


def _expanded(text: str, env: Mapping[str, str]) -> str:
    unknown = next((name for name in named_in(text) if name not in env), None)
    if unknown is not None:
        raise CannotStartContainer(_refused(f'missing value for "{unknown}"'))
    return expand(text, env)


def _check_inner(inner: str) -> None:
    if os.path.isabs(inner) or ".." in inner.split("/"):
        raise CannotStartContainer(_refused(f"subPath {inner!r} must be a relative path without '..'"))


def _inside(volume: str, inner: str) -> str:
    """A sub-path of a volume; made as a directory where it is missing, and never outside of the volume."""
    os.makedirs(volume, exist_ok=True)
    path = root = os.path.realpath(volume)
    for part in inner.split("/"):
        path = os.path.realpath(os.path.join(path, part))
        if path != root and not path.startswith(root + "/"):
            raise CannotStartContainer(_refused(f"subPath {inner!r} leads out of its volume"))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    return path


def _in_plain(
    container: Object,
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    mounts: list[SourceAndTarget],
    own: Mapping[str, str],
    setting: ContainerSetting,
) -> tuple[list[str], dict[str, str], str]:
    """Names and mount paths replaced where the manifest names them."""
    paths = {target: source for source, target, *_ in mounts}
    places = [_from_root(mount["mountPath"]) for mount in container.get("volumeMounts") or ()]
    missing = plain_paths.unnamed(places, container)
    if missing:
        raise CannotStartContainer(
            _refused(
                f"mountPath {missing[0]} is refused: this machine allows no mounts (tier plain), so paths are replaced "
                "where command, args or env name them, and this one is named nowhere"
            )
        )

    def told(text: str) -> str:
        return rewritten(plain_paths.replaced(text, paths), setting.resolve)

    changed = {name: told(value) for name, value in own.items()}
    return [told(word) for word in argv], {**env, **changed}, plain_paths.replaced(cwd, paths)


def _make_directories(container: Object, attempt: int, setting: ContainerSetting) -> None:
    name, directory = container["name"], setting.directory
    directory.forget_attempts(name, attempt - 1)
    directory.scratch(name).mkdir(parents=True, exist_ok=True)
    directory.container(name).mkdir(parents=True, exist_ok=True)
    (directory.own(name) / "work").mkdir(parents=True, exist_ok=True)
    directory.termination_log(name, attempt).touch()
    if container.get("stdin") and not (directory.container(name) / "stdin").exists():
        os.mkfifo(directory.container(name) / "stdin", 0o600)
