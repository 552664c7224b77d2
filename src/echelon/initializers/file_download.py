"""One file from a URL to disk: goes on where it broke off, is checked, and appears under its name only when whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from .http_session import HttpSession
from .problems import LoadingFailed, Refused

_CHUNK = 1 << 20
_AT_ONCE = 4
_PART = ".part"
_RANGE_NOT_SATISFIABLE = 416


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class Checksum:
    """What the content of a file must add up to."""

    start: Callable[[], Digest]
    expected: str
    #: Whether it says nothing after all, by the headers that the file came with.
    void: Callable[[Mapping[str, str]], bool] = lambda _headers: False


@dataclass(frozen=True)
class RemoteFile:
    #: Below the folder it goes to, with `/`.
    path: str
    url: str
    size: int
    checksum: Checksum | None
    #: Headers of a request for it, from this byte on; signed anew for every attempt.
    headers: Callable[[int], Mapping[str, str]]


def sha256() -> Digest:
    return hashlib.sha256()


def git_blob(size: int) -> Callable[[], Digest]:
    """The id that git gives to a file of this size."""

    def start() -> Digest:
        digest = hashlib.sha1(usedforsecurity=False)
        digest.update(f"blob {size}\0".encode())
        return digest

    return start


def md5() -> Digest:
    return hashlib.md5(usedforsecurity=False)


def download_all(session: HttpSession, files: Sequence[RemoteFile], folder: Path, tell: Callable[[str], None]) -> None:
    """All files into a folder; those that are there already and right are left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = [_target(folder, file.path) for file in files]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for line in pool.map(lambda pair: _download(session, *pair), zip(files, targets, strict=True)):
            tell(line)


def _target(folder: Path, path: str) -> Path:
    """Where a file goes; a server does not choose places outside the folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise LoadingFailed(f"the server names a file {path!r}, which would leave {folder}")
    return folder.joinpath(*parts)


def _download(session: HttpSession, file: RemoteFile, target: Path) -> str:
    if target.is_file() and target.stat().st_size == file.size and _is_right(file, target):
        return f"{file.path}: there already"
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + _PART)
    if not _arrives(session, file, part) and not _arrives(session, file, part):
        raise LoadingFailed(f"{file.path}: the checksum of what arrived is not the one that the server names")
    os.replace(part, target)
    return f"{file.path}: {file.size} bytes"


def _arrives(session: HttpSession, file: RemoteFile, part: Path) -> bool:
    """Fetch a file; False, and nothing kept, if it is not the right one: perhaps two versions of it were mixed."""
    headers = session.persistently(lambda: _rest(session, file, part), file.url)
    if (file.checksum is not None and file.checksum.void(headers)) or _is_right(file, part):
        return True
    part.unlink()
    return False


def _rest(session: HttpSession, file: RemoteFile, part: Path) -> Mapping[str, str]:
    """What is missing of the file, appended; the headers that it came with, in lower case."""
    have = part.stat().st_size if part.exists() else 0
    if have > file.size:
        part.unlink()
        have = 0
    if have == file.size and part.exists():
        return {}
    headers = dict(file.headers(have))
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = session.open(file.url, headers)
    except Refused as answer:
        if answer.code == _RANGE_NOT_SATISFIABLE:
            part.unlink()
            raise OSError(f"{file.path} is shorter than it was") from None
        raise
    with response, part.open("ab" if have and response.status == 206 else "wb") as out:
        while chunk := response.read(_CHUNK):
            out.write(chunk)
    got = part.stat().st_size
    if got != file.size:
        raise OSError(f"{file.path}: {got} of {file.size} bytes arrived")
    return {name.lower(): value for name, value in response.headers.items()}


def _is_right(file: RemoteFile, path: Path) -> bool:
    if file.checksum is None:
        return True
    digest = file.checksum.start()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == file.checksum.expected
