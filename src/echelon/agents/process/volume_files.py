"""Volumes of a pod as directories: files of ConfigMaps, Secrets and the downward API, empty directories, claims.

Files change as a whole, as on any node: a new directory is written, then one symbolic link is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, Object
from ...api.verbs import Verbs
from .pod_directories import NodeDirectory, PodDirectory
from .rules.container_env import BadConfig, DownwardFacts, content_of, field_value, resource_value

#: A token for the pod's service account: pod, audience, seconds.
IssueToken = Callable[[Object, str, int], Awaitable[str]]
_DATA = "..data"
_VERSION = re.compile(r"\.\.[0-9]+")
_FILE_MODE = 0o644


class BadVolume(Exception):
    """A volume cannot be made; the message is what a kubelet says in its FailedMount event."""


@dataclass(frozen=True)
class _File:
    content: bytes
    mode: int


class VolumeFiles:
    def __init__(
        self, verbs: Verbs, directory: NodeDirectory, issue_token: IssueToken | None, *, host_paths: bool
    ) -> None:
        self._verbs = verbs
        self._directory = directory
        self._issue_token = issue_token
        self._host_paths = host_paths

    async def prepare(self, pod: Object, facts: DownwardFacts) -> dict[str, str]:
        """Make all volumes of a pod; volume → directory or file."""
        own = self._directory.pod(meta.uid(pod))
        made: dict[str, str] = {}
        for volume in pod["spec"].get("volumes") or ():
            try:
                made[volume["name"]] = await self._one(pod, volume, own, facts)
            except (BadConfig, ApiError) as error:
                raise BadVolume(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
            except OSError as error:
                raise BadVolume(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error.strerror}') from error
        return made

    async def refresh(self, pod: Object, facts: DownwardFacts) -> None:
        """Bring files up to date with the objects that they come from; what is missing now is left as it was."""
        own = self._directory.pod(meta.uid(pod))
        for volume in pod["spec"].get("volumes") or ():
            if has_files(volume):
                try:
                    await self._one(pod, volume, own, facts)
                except (BadConfig, ApiError, OSError):
                    continue

    async def _one(self, pod: Object, volume: Object, own: PodDirectory, facts: DownwardFacts) -> str:
        path = own.volume(volume["name"])
        if "emptyDir" in volume:
            path.mkdir(parents=True, exist_ok=True)
            return str(path)
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            return await self._claim(pod, volume["persistentVolumeClaim"].get("claimName", ""))
        if not has_files(volume):
            kind = next((field for field in volume if field != "name"), "")
            raise BadConfig(f"volumes of type {kind} are refused on process nodes")
        files = await self._files(pod, volume, facts)
        await asyncio.to_thread(_write_files, path, files)
        return str(path)

    def _host_path(self, source: Object) -> str:
        if not self._host_paths:
            raise BadConfig("hostPath is refused: start Echelon with --allow-host-paths to let pods see its files")
        path, kind = Path(source["path"]), source.get("type") or ""
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate" and not path.exists():
            path.touch()
        fits = {"Directory": path.is_dir, "File": path.is_file, "Socket": path.is_socket}.get(kind, path.exists)
        if not fits():
            raise BadConfig(f"hostPath type check failed: {path} is not a {kind.lower() or 'path'}")
        return str(path)

    async def _claim(self, pod: Object, name: str) -> str:
        claim = await self._verbs.get(VOLUME_CLAIMS, name, meta.namespace(pod))
        path = self._directory.claim(meta.namespace(pod), name, meta.uid(claim))
        self._directory.claims.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    # -- files -------------------------------------------------------------------------------------------------

    async def _files(self, pod: Object, volume: Object, facts: DownwardFacts) -> dict[str, _File]:
        projected = volume.get("projected")
        if projected is None:
            return await self._source(pod, {key: value for key, value in volume.items() if key != "name"}, facts)
        mode = projected.get("defaultMode")
        files: dict[str, _File] = {}
        for source in projected.get("sources") or ():
            files |= await self._source(pod, source, facts, mode)
        return files

    async def _source(
        self, pod: Object, source: Object, facts: DownwardFacts, default: int | None = None
    ) -> dict[str, _File]:
        """The files of one source; a volume of its own, or one among others in a projected volume."""
        kind, body = next(iter(source.items()))
        mode = body.get("defaultMode") or default or _FILE_MODE
        if kind == "configMap":
            return await self._entries(pod, CONFIG_MAPS, body, body.get("name", ""), mode)
        if kind == "secret":
            return await self._entries(pod, SECRETS, body, body.get("secretName") or body.get("name", ""), mode)
        if kind == "downwardAPI":
            return _downward(pod, body, facts, mode)
        if kind == "serviceAccountToken":
            if self._issue_token is None:
                raise BadConfig("this plane issues no tokens of service accounts")
            seconds = int(body.get("expirationSeconds") or 3600)
            token = await self._issue_token(pod, body.get("audience") or "", seconds)
            return {body["path"]: _File(token.encode(), 0o600 if mode == _FILE_MODE else mode)}
        raise BadConfig(f"projected sources of type {kind} are refused on process nodes")

    async def _entries(self, pod: Object, resource: Any, body: Object, name: str, mode: int) -> dict[str, _File]:
        try:
            found = await self._verbs.get(resource, name, meta.namespace(pod))
        except ApiError as error:
            if error.code == 404 and body.get("optional"):
                return {}
            if error.code == 404:
                raise BadConfig(f'{resource.kind.lower()} "{name}" not found') from None
            raise
        content = content_of({**found, "kind": resource.kind})
        if not body.get("items"):
            return {key: _File(value, mode) for key, value in content.items()}
        files: dict[str, _File] = {}
        for item in body["items"]:
            if item["key"] in content:
                files[item["path"]] = _File(content[item["key"]], item.get("mode") or mode)
            elif not body.get("optional"):
                raise BadConfig(f"references non-existent {resource.kind.lower()} key: {item['key']}")
        return files


def size_of(folder: Path) -> int:
    """Bytes that the files of a directory take on disk; what goes meanwhile does not count."""
    blocks = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(place, name)).st_blocks
    return blocks * 512


def has_files(volume: Object) -> bool:
    """Whether the volume has files made from objects, which may change."""
    return any(kind in volume for kind in ("configMap", "secret", "downwardAPI", "projected"))


def _downward(pod: Object, body: Object, facts: DownwardFacts, mode: int) -> dict[str, _File]:
    files: dict[str, _File] = {}
    for item in body.get("items") or ():
        if "fieldRef" in item:
            text = field_value(pod, item["fieldRef"].get("fieldPath", ""), facts)
        else:
            text = resource_value(pod, pod["spec"]["containers"][0], item.get("resourceFieldRef") or {}, facts)
        files[item["path"]] = _File(text.encode(), item.get("mode") or mode)
    return files


def _write_files(folder: Path, files: dict[str, _File]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / _DATA
    if current.exists() and _same(current, files):
        return
    fresh = folder / f"..{time.time_ns()}"
    for name, file in files.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    link = folder / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    old = os.readlink(current) if current.is_symlink() else ""
    link.replace(current)
    tops = {name.split("/")[0] for name in files}
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    for top in tops:
        if not (folder / top).is_symlink():
            (folder / top).symlink_to(f"{_DATA}/{top}")
    if _VERSION.fullmatch(old):  # the container may have written there
        shutil.rmtree(folder / old, ignore_errors=True)


def _same(current: Path, files: dict[str, _File]) -> bool:
    there = {str(path.relative_to(current)): path for path in current.rglob("*") if path.is_file()}
    return there.keys() == files.keys() and all(
        there[name].read_bytes() == file.content for name, file in files.items()
    )
