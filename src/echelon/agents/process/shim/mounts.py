"""The file system that a container sees: that of the machine, with its volumes at their mount paths.

A mount needs a place.  Where the machine has none, the nearest directory that exists is covered by a copy of itself in
memory (every entry bound to the original), which gets the missing entry; nothing is created on the machine.  The root
cannot be covered, so for a missing top-level directory the copy becomes the root of the container.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from . import kernel


class Mount:
    """A directory or a file of the machine at a path of the container."""

    def __init__(self, source: str, target: str, *, read_only: bool, made: bool = False) -> None:
        """What is `made` is a directory that may be missing: only this process sees where it is to be."""
        self.source = source
        self.target = os.path.normpath(target)
        self.read_only = read_only
        self.made = made


def separate() -> None:
    """What is mounted from here on is seen by nobody outside; call it in a new mount namespace."""
    kernel.mount("", "/", flags=kernel.REC | kernel.PRIVATE)


def own_processes() -> None:
    """A /proc of the new PID namespace."""
    kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)


def cover_file(source: str, target: str) -> None:
    """A file of the pod in place of one of the machine, where the machine has one."""
    if os.path.exists(target):
        kernel.bind(source, os.path.realpath(target))


def arrange(mounts: list[Mount], scratch: str, root: str = "", hidden: Iterable[str] = ()) -> None:
    """Mount everything, parents before children, and change into the root that has it all.

    `scratch` is an empty directory for the copies.  `root` is a directory that takes the place of the machine's root.
    What is `hidden` is empty for the container, but for what is mounted from there.
    """
    view = _View(scratch)
    if root:
        view.take_root(root)
    # All are opened before the first is mounted, which may cover where others come from.
    sources = [f"/proc/self/fd/{open_source(mount.source, made=mount.made)}" for mount in mounts]
    for source, mount in sorted(zip(sources, mounts, strict=True), key=lambda one: one[1].target):
        place = view.place_for(mount.target, directory=os.path.isdir(source))
        kernel.bind(source, place, read_only=mount.read_only)
    for path in hidden:
        _hide(view.root + path)
    if view.root:
        _change_root(view.root, hidden)
    os.chdir("/")


def open_source(path: str, *, made: bool = False) -> int:
    """A file or directory of the machine; OSError if a symbolic link is in its path: it was none a moment ago."""
    file = os.open("/", os.O_PATH | os.O_DIRECTORY)
    for part in filter(None, path.split("/")):
        if made:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=file)
        inner = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=file)
        os.close(file)
        file = inner
        if stat.S_ISLNK(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.ELOOP, f"{path}: a symbolic link came in the way")
    return file


def _change_root(root: str, hidden: Iterable[str]) -> None:
    os.chdir(root)
    try:
        kernel.change_root()
    except (OSError, KeyError):
        # Of a machine that still has its first file system as root, or inside a chroot: whoever climbs out of it again
        # finds what is hidden hidden there too.
        for path in hidden:
            _hide(path)
        os.chroot(".")


def _hide(path: str) -> None:
    if os.path.isdir(path):
        kernel.mount("tmpfs", path, "tmpfs", kernel.NOSUID | kernel.NODEV | kernel.RDONLY, "size=0,mode=755")
    elif os.path.exists(path):
        kernel.bind(os.devnull, path)


class _View:
    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._copies = 0
        #: Where the root of the container is; "" while it is that of the machine.
        self.root = ""

    def take_root(self, directory: str) -> None:
        """An unpacked image: the machine lends it /proc, /dev, /sys and its names."""
        self.root = self._new_directory()
        kernel.bind(directory, self.root)
        for name in ("proc", "dev", "sys"):
            kernel.bind(f"/{name}", self.place_for(f"/{name}", directory=True))
        for name in ("etc/hosts", "etc/resolv.conf"):
            if os.path.exists(f"/{name}"):
                kernel.bind(f"/{name}", self.place_for(f"/{name}", directory=False))

    def place_for(self, target: str, *, directory: bool) -> str:
        """The path to mount on; made where it is missing."""
        parent = "/"
        parts = target.strip("/").split("/")
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            path = os.path.join(parent, part)
            real = self._real(path)
            if not os.path.lexists(self.root + real):
                self._make_room(parent)
                real = os.path.join(self._real(parent), part)
                if directory or not last:
                    os.mkdir(self.root + real)
                else:
                    os.close(os.open(self.root + real, os.O_CREAT | os.O_WRONLY, 0o644))
            parent = path
        return self.root + self._real(target)

    def _real(self, path: str) -> str:
        """The path without symbolic links, as the container would resolve it."""
        if not self.root:
            return os.path.realpath(path)
        done = "/"
        for part in path.strip("/").split("/"):
            step = os.path.join(done, part)
            hops = 0
            while os.path.islink(self.root + step) and hops < 40:
                step = os.path.normpath(os.path.join(os.path.dirname(step), os.readlink(self.root + step)))
                hops += 1
            done = step
        return done

    def _make_room(self, directory: str) -> None:
        """Cover a directory with a copy of itself that takes new entries."""
        where = self._real(directory)
        original = self._new_directory()
        if where == "/" and not self.root:
            _fill("/", original)
            self.root = original
            return
        covered = self.root + where
        kernel.bind(covered, original)
        kernel.mount("tmpfs", covered, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755")
        _copy_entries(original, covered)

    def _new_directory(self) -> str:
        if not self._copies:
            # In memory, so that the mount points go with the container and the disk stays as it is.
            kernel.mount("tmpfs", self._scratch, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755")
        self._copies += 1
        path = f"{self._scratch}/{self._copies}"
        os.mkdir(path)
        return path


def _fill(source: str, target: str) -> None:
    kernel.mount("tmpfs", target, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755")
    _copy_entries(source, target)


def _copy_entries(source: str, target: str) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            place = f"{target}/{entry.name}"
            try:
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), place)
                    continue
                if entry.is_dir():
                    os.mkdir(place)
                else:
                    os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
                kernel.bind(entry.path, place)
            except OSError:
                continue  # what this user may not see, the container does not see either
