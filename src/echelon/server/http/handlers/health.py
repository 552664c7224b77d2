"""`/healthz`, `/livez` and `/readyz`: all checks of a server, or one of them by name.

    ?verbose         a line per check; a failure is always told so
    ?exclude=NAME    leaves a check out
    /readyz/NAME     one check

The names are those of kube-apiserver: `etcd` is the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..replies.encode import text_response
from ..requests.request import Request, Response

_log = logging.getLogger(__name__)
#: A check returns why it fails, "" if it does not.
Check = Callable[[], str]

PATHS = ("/healthz", "/livez", "/readyz")


def _passes() -> str:
    return ""


class Health:
    """The checks of one server; `ready` are those that only `/readyz` makes."""

    def __init__(self, checks: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        alive = {"ping": _passes, "log": _passes, **checks}
        self._checks = {"healthz": alive, "livez": alive, "readyz": {**alive, **ready, "shutdown": self._shutdown}}
        self._closing = False

    def close(self) -> None:
        """The server begins to stop: it is not ready any more."""
        self._closing = True

    def _shutdown(self) -> str:
        return "process is shutting down" if self._closing else ""

    def answer(self, request: Request) -> Response | None:
        """The reply to a path below one of `PATHS`; None if it names no check."""
        head, _, name = request.path[1:].partition("/")
        checks = self._checks.get(head)
        if checks is None or (name and name not in checks):
            return None
        if name:
            failure = checks[name]()
            return text_response(f"internal server error: {failure}\n", 500) if failure else text_response("ok")
        return _all(head, checks, request)


def _all(head: str, checks: Mapping[str, Check], request: Request) -> Response:
    excluded = request.query.get("exclude", [])
    lines, failures = [], []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok\n")
        elif failure := check():
            # Anyone may ask, so the reason is only in the log.
            lines.append(f"[-]{name} failed: reason withheld\n")
            failures.append(f"{name}: {failure}")
        else:
            lines.append(f"[+]{name} ok\n")
    if unknown := sorted(set(excluded).difference(checks)):
        quoted = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
    if failures:
        _log.warning("%s check failed: %s", head, "; ".join(failures))
        return text_response(f"{''.join(lines)}{head} check failed\n", 500)
    if "verbose" not in request.query:
        return text_response("ok")
    return text_response(f"{''.join(lines)}{head} check passed\n")
