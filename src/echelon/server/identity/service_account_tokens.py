"""Tokens of service accounts: signed JWTs with an expiry, audiences and, on request, a bound object.

A token is valid as long as its service account, and the object it is bound to, exist with the same uid.
Times are real times: who holds a token reads its expiry by its own clock.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from ...api.access.attributes import AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS_GROUP, User
from ...api.admission.reader import Reader
from ...api.scheme import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Object, Resource

ISSUER = "https://kubernetes.default.svc.cluster.local"
_CLAIM = "kubernetes.io"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_NUMBER_BYTES = 32
#: Kinds that a token can be bound to, by their name in the claim.
BINDABLE: Mapping[str, Resource] = {"pod": PODS, "secret": SECRETS, "node": NODES}


@dataclass(frozen=True)
class TokenIdentity:
    """The user of a token and the audiences that it is valid for."""

    user: User
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Signs and verifies tokens with one key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, reader: Reader) -> None:
        self._key = key
        self._reader = reader
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._header = _pack({"alg": "ES256", "kid": _base64(hashlib.sha256(public).digest())})

    def issue(
        self, account: Object, audiences: Sequence[str], now: float, seconds: int, bound: Object | None, identifier: str
    ) -> str:
        """A token for a service account; `bound` is the object whose deletion ends it."""
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        about: Object = {"namespace": namespace, "serviceaccount": {"name": name, "uid": metadata["uid"]}}
        if bound is not None:
            about[bound["kind"].lower()] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": list(audiences),
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": identifier,
            _CLAIM: about,
            "nbf": int(now),
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        }
        signed = f"{self._header}.{_pack(claims)}"
        first, second = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(first.to_bytes(_NUMBER_BYTES) + second.to_bytes(_NUMBER_BYTES))}"

    def verify(self, token: str, now: float) -> TokenIdentity | None:
        """Who a token is for; None if it is not ours, not valid now, or its objects are gone."""
        try:
            return self._verified(token, now)
        except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature, msgspec.MsgspecError):
            return None

    def _verified(self, token: str, now: float) -> TokenIdentity | None:
        header, claims, signature = token.split(".")
        raw = _unbase64(signature)
        if header != self._header or len(raw) != 2 * _NUMBER_BYTES:
            return None
        pair = encode_dss_signature(int.from_bytes(raw[:_NUMBER_BYTES]), int.from_bytes(raw[_NUMBER_BYTES:]))
        self._key.public_key().verify(pair, f"{header}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        # From here on the content is what this server signed.
        said: dict[str, Any] = msgspec.json.decode(_unbase64(claims))
        if not said["nbf"] <= now < said["exp"]:
            return None
        about = said[_CLAIM]
        space, account = about["namespace"], about["serviceaccount"]
        if not self._exists(SERVICE_ACCOUNTS, space, account):
            return None
        for word, resource in BINDABLE.items():
            if word in about and not self._exists(resource, space if resource.namespaced else "", about[word]):
                return None
        return TokenIdentity(_user(space, account, said["jti"], about), tuple(said["aud"]))

    def _exists(self, resource: Resource, namespace: str, wanted: Mapping[str, str]) -> bool:
        found = self._reader.get(resource, wanted["name"], namespace)
        return found is not None and found["metadata"]["uid"] == wanted["uid"]


def _user(namespace: str, account: Mapping[str, str], identifier: str, about: Object) -> User:
    extra = {_CREDENTIAL: (f"JTI={identifier}",)}
    if pod := about.get("pod"):
        extra["authentication.kubernetes.io/pod-name"] = (pod["name"],)
        extra["authentication.kubernetes.io/pod-uid"] = (pod["uid"],)
    return User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{account['name']}", groups_of(namespace), account["uid"], extra)


def groups_of(namespace: str) -> tuple[str, ...]:
    """The groups of every service account of a namespace."""
    return SERVICE_ACCOUNTS_GROUP, f"{SERVICE_ACCOUNTS_GROUP}:{namespace}", AUTHENTICATED


def _pack(content: Object) -> str:
    return _base64(msgspec.json.encode(content))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from error
