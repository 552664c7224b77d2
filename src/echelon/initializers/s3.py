"""`s3://bucket/prefix`: objects of a bucket, of AWS or of any server that speaks its protocol.

Without an endpoint of its own a bucket is addressed as a host of AWS, with one by path.  Without keys requests are
not signed, for buckets that are public.  With a role, temporary keys of that role come from STS first.
"""

from __future__ import annotations

import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .aws_signature import AccessKeys, signed_headers
from .file_download import Checksum, RemoteFile, md5
from .http_session import HttpSession
from .problems import LoadingFailed, Refused

_DEFAULT_REGION = "us-east-1"
_SESSION = "echelon-initializer"
_PLAIN_MD5 = re.compile(r"[0-9a-f]{32}")


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class S3Source:
    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = _DEFAULT_REGION
    credentials: AccessKeys | None = None
    now: Callable[[], datetime] = _utc

    def files(self, session: HttpSession) -> list[RemoteFile]:
        found = [self._file(key, size, tag) for key, size, tag in self._listed(session) if self._within(key)]
        if not found:
            raise LoadingFailed(f"there is no object at or below s3://{self.bucket}/{self.prefix}")
        return found

    @property
    def _base(self) -> str:
        if self.endpoint:
            return f"{self.endpoint.rstrip('/')}/{self.bucket}"
        if "." in self.bucket:
            # No certificate holds for a host name of several more parts.
            return f"https://s3.{self.region}.amazonaws.com/{self.bucket}"
        return f"https://{self.bucket}.s3.{self.region}.amazonaws.com"

    def _headers(self, url: str) -> Mapping[str, str]:
        if self.credentials is None:
            return {}
        return signed_headers("GET", url, self.region, "s3", self.credentials, self.now())

    def _listed(self, session: HttpSession) -> Iterator[tuple[str, int, str]]:
        page = ""
        while True:
            asked = {"list-type": "2", "prefix": self.prefix, **({"continuation-token": page} if page else {})}
            url = f"{self._base}/?{urllib.parse.urlencode(sorted(asked.items()), quote_via=urllib.parse.quote)}"
            try:
                body, _ = session.read(url, self._headers(url))
            except Refused as answer:
                raise LoadingFailed(self._said(answer)) from None
            tree = _xml(body)
            for entry in tree.findall("Contents"):
                yield entry.findtext("Key", ""), int(entry.findtext("Size", "0")), entry.findtext("ETag", "").strip('"')
            page = tree.findtext("NextContinuationToken", "") if tree.findtext("IsTruncated") == "true" else ""
            if not page:
                return

    def _said(self, answer: Refused) -> str:
        if answer.code == 404:
            return f"there is no bucket {self.bucket} ({answer})"
        if answer.code in (401, 403):
            keys = "these keys may not read it" if self.credentials else "it needs ACCESS_KEY_ID and SECRET_ACCESS_KEY"
            return f"bucket {self.bucket} cannot be read: {keys} ({answer})"
        return str(answer)

    def _within(self, key: str) -> bool:
        """Whether an object is the wanted one or below it; names that end with `/` stand for folders."""
        below = self.prefix if not self.prefix or self.prefix.endswith("/") else f"{self.prefix}/"
        return not key.endswith("/") and (key == self.prefix or key.startswith(below))

    def _file(self, key: str, size: int, tag: str) -> RemoteFile:
        url = f"{self._base}/{urllib.parse.quote(key, safe='/~')}"
        name = key.rsplit("/", 1)[-1] if key == self.prefix else key.removeprefix(self.prefix).lstrip("/")
        # Objects that came in parts, and those that a key service encrypts, have a tag of another kind.
        checksum = Checksum(md5, tag, _by_key_service) if _PLAIN_MD5.fullmatch(tag) else None
        return RemoteFile(name, url, size, checksum, lambda _start: self._headers(url))


def _by_key_service(headers: Mapping[str, str]) -> bool:
    return headers.get("x-amz-server-side-encryption", "").startswith("aws:kms")


def parse(uri: str) -> tuple[str, str]:
    """Bucket and prefix of a URI."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise LoadingFailed(f"{uri} is not of the form s3://bucket/prefix")
    return bucket, prefix


def credentials_of_role(
    session: HttpSession, role: str, own: AccessKeys | None, region: str, token_file: str = "", endpoint: str = ""
) -> AccessKeys:
    """Temporary keys of a role: by the token of a pod's service account, else by keys of one's own."""
    asked = {"Version": "2011-06-15", "RoleArn": role, "RoleSessionName": _SESSION}
    url = endpoint or f"https://sts.{region}.amazonaws.com/"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    if token_file:
        identity = Path(token_file).read_text(encoding="utf-8").strip()
        body = _form({**asked, "Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": identity})
        answer, _ = session.read(url, form, body)
    elif own is not None:
        body = _form({**asked, "Action": "AssumeRole"})
        answer, _ = session.read(url, signed_headers("POST", url, region, "sts", own, _utc(), body, form), body)
    else:
        raise LoadingFailed("ROLE_ARN needs ACCESS_KEY_ID and SECRET_ACCESS_KEY, or AWS_WEB_IDENTITY_TOKEN_FILE")
    found = _xml(answer).find(".//Credentials")
    if found is None:
        raise LoadingFailed(f"{url} gave no credentials for {role}")
    return AccessKeys(
        found.findtext("AccessKeyId", ""), found.findtext("SecretAccessKey", ""), found.findtext("SessionToken", "")
    )


def _form(fields: Mapping[str, str]) -> bytes:
    return urllib.parse.urlencode(fields).encode()


def _xml(body: bytes) -> ElementTree.Element:
    """The tree of an answer, names without their namespace."""
    try:
        tree = ElementTree.fromstring(body)  # noqa: S314  of the server that the user names; expat bounds expansion
    except ElementTree.ParseError as problem:
        raise LoadingFailed(f"the server's answer is not XML: {problem}") from None
    for element in tree.iter():
        element.tag = element.tag.rpartition("}")[2]
    return tree
