"""Trees as layers: equal trees give equal bytes, whoever packs them, when and where.

Order, owners, times and modes do not come from the file system.  Times are zero, so that a layer stays the same, and
stays on the nodes, until something in it changes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LEVEL = 9
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Layer:
    #: What the layer is, for people.
    title: str
    file: Path
    #: Of the bytes in the file, and of the tar in it.
    digest: str
    content_digest: str

    @property
    def size(self) -> int:
        return self.file.stat().st_size


class _Squeezer(io.RawIOBase):
    """Takes a tar, writes it compressed, and knows the hashes of both.  zlib writes no time and no name."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self.content = hashlib.sha256()
        self.packed = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        plain = bytes(memoryview(data))  # type: ignore[arg-type]
        self.content.update(plain)
        self._put(self._deflate.compress(plain))
        return len(plain)

    def finish(self) -> None:
        self._put(self._deflate.flush())

    def _put(self, data: bytes) -> None:
        self.packed.update(data)
        self._target.write(data)


def pack(title: str, tree: Path, file: Path) -> Layer:
    with file.open("wb") as target:
        squeezer = _Squeezer(target)
        with tarfile.open(fileobj=squeezer, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(tree.rglob("*"), key=lambda path: path.relative_to(tree).parts):
                add_entry(archive, path, str(path.relative_to(tree)))
        squeezer.finish()
    return Layer(title, file, squeezer.packed.hexdigest(), squeezer.content.hexdigest())


def unpack(file: Path, target: Path) -> None:
    """As a container runtime does, without owners."""
    with gzip.open(file) as content, tarfile.open(fileobj=content, mode="r|") as archive:
        archive.extraction_filter = lambda member, _: member
        archive.extractall(target)


def add_entry(archive: tarfile.TarFile, path: Path, name: str) -> None:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
    elif stat.S_ISDIR(found.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if found.st_mode & stat.S_ISVTX else 0o755
        archive.addfile(entry)
    else:
        entry.size, entry.mode = found.st_size, 0o755 if found.st_mode & stat.S_IXUSR else 0o644
        with path.open("rb") as content:
            archive.addfile(entry, content)
