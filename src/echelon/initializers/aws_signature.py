"""Signature Version 4: how requests to S3 and STS say who sends them."""

from __future__ import annotations

import hashlib
import hmac
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class AccessKeys:
    access_key: str
    secret_key: str
    #: Of temporary credentials; "" for others.
    session_token: str = ""


def signed_headers(
    method: str,
    url: str,
    region: str,
    service: str,
    credentials: AccessKeys,
    now: datetime,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """`headers` with those that sign the request; `now` is UTC."""
    place = urllib.parse.urlsplit(url)
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    content = hashlib.sha256(body).hexdigest()
    all_headers = {**(headers or {}), "X-Amz-Content-Sha256": content, "X-Amz-Date": moment}
    if credentials.session_token:
        all_headers["X-Amz-Security-Token"] = credentials.session_token
    # The client itself sends the host.
    by_name = {name.lower(): " ".join(value.split()) for name, value in (all_headers | {"host": place.netloc}).items()}
    names = ";".join(sorted(by_name))
    listed = "".join(f"{name}:{by_name[name]}\n" for name in sorted(by_name))
    query = _query(place.query)
    request = "\n".join([method, place.path or "/", query, listed, names, content])
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for word in (day, region, service, "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    who = f"Credential={credentials.access_key}/{scope}"
    return {**all_headers, "Authorization": f"{_ALGORITHM} {who}, SignedHeaders={names}, Signature={signature}"}


def _query(query: str) -> str:
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quoted = sorted((urllib.parse.quote(name, safe="~"), urllib.parse.quote(value, safe="~")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in quoted)
