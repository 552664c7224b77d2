"""The audit log: one JSON line per request, at level Metadata of audit.k8s.io/v1.

It says who did what to which object, when, and with which result.  Bodies, tokens and other headers are never written.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec

from ...api.access.attributes import Attributes, User
from ...api.scheme import Object
from ...base.instants import to_micro_time
from .requests.request import Request
from .requests.routes import Target

_log = logging.getLogger(__name__)
#: As upstream: a longer id of a client is cut here, but not in its reply.
_LONGEST_ID = 64


class AuditLog:
    """Appends to a file of mode 0600, which survives restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def close(self) -> None:
        os.close(self._file)

    def write(
        self,
        request: Request,
        target: Target | None,
        attributes: Attributes,
        sender: User,
        received: float,
        code: int,
    ) -> None:
        event = _event(request, attributes, sender, received, code)
        if target is not None:
            event["objectRef"] = _reference(target, attributes)
        try:
            os.write(self._file, msgspec.json.encode(event) + b"\n")
        except OSError as error:
            _log.error("audit log %s: %s", self._path, error.strerror)


def _event(request: Request, attributes: Attributes, sender: User, received: float, code: int) -> Object:
    event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": request.audit_id[:_LONGEST_ID],
        "stage": "ResponseStarted" if attributes.verb == "watch" and code < 300 else "ResponseComplete",
        "requestURI": request.uri,
        "verb": attributes.verb,
        "user": sender.info(),
    }
    if attributes.user is not sender:
        event["impersonatedUser"] = attributes.user.info()
    return event | {
        "sourceIPs": [request.client] if request.client else [],
        "userAgent": request.headers.get("user-agent", ""),
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": to_micro_time(received),
        "stageTimestamp": to_micro_time(time.time()),
    }


def _reference(target: Target, attributes: Attributes) -> Object:
    resource = target.resource
    found = {
        "resource": resource.plural,
        "namespace": attributes.namespace,
        "name": attributes.name,
        "apiGroup": resource.group,
        "apiVersion": resource.version,
        "subresource": target.subresource,
    }
    return {key: value for key, value in found.items() if value}
