"""Finds the user of a bearer token or of a client certificate."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from ...api.access.attributes import ADMIN, User
from .client_certificates import PeerCertificate
from .service_account_tokens import ISSUER, ServiceAccountTokens, TokenIdentity
from .user_file import UserFile


class Authenticator:
    """All ways to identify a caller."""

    def __init__(
        self, admin_token: str, users: UserFile, service_accounts: ServiceAccountTokens, now: Callable[[], float]
    ) -> None:
        self._digest = hashlib.sha256(admin_token.encode()).digest()
        self._users = users
        self.service_accounts = service_accounts
        #: Real time in seconds.
        self.now = now

    def by_token(self, token: str) -> User | None:
        """The user of a token for this server; None if it is not valid."""
        found = self.review(token, (ISSUER,))
        return found.user if found else None

    def by_certificate(self, certificate: PeerCertificate) -> User | None:
        """The user of a certificate that the CA of this server signed; None if the user was removed."""
        if certificate.added and not self._users.has_certificate(certificate.serial):
            return None
        return certificate.user

    def review(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None:
        """User and common audiences of a token; None if it is not valid for any of `audiences`."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if hmac.compare_digest(digest, self._digest):
            return TokenIdentity(ADMIN, tuple(audiences))
        if (user := self._users.by_token(token, self.now())) is not None:
            return TokenIdentity(user, tuple(audiences))
        found = self.service_accounts.verify(token, self.now())
        if found is None:
            return None
        common = tuple(audience for audience in audiences if audience in found.audiences)
        return TokenIdentity(found.user, common) if common else None
