"""What requests log in with: a token and a TLS context, which change while the process runs.

    HttpVerbs, ConnectionPool ─► current() ─► Login                     for every request, so it must be cheap
                              └► renewed(login) ─► Login                when there is none, or the server refused it

Tokens of service accounts are replaced every hour, client certificates and authorities less often.  The files are read
again every few seconds, and at once when the server refuses what was read before; then the request is sent once more.
Open connections stay: only new ones use a new TLS context, and idle ones of an old context are not used again.

Another way to log in, such as the command of a kubeconfig, is another class with these two methods.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

#: How long what was read is used before the files are read again; kubelet replaces a token long before it expires.
_REREAD_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Login:
    """What requests are sent with.  What has changed is another object, so logins and contexts compare by identity."""

    #: Value of the Authorization header; "" for none.
    authorization: str = ""
    #: None: the default context for https, none for http.
    tls: ssl.SSLContext | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}


class LoginSource(Protocol):
    """Where the login of a connection comes from."""

    def current(self) -> Login | None:
        """The login to use now; None if it has to be renewed first."""
        ...

    async def renewed(self, refused: Login | None) -> Login:
        """The login to use instead of one that the server refused: the same object if there is no other.

        Raises OSError if none can be had.
        """
        ...


class FixedCredentials:
    """A login that never changes."""

    def __init__(self, login: Login = Login()) -> None:
        self._login = login

    def current(self) -> Login:
        return self._login

    async def renewed(self, refused: Login | None) -> Login:
        return self._login


class FileValue(Generic[T]):
    """A value made from files, and made again when their content has changed; without files it stays."""

    def __init__(self, files: Sequence[Path], make: Callable[[], T]) -> None:
        self._files = files
        self._make = make
        # Read before the value is made: a change in between is seen at the next check.
        self._content = self._read()
        self.value = make()
        self._problem = ""

    def check(self) -> None:
        """Read the files again.  What cannot be used is reported once and read again later: it is being replaced."""
        try:
            content = self._read()
            if content == self._content:
                return
            self.value = self._make()
        except (OSError, ValueError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("%s: %s; going on with what was read before", self._files[0], error)
            return
        self._content, self._problem = content, ""
        log.info("%s has changed and was read again", self._files[0])

    def _read(self) -> list[bytes]:
        return [file.read_bytes() for file in self._files]


class FileCredentials:
    """A login made from files: a token, or a client certificate with its key, and the authority of the server."""

    def __init__(self, authorization: FileValue[str], tls: FileValue[ssl.SSLContext], now: Callable[[], float]) -> None:
        """`now` is a time in seconds that only goes forward."""
        self._authorization = authorization
        self._tls = tls
        self._now = now
        self._login = Login(authorization.value, tls.value)
        self._checked = now()

    def current(self) -> Login:
        if self._now() - self._checked >= _REREAD_SECONDS:
            self._check()
        return self._login

    async def renewed(self, refused: Login | None) -> Login:
        # Of many requests that were refused at once, the first reads the files.
        if refused is self._login:
            self._check()
        return self._login

    def _check(self) -> None:
        self._checked = self._now()
        self._authorization.check()
        self._tls.check()
        read = (self._authorization.value, self._tls.value)
        if read != (self._login.authorization, self._login.tls):
            self._login = Login(*read)
