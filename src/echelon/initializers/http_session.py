"""HTTP for initializers: GET and POST over the standard library, tried again where that can help.

Tried again: no connection, a connection that breaks, 408, 429 and 5xx; with growing pauses, or as `Retry-After` says.
AccessKeys are for the host they are given for: a redirect to another host does not take them along.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .problems import LoadingFailed, Refused

_SECRET_HEADERS = ("authorization", "x-amz-security-token")
_AGAIN = (408, 429, 500, 502, 503, 504)
_MOST_PAUSE = 30.0
_SHOWN_BYTES = 500
T = TypeVar("T")
#: What a broken connection raises, while connecting, sending or reading.
BROKEN = (OSError, http.client.HTTPException)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(req.full_url).netloc:
            for name in list(new.headers):
                if name.lower() in _SECRET_HEADERS:
                    new.remove_header(name)
        return new


@dataclass
class HttpSession:
    attempts: int = 6
    first_pause: float = 0.5
    timeout: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    trusted: ssl.SSLContext | None = None
    _opener: urllib.request.OpenerDirector = field(init=False)

    def __post_init__(self) -> None:
        secure = urllib.request.HTTPSHandler(context=self.trusted or ssl.create_default_context())
        self._opener = urllib.request.build_opener(_Redirects, secure)

    def open(self, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Any:
        """One attempt: the response, to be closed; `Refused` or `OSError`."""
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise LoadingFailed(f"{url} is not an address of a web server")
        request = urllib.request.Request(url, data=body, headers=dict(headers))  # noqa: S310  checked above
        try:
            return self._opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as answer:
            with answer:
                raise _refusal(url, answer) from None

    def read(self, url: str, headers: Mapping[str, str], body: bytes | None = None) -> tuple[bytes, Mapping[str, str]]:
        """The whole answer with its headers, in lower case."""

        def once() -> tuple[bytes, Mapping[str, str]]:
            with self.open(url, headers, body) as response:
                return response.read(), {name.lower(): value for name, value in response.headers.items()}

        return self.persistently(once, url)

    def persistently(self, once: Callable[[], T], what: str) -> T:
        """`once` until it succeeds; the last failure is told when attempts run out."""
        pause = self.first_pause
        for attempt in range(1, self.attempts + 1):
            try:
                return once()
            except _Later as answer:
                if attempt == self.attempts:
                    raise Refused(answer.code, str(answer)) from None
                self.sleep(min(max(pause, answer.after), _MOST_PAUSE))
            except LoadingFailed:
                raise
            except BROKEN as problem:
                untrusted = isinstance(getattr(problem, "reason", None), ssl.SSLCertVerificationError)
                if attempt == self.attempts or untrusted:
                    raise LoadingFailed(f"{what}: {str(problem) or type(problem).__name__}") from problem
                self.sleep(pause)
            pause = min(pause * 2, _MOST_PAUSE)
        raise AssertionError("at least one attempt")


class _Later(Refused):
    """An answer that may be another one next time."""

    def __init__(self, code: int, message: str, after: float) -> None:
        super().__init__(code, message)
        self.after = after


def _refusal(url: str, answer: urllib.error.HTTPError) -> Refused:
    text = answer.read(_SHOWN_BYTES).decode(errors="replace").strip()
    place = urllib.parse.urlsplit(url)
    message = f"{place.scheme}://{place.netloc}{place.path}: {answer.code} {answer.reason}: {text}".rstrip(": ")
    if answer.code in _AGAIN:
        after = answer.headers.get("Retry-After", "")
        return _Later(answer.code, message, float(after) if after.isdigit() else 0.0)
    return Refused(answer.code, message)
