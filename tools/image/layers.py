"""The three trees of the image: Debian's packages, the wheels, the programs.

What changes least comes first, so that a new version of the programs is a small layer on nodes that have the others.
Trees are kept in a cache under a hash of what they are made from.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from . import archive, debian, wheels
from .archive import Layer
from .contents import (
    ARCHITECTURES,
    HOME,
    KEPT_OF_PACKAGES,
    NOT_OF_PACKAGES,
    NOT_OF_PROGRAM,
    NOT_OF_WHEELS,
    PACKAGES,
    PYTHON,
    SITE,
    STANDARD_LIBRARY,
    USER,
    Architecture,
)
from .debian import Apt, CannotAssemble

HERE = Path(__file__).parent
_CERTIFICATES = "usr/share/ca-certificates"
_LAUNCHER = f"#!/usr/bin/python{PYTHON} -sP\nfrom echelon.cli import main\n\nmain()\n"


def native() -> Architecture:
    """The architecture of this machine."""
    machine = platform.machine()
    for one in ARCHITECTURES.values():
        if one.machine == machine:
            return one
    raise CannotAssemble(f"no image for {machine}: known are {', '.join(ARCHITECTURES)}")


class Assembly:
    """The trees for one architecture, made below `cache` from the checkout at `source`."""

    def __init__(self, source: Path, cache: Path, architecture: Architecture) -> None:
        self._source, self._cache, self._architecture = source, cache, architecture
        self._apt = Apt(cache, architecture)
        self.base = Path()

    def layers(self) -> list[Layer]:
        return [self._base(), self._libraries(), self._programs()]

    def trees(self) -> list[Path]:
        return [layer.file.parent / "tree" for layer in self.layers()]

    def _base(self) -> Layer:
        self._apt.update()
        found = self._apt.find(PACKAGES)

        def make(tree: Path) -> None:
            for file in self._apt.fetch(found):
                debian.unpack(file, tree)
                _write(tree, f"var/lib/dpkg/status.d/{file.name.split('_')[0]}", debian.control_of(file))
            trusted = "".join(path.read_text() for path in sorted((tree / _CERTIFICATES).rglob("*.crt")))
            _prune(tree, NOT_OF_PACKAGES, KEPT_OF_PACKAGES)
            _settle(tree, trusted)
            self._compile(tree, tree, STANDARD_LIBRARY)

        layer = self._kept("base", "Debian packages", [one.digest for one in found], make)
        self.base = layer.file.parent / "tree"
        return layer

    def _libraries(self) -> Layer:
        lock = (self._source / "requirements.lock").read_text()

        def make(tree: Path) -> None:
            wheels.install(lock, tree / SITE, self._architecture)
            _prune(tree / SITE, NOT_OF_WHEELS)
            shutil.copyfile(HERE / "pandas.py", tree / SITE / "pandas.py")
            self._compile(self.base, tree, SITE)

        return self._kept(
            "libraries", "wheels of requirements.lock", [wheels.wanted(lock), self.base.parent.name], make
        )

    def _programs(self) -> Layer:
        package = self._source / "src" / "echelon"
        files = sorted(_files_of(package))

        def make(tree: Path) -> None:
            for path in files:
                target = tree / SITE / "echelon" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(package / path, target)
            version = version_of(self._source)
            metadata = f"Metadata-Version: 2.1\nName: echelon\nVersion: {version}\nLicense: Apache-2.0\n"
            _write(tree, f"{SITE}/echelon-{version}.dist-info/METADATA", metadata)
            _write(tree, "usr/local/bin/echelon", _LAUNCHER, mode=0o755)
            _write(tree, "usr/share/doc/echelon/copyright", (self._source / "LICENSE").read_text())
            self._compile(self.base, tree, SITE)

        content = [f"{path} {hashlib.sha256((package / path).read_bytes()).hexdigest()}" for path in files]
        return self._kept("programs", "echelon", [*content, self.base.parent.name], make)

    def _kept(self, name: str, title: str, inputs: Sequence[str], make: Callable[[Path], None]) -> Layer:
        """From the cache, or made and put there; whole or not at all."""
        code = [path.read_text() for path in sorted(HERE.glob("*.py"))]
        key = hashlib.sha256("\0".join([*code, *inputs]).encode()).hexdigest()[:16]
        place = self._cache / f"{self._architecture.name}-{name}-{key}"
        if not (place / "digests.json").is_file():
            shutil.rmtree(place, ignore_errors=True)
            (place / "tree").mkdir(parents=True)
            make(place / "tree")
            layer = archive.pack(title, place / "tree", place / "layer.tar.gz")
            (place / "digests.json").write_text(json.dumps([layer.digest, layer.content_digest]))
            self._forget(f"{self._architecture.name}-{name}-")
        digest, content_digest = json.loads((place / "digests.json").read_text())
        return Layer(title, place / "layer.tar.gz", digest, content_digest)

    def _forget(self, prefix: str) -> None:
        """Layers that were made more than a week ago; whoever still needs one makes it again."""
        for place in self._cache.glob(f"{prefix}*"):
            if place.stat().st_mtime < time.time() - 7 * 86400:
                shutil.rmtree(place)

    def _compile(self, base: Path, tree: Path, folder: str) -> None:
        """Bytecode without times in it, by the image's own Python where it runs here."""
        command = self._interpreter(base)
        given = ["-q", "-s", str(tree), "-p", "/", "--invalidation-mode", "unchecked-hash", str(tree / folder)]
        environment = {"PYTHONHASHSEED": "0", "PYTHONHOME": str(base / "usr"), "PYTHONDONTWRITEBYTECODE": "1"}
        if command == [sys.executable]:
            del environment["PYTHONHOME"]
        done = subprocess.run(
            [*command, "-S", "-m", "compileall", *given], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode != 0:
            raise CannotAssemble(f"not everything in /{folder} compiles: {done.stdout}{done.stderr}")

    def _interpreter(self, base: Path) -> list[str]:
        if self._architecture == native():
            libraries = base / self._architecture.libraries
            loader = libraries / self._architecture.loader
            return [str(loader), "--library-path", str(libraries), str(base / f"usr/bin/python{PYTHON}")]
        if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
            raise CannotAssemble(f"an image for another architecture needs Python {PYTHON} here, for its bytecode")
        return [sys.executable]


def version_of(source: Path) -> str:
    names: dict[str, str] = {}
    exec((source / "src" / "echelon" / "base" / "version.py").read_text(), names)
    return names["__version__"]


def _files_of(package: Path) -> Iterator[str]:
    for path in package.rglob("*"):
        name = str(path.relative_to(package))
        if path.is_file() and not _matches(name, NOT_OF_PROGRAM):
            yield name


def _settle(tree: Path, trusted: str) -> None:
    """What the packages' own scripts would do, directories that runtimes mount over, the links of a merged /usr."""
    _write(tree, "etc/ssl/certs/ca-certificates.crt", trusted)
    account = f"nonroot:x:{USER}:{USER}:nonroot:{HOME}:/sbin/nologin\n"
    _write(tree, "etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\n{account}")
    _write(tree, "etc/group", f"root:x:0:\nnonroot:x:{USER}:\n")
    _write(tree, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    (tree / "etc/os-release").symlink_to("../usr/lib/os-release")
    for name in ("dev", "proc", "run", "sys", "tmp", "var/run", "var/tmp", HOME.lstrip("/")):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(exist_ok=True)
        (tree / name).symlink_to(f"usr/{name}")


def _prune(tree: Path, unwanted: Iterable[str], kept: Iterable[str] = ()) -> None:
    """Files that a pattern names and none of `kept`, then directories in which nothing is left."""
    unwanted, kept = tuple(unwanted), tuple(kept)
    for path in sorted(tree.rglob("*"), reverse=True):
        name = str(path.relative_to(tree))
        if path.is_symlink() or not path.is_dir():
            if _matches(name, unwanted) and not _matches(name, kept):
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _write(tree: Path, name: str, content: str, mode: int = 0o644) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.chmod(path, mode)  # whatever the umask is
