"""Client certificates: the TLS server asks for one, and a request carries what the certificate of its connection says.

The certificate is verified by the TLS handshake against the CA of this server: CN is the user, every O a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...api.access.attributes import AUTHENTICATED, User

#: The OU of certificates that `echelon user` issues; they are valid as long as the user exists.
ADDED_USER = "echelon-user"


@dataclass(frozen=True)
class PeerCertificate:
    user: User
    serial: str
    #: Whether it was issued for a user of the user file.
    added: bool


def parse(certificate: Mapping[str, Any] | None) -> PeerCertificate | None:
    """The certificate as `ssl.SSLObject.getpeercert` returns it; None if there is none or it names no user."""
    if not certificate:
        return None
    parts = [part for group in certificate.get("subject", ()) for part in group]
    names = [value for key, value in parts if key == "commonName"]
    if len(names) != 1 or not names[0]:
        return None
    groups = tuple(value for key, value in parts if key == "organizationName")
    added = ("organizationalUnitName", ADDED_USER) in parts
    return PeerCertificate(User(names[0], (*groups, AUTHENTICATED)), certificate.get("serialNumber", ""), added)
