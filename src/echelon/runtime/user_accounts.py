"""Users of an embedded control plane, added and removed in its data directory, also while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..server.identity.user_file import AddedUser, BadUser, UserFile
from ..server.setup import certificates, kubeconfigs

#: Certificates always expire.
_CERTIFICATE_SECONDS = 365 * 24 * 3600.0


class CannotChangeUsers(Exception):
    """The message is for the user of the command."""


@dataclass(frozen=True)
class UserAccounts:
    """The users of the plane with this data directory."""

    data: Path

    @property
    def _pki(self) -> Path:
        return self.data / "pki"

    def users(self) -> list[AddedUser]:
        self._server()
        with self._told():
            return UserFile(self._pki / "users.json").users()

    def add(self, name: str, groups: tuple[str, ...], seconds: float | None, *, certificate: bool) -> str:
        """Add a user; returns its kubeconfig, the only place where its token or key is."""
        url, authority = self._server()
        file, now = UserFile(self._pki / "users.json"), time.time()
        expires = None if seconds is None else now + seconds
        with self._told():
            if not certificate:
                return kubeconfigs.text(url, authority, file.add(name, groups, expires), name)
            life = seconds or _CERTIFICATE_SECONDS
            issued = certificates.issue_client(self._pki, name, groups, now, life)
            file.insert(AddedUser(name, groups, "", now + life, issued.serial))
            return kubeconfigs.text(url, authority, issued, name)

    def remove(self, name: str) -> None:
        self._server()
        with self._told():
            UserFile(self._pki / "users.json").remove(name)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong in the block is one line for the user."""
        try:
            yield
        except (BadUser, ValueError) as error:
            raise CannotChangeUsers(str(error)) from error
        except OSError as error:
            raise CannotChangeUsers(f"{self.data}: {error.strerror}") from error

    def _server(self) -> tuple[str, bytes]:
        """The address and the CA certificate."""
        try:
            return (self._pki / "url").read_text(), (self._pki / "ca.crt").read_bytes()
        except FileNotFoundError:
            raise CannotChangeUsers(f"{self.data} is not the data directory of a plane: run echelon up first") from None
        except OSError as error:
            raise CannotChangeUsers(f"{self.data}: {error.strerror}") from error
