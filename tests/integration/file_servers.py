"""Small stand-ins that speak HTTP: a hub of repositories, a bucket, and the API server of a cluster."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape

from echelon.initializers.aws_signature import AccessKeys, signed_headers


class FileServer:
    """What all stand-ins share: requests are counted, some fail on demand, files are sent with ranges."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        #: Codes that the next requests for a path are answered with; 0 breaks the connection half-way.
        self.failures: dict[str, list[int]] = {}
        self.url = ""

    def answer(self, handler: _Handler) -> None:
        raise NotImplementedError

    def handle(self, handler: _Handler) -> None:
        self.requests.append(handler.path)
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        planned = self.failures.get(handler.path.partition("?")[0])
        if planned and planned[0]:
            handler.say(planned.pop(0), b"not now")
            return
        self.answer(handler)

    def file_headers(self) -> dict[str, str]:
        return {}

    def send_file(self, handler: _Handler, content: bytes) -> None:
        planned = self.failures.get(handler.path.partition("?")[0])
        begin = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))) else 0
        rest = content[begin:]
        broken = bool(planned) and planned.pop(0) == 0 if planned else False
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(rest)))
        for name, value in self.file_headers().items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(rest[: len(rest) // 2] if broken else rest)
        if broken:
            handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand_in: FileServer

    def do_GET(self) -> None:
        self.stand_in.handle(self)

    def do_POST(self) -> None:
        self.stand_in.handle(self)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def say(self, code: int, content: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(stand_in: FileServer) -> Iterator[None]:
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Hub(FileServer):
    """Repositories; those of `private` need the token."""

    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self) -> None:
        super().__init__()
        #: "models/org/name" -> path -> content.
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.token = "good"
        #: Files that are stored elsewhere, where requests are sent on to.
        self.large: set[str] = set()
        self.page = 2
        #: Content that is sent instead of the right one.
        self.wrong: dict[str, bytes] = {}

    def answer(self, handler: _Handler) -> None:
        place = urllib.parse.urlsplit(handler.path)
        words = urllib.parse.unquote(place.path).strip("/").split("/")
        if words[0] == "stored":
            self.send_file(handler, self._content("/".join(words[1:4]), "/".join(words[4:])))
            return
        if words[0] == "api":
            repository, verb, rest = "/".join(words[1:4]), words[4], words[5:]
        else:
            words = words if words[0] == "datasets" else ["models", *words]
            repository, verb, rest = "/".join(words[:3]), words[3], words[4:]
        if handler.headers.get("Authorization", f"Bearer {self.token}") != f"Bearer {self.token}":
            handler.say(401, b"Invalid credentials")
        elif repository in self.private and "Authorization" not in handler.headers:
            handler.say(401, b"Repository is private")
        elif repository not in self.repositories or rest[0] not in (self.COMMIT, "main"):
            handler.say(404, b"Repository not found")
        elif verb == "revision":
            handler.say(200, json.dumps({"sha": self.COMMIT}).encode())
        elif verb == "tree":
            self._tree(handler, repository, place)
        else:
            self._resolve(handler, repository, "/".join(rest[1:]))

    def _tree(self, handler: _Handler, repository: str, place: Any) -> None:
        begin = int(dict(urllib.parse.parse_qsl(place.query)).get("cursor", "0"))
        every = sorted(self.repositories[repository].items())
        entries = [self._entry(path, content) for path, content in every[begin : begin + self.page]]
        more = begin + self.page < len(every)
        link = (
            {"Link": f'<{self.url}{place.path}?recursive=true&cursor={begin + self.page}>; rel="next"'} if more else {}
        )
        handler.say(200, json.dumps(entries).encode(), **link)

    def _entry(self, path: str, content: bytes) -> Any:
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
        entry["oid"] = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        if path in self.large:
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        return entry

    def _resolve(self, handler: _Handler, repository: str, path: str) -> None:
        if path in self.large:
            port = self.url.rpartition(":")[2]
            place = f"http://localhost:{port}/stored/{repository}/{urllib.parse.quote(path)}"
            handler.say(302, b"", Location=place)
            return
        self.send_file(handler, self._content(repository, path))

    def _content(self, repository: str, path: str) -> bytes:
        return self.wrong.get(path, self.repositories[repository][path])


class Bucket(FileServer):
    """One bucket, with or without keys, and an STS that gives out keys of a role."""

    def __init__(self, keys: AccessKeys | None) -> None:
        super().__init__()
        self.keys = keys
        self.objects: dict[str, bytes] = {}
        self.page = 2
        self.asked: list[dict[str, str]] = []
        #: Whether tags of objects are not their checksums, as where a key service encrypts them.
        self.encrypted = False

    def answer(self, handler: _Handler) -> None:
        place = urllib.parse.urlsplit(handler.path)
        if handler.command == "POST":
            self._role(handler)
            return
        if self.keys is not None and not self._signed(handler):
            handler.say(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
            return
        _, bucket, key = urllib.parse.unquote(place.path).split("/", 2)
        if bucket != "data":
            handler.say(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif not key:
            self._list(handler, dict(urllib.parse.parse_qsl(place.query)))
        else:
            self.send_file(handler, self.objects[key])

    def file_headers(self) -> dict[str, str]:
        return {"x-amz-server-side-encryption": "aws:kms"} if self.encrypted else {}

    def _tag(self, key: str) -> str:
        return hashlib.md5((b"encrypted" if self.encrypted else b"") + self.objects[key]).hexdigest()

    def _signed(self, handler: _Handler) -> bool:
        assert self.keys is not None
        moment = handler.headers.get("X-Amz-Date", "20000101T000000Z")
        when = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        expected = signed_headers("GET", self.url + handler.path, "us-east-1", "s3", self.keys, when)
        return handler.headers.get("Authorization") == expected["Authorization"]

    def _list(self, handler: _Handler, asked: dict[str, str]) -> None:
        begin = int(asked.get("continuation-token", "0"))
        keys = sorted(key for key in self.objects if key.startswith(asked.get("prefix", "")))
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size>"
            f"<ETag>&quot;{self._tag(key)}&quot;</ETag></Contents>"
            for key in keys[begin : begin + self.page]
        )
        more = begin + self.page < len(keys)
        following = f"<NextContinuationToken>{begin + self.page}</NextContinuationToken>" if more else ""
        body = (
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{following}{entries}</ListBucketResult>"
        )
        handler.say(200, body.encode())

    def _role(self, handler: _Handler) -> None:
        assert self.keys is not None
        self.asked.append(dict(urllib.parse.parse_qsl(handler.body().decode())))
        body = (
            '<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Credentials>'
            f"<AccessKeyId>{self.keys.access_key}</AccessKeyId><SecretAccessKey>{self.keys.secret_key}</SecretAccessKey>"
            f"<SessionToken>{self.keys.session_token}</SessionToken></Credentials></R>"
        )
        handler.say(200, body.encode())


class ClusterServer(FileServer):
    """An API server with one TrainJob, where what is created can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.created: dict[str, Any] = {}
        self.looks = 0
        self.kinds = {"serviceaccounts", "leaderworkersets", "services"}

    def answer(self, handler: _Handler) -> None:
        words = handler.path.strip("/").split("/")
        if handler.command == "POST":
            self._create(handler, words[-1])
        elif words[-2:] == ["trainjobs", "train"]:
            metadata = {"name": "train", "uid": "u"}
            found = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata}
            handler.say(200, json.dumps(found).encode())
        elif words[-2] == "leaderworkersets":
            self.looks += 1
            ready = {"conditions": [{"type": "Available", "status": str(self.looks > 1)}]}
            handler.say(200, json.dumps({**self.created[words[-2]], "status": ready}).encode())
        else:
            handler.say(404, b"not found")

    def _create(self, handler: _Handler, plural: str) -> None:
        body = json.loads(handler.body())
        if plural not in self.kinds:
            handler.say(404, b"the server could not find the requested resource")
        elif plural in self.created:
            handler.say(409, b"already exists")
        else:
            self.created[plural] = body
            handler.say(201, b"{}")
