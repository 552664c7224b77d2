"""What a real server was asked, by whom and when: its audit log, read as it grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from echelon.base.instants import parse

from .rights import Right

#: Where the server says with which token a request came.
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


def policy(namespace: str, *others: str) -> dict[str, object]:
    """Requests of a namespace's service accounts and of other groups; of bindings and leases also what was sent."""
    accounts = [f"system:serviceaccounts:{namespace}", *others]
    sent = [
        {"group": "", "resources": ["pods/binding"]},
        {"group": "coordination.k8s.io", "resources": ["leases"]},
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Request", "userGroups": accounts, "resources": sent},
            {"level": "Metadata", "userGroups": accounts},
            {"level": "None"},
        ],
    }


@dataclass(frozen=True)
class Asked:
    """One request and its answer; a watch is there when it begins and when it ends."""

    received: float
    answered: float
    #: The name of the service account, and the id of the token.
    account: str
    credential: str
    verb: str
    group: str
    #: With its subresource: `pods/binding`.
    resource: str
    name: str
    code: int
    body: dict[str, Any]
    #: Why it was allowed or not, as the authorizer says.
    decision: str

    @property
    def right(self) -> Right:
        return Right(self.group, self.resource, self.verb)

    @property
    def forbidden(self) -> bool:
        return self.decision == "forbid"


@dataclass
class AuditLog:
    """Reads on where it ended the last time."""

    path: Path
    _read: int = 0
    _decoder: msgspec.json.Decoder[Any] = field(default_factory=msgspec.json.Decoder)

    @classmethod
    def from_now_on(cls, path: Path) -> AuditLog:
        """Without what was asked before; the log begins with the first request that is recorded."""
        return cls(path, path.stat().st_size if path.exists() else 0)

    def more(self) -> list[Asked]:
        """What was asked since, in the order in which it was received."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read += whole
        return sorted((_asked(one) for one in self._decoder.decode_lines(text[:whole])), key=lambda one: one.received)


@contextmanager
def nothing_forbidden(path: Path) -> Iterator[None]:
    """Nothing is forbidden to those whom the policy watches while the block lasts; what admission refuses is not."""
    log = AuditLog.from_now_on(path)
    yield
    forbidden = sorted({f"{one.account} may not {one.right}" for one in log.more() if one.forbidden})
    assert not forbidden, "\n".join(forbidden)


def _asked(event: dict[str, Any]) -> Asked:
    target = event.get("objectRef") or {}
    parts = (target.get("resource", ""), target.get("subresource", ""))
    (credential,) = event["user"].get("extra", {}).get(_CREDENTIAL, [""])
    return Asked(
        received=parse(event["requestReceivedTimestamp"]),
        answered=parse(event["stageTimestamp"]),
        account=event["user"]["username"].rpartition(":")[2],
        credential=credential,
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource="/".join(part for part in parts if part),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        body=event.get("requestObject") or {},
        decision=event.get("annotations", {}).get("authorization.k8s.io/decision", ""),
    )
