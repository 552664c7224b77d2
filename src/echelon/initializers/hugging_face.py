"""`hf://org/repository[@revision][/path]`: files of a repository on a Hugging Face hub.

The revision is resolved to a commit first, so that all files are of one state of the repository.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from .file_download import Checksum, RemoteFile, git_blob, sha256
from .http_session import HttpSession
from .problems import LoadingFailed, Refused

HUB = "https://huggingface.co"
_NEXT_PAGE = re.compile(r'<([^>]+)>;\s*rel="next"')


@dataclass(frozen=True)
class HubSource:
    #: "model" or "dataset".
    kind: str
    repository: str
    revision: str
    #: Only files at or below this path; "" for all.
    within: str
    hub: str = HUB
    token: str = ""
    #: Only files that match one of these; all if there are none.
    allow: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def files(self, session: HttpSession) -> list[RemoteFile]:
        commit = self._commit(session)
        found = [one for one in self._listed(session, commit) if one["type"] == "file" and self._wanted(one["path"])]
        if not found:
            raise LoadingFailed(f"hf://{self.repository} has no file that is wanted")
        return [self._file(commit, one) for one in found]

    @property
    def _plural(self) -> str:
        return f"{self.kind}s"

    def _headers(self, _start: int = 0) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _read(self, session: HttpSession, url: str) -> tuple[Any, Mapping[str, str]]:
        try:
            body, headers = session.read(url, self._headers())
        except Refused as answer:
            raise LoadingFailed(self._said(answer)) from None
        return json.loads(body), headers

    def _said(self, answer: Refused) -> str:
        name = f"{self.kind} {self.repository}"
        if answer.code in (401, 403):
            why = "the token in ACCESS_TOKEN is not good for it" if self.token else "it needs a token in ACCESS_TOKEN"
            return f"{name} cannot be read: it does not exist, or {why} ({answer})"
        if answer.code == 404:
            return f"there is no {name} with revision {self.revision} ({answer})"
        return str(answer)

    def _commit(self, session: HttpSession) -> str:
        place = f"{self.hub}/api/{self._plural}/{self.repository}/revision/{_quoted(self.revision)}"
        return str(self._read(session, place)[0]["sha"])

    def _listed(self, session: HttpSession, commit: str) -> Iterator[Any]:
        url = f"{self.hub}/api/{self._plural}/{self.repository}/tree/{commit}?recursive=true"
        while url:
            page, headers = self._read(session, url)
            yield from page
            following = _NEXT_PAGE.search(headers.get("link", ""))
            url = urllib.parse.urljoin(url, following[1]) if following else ""

    def _wanted(self, path: str) -> bool:
        if self.within and path != self.within and not path.startswith(f"{self.within}/"):
            return False
        if self.allow and not any(fnmatch(path, pattern) for pattern in self.allow):
            return False
        return not any(fnmatch(path, pattern) for pattern in self.ignore)

    def _file(self, commit: str, entry: Any) -> RemoteFile:
        folder = "datasets/" if self.kind == "dataset" else ""
        url = f"{self.hub}/{folder}{self.repository}/resolve/{commit}/{_quoted(entry['path'], '/')}"
        large = entry.get("lfs")
        size = int((large or entry)["size"])
        checksum = Checksum(sha256, large["oid"]) if large else Checksum(git_blob(size), entry["oid"])
        return RemoteFile(entry["path"], url, size, checksum, self._headers)


def parse(uri: str) -> tuple[str, str, str]:
    """Repository, revision and path of a URI."""
    parts = uri.removeprefix("hf://").strip("/").split("/")
    repository, within = parts[:2], parts[2:]
    last, _, revision = repository[-1].partition("@")
    repository[-1] = last
    if not all(repository):
        raise LoadingFailed(f"{uri} is not of the form hf://org/repository")
    return "/".join(repository), revision or "main", "/".join(within)


def _quoted(text: str, safe: str = "") -> str:
    return urllib.parse.quote(text, safe=safe)
