"""The users that the administrator added: names, groups and the hashes of their tokens, in a file of mode 0600.

`echelon user` changes the file, also while the server runs; the server reads it again when it has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ...api.access.attributes import AUTHENTICATED, User

_RESERVED = "system:"


class AddedUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]
    #: The hash of its token, or "" if it has a certificate.
    token_sha256: str
    #: Unix time; None: does not expire.
    expires: float | None = None
    #: The serial number of its certificate.
    serial: str = ""


class BadUser(Exception):
    """A user that cannot be added or removed; the message is for the administrator."""


class UserFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._by_digest: dict[str, AddedUser] = {}
        self._serials: frozenset[str] = frozenset()

    def by_token(self, token: str, now: float) -> User | None:
        """The user of a token; None if there is none or it has expired."""
        self._refresh()
        found = self._by_digest.get(_digest(token))
        if found is None or (found.expires is not None and found.expires <= now):
            return None
        return User(found.name, (*found.groups, AUTHENTICATED))

    def has_certificate(self, serial: str) -> bool:
        """Whether the certificate with that serial number belongs to a user that was not removed."""
        self._refresh()
        return serial in self._serials

    def _refresh(self) -> None:
        try:
            state = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._by_digest, self._serials = None, {}, frozenset()
            return
        seen = (state.st_mtime_ns, state.st_ino)
        if seen != self._seen:
            users = self.users()
            self._by_digest = {user.token_sha256: user for user in users}
            self._serials = frozenset(user.serial for user in users)
            self._seen = seen

    def users(self) -> list[AddedUser]:
        """All users by name."""
        if not self.path.exists():
            return []
        return sorted(msgspec.json.decode(self.path.read_bytes(), type=list[AddedUser]), key=lambda user: user.name)

    def add(self, name: str, groups: tuple[str, ...], expires: float | None) -> str:
        """Add a user; returns the token, which is not kept."""
        token = secrets.token_hex(32)
        self.insert(AddedUser(name, groups, _digest(token), expires))
        return token

    def insert(self, user: AddedUser) -> None:
        if not user.name or user.name.startswith(_RESERVED):
            raise BadUser(f'"{user.name}": a name must not be empty or start with {_RESERVED}')
        with self._locked():
            users = self.users()
            if any(other.name == user.name for other in users):
                raise BadUser(f"user {user.name} exists; remove it first")
            self._write([*users, user])

    def remove(self, name: str) -> None:
        """Remove a user; its token is refused at once."""
        with self._locked():
            users = self.users()
            left = [user for user in users if user.name != name]
            if len(left) == len(users):
                raise BadUser(f"there is no user {name}")
            self._write(left)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, users: list[AddedUser]) -> None:
        temporary = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(users))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)


def _digest(token: str) -> str:
    # A token is 256 random bits, so a plain hash cannot be guessed, and finding it by hash leaks nothing of it.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
