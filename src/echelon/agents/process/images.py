"""What `image` means where no image is pulled: which programs a container finds, and what it runs without a command.

By default a container sees the PATH and the interpreter of the environment that Echelon was started from.  A file says
otherwise for images whose name matches; the first match counts:

images:
  - image: pytorch/pytorch*            # * stands for anything
    virtualenv: /opt/torch             # its bin comes first in PATH
  - image: registry.example/mpi:*
    path: [/usr/lib64/openmpi/bin]     # come first in PATH
    command: [mpirun]                  # for containers without a command
    env: {OMPI_MCA_btl: "tcp,self"}
  - image: "*/busybox*"
    root: /srv/busybox                 # an unpacked image: the container sees it as /
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

#: Of the environment that Echelon was started from, what every container gets.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "CONDA_PREFIX", "TZ", "SSL_CERT_FILE")
_KEYS = {"image", "virtualenv", "path", "command", "env", "root"}
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class BadImages(ValueError):
    """The file is invalid; the message is for the user."""


@dataclass(frozen=True)
class ImageUse:
    """How containers of an image run."""

    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    #: A directory that takes the place of the root; "" for the machine's own.
    root: str = ""


@dataclass(frozen=True)
class _Entry:
    pattern: str
    use: ImageUse


class Images:
    def __init__(self, entries: tuple[_Entry, ...] = (), source: str = "") -> None:
        self._entries = entries
        self._default = ImageUse(_environment(()))
        self.source = source

    def of(self, image: str) -> ImageUse:
        for entry in self._entries:
            if fnmatchcase(image, entry.pattern):
                return entry.use
        return self._default

    def advice(self, container: str, image: str) -> str:
        """What to write for a container that says no command."""
        where = f"in {self.source}" if self.source else "in a file for --images"
        return (
            f'images are not pulled on process nodes: container "{container}" needs a command, or an entry for '
            f'its image {where}: {{image: "{image}", command: [...]}}'
        )


def read_images(path: Path) -> Images:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadImages(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise BadImages(f"{path}: not YAML: {error}") from error
    entries = content.get("images") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise BadImages(f"{path}: must have a list 'images'")
    read = (_entry(entry, f"{path}: images[{number}]") for number, entry in enumerate(entries))
    return Images(tuple(read), str(path))


def _entry(entry: Any, where: str) -> _Entry:
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise BadImages(f"{where}: must be a mapping with 'image'")
    unknown = sorted(set(map(str, entry)) - _KEYS)
    if unknown:
        raise BadImages(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(_KEYS))}")
    folders = [str(folder) for folder in entry.get("path") or ()]
    env: dict[str, str] = {}
    if entry.get("virtualenv"):
        folders.insert(0, os.path.join(str(entry["virtualenv"]), "bin"))
        env["VIRTUAL_ENV"] = str(entry["virtualenv"])
    for folder in (*folders, *([str(entry["root"])] if entry.get("root") else ())):
        if not os.path.isdir(folder):
            raise BadImages(f"{where}: {folder} is not a directory")
    command = entry.get("command") or ()
    if isinstance(command, str):
        raise BadImages(f"{where}.command: must be a list")
    own = {str(key): str(value) for key, value in (entry.get("env") or {}).items()}
    root = str(entry.get("root") or "")
    base = {"PATH": ":".join([*folders, _DEFAULT_PATH])} if root else _environment(tuple(folders))
    return _Entry(entry["image"], ImageUse(base | env | own, tuple(map(str, command)), root))


def _environment(first: tuple[str, ...]) -> dict[str, str]:
    """Of the environment of Echelon; its interpreter comes first in PATH, after `first`, or what is activated."""
    own = os.path.dirname(sys.executable)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = os.environ.get("PATH", _DEFAULT_PATH).split(":")
    if activated := _activated():
        return inherited | activated | {"PATH": ":".join(dict.fromkeys([*first, *path, own]))}
    made = inherited | {"PATH": ":".join(dict.fromkeys([*first, own, *path]))}
    if sys.prefix != sys.base_prefix:
        made["VIRTUAL_ENV"] = sys.prefix
    return made


def _activated() -> dict[str, str]:
    """Variables of the virtualenv or conda environment that somebody chose; conda's `base` is there unasked."""
    if (virtualenv := os.environ.get("VIRTUAL_ENV", "")) not in ("", sys.prefix):
        return {"VIRTUAL_ENV": virtualenv}
    if (conda := os.environ.get("CONDA_DEFAULT_ENV", "base")) != "base":
        return {"CONDA_DEFAULT_ENV": conda}
    return {}
