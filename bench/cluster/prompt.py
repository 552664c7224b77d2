"""A server that says yes: just enough of an API server to see what a scheduler costs by itself.

    python -m bench.cluster.prompt DIRECTORY SCENARIO SCALE RATE     prints its address, serves until its input ends

It speaks HTTPS, lists and watches the objects of a scenario as kube-apiserver writes them, answers so many bindings a
second one by one, and sends each as an event to those who watch pods.  It keeps nothing and refuses all other writes.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httptools
import msgspec

from echelon.api.scheme import COMPOSITE_POD_GROUPS, NODES, POD_GROUPS, PODS, Object
from echelon.runtime.plane import run_program
from echelon.server.setup import certificates

from .scenarios import SCENARIOS, Scenario

NAMESPACE = "alone"
_CREATED = "2026-01-01T00:00:00Z"
_BOUND = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
_REFUSED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}\n'
_TICK_SECONDS = 0.001


def _fields(value: object) -> object:
    """Which fields somebody has set, as managedFields tells it."""
    if not isinstance(value, dict):
        return {}
    return {".": {}, **{f"f:{name}": _fields(below) for name, below in value.items()}}


def as_served(obj: Object, number: int) -> Object:
    """An object with what a server adds to it."""
    metadata = {
        "name": obj["metadata"]["name"],
        **({} if obj["kind"] == NODES.kind else {"namespace": NAMESPACE}),
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(number),
        "generation": 1,
        "creationTimestamp": _CREATED,
        **{name: obj["metadata"][name] for name in ("labels",) if name in obj["metadata"]},
    }
    entry = {"manager": "bench", "operation": "Update", "apiVersion": obj["apiVersion"], "time": _CREATED}
    spec = dict(obj.get("spec") or {})
    if obj["kind"] == PODS.kind:
        spec = _defaulted(spec)
    managed = {**entry, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": _fields(spec)}}
    status = {"phase": "Pending", "qosClass": "Burstable"} if obj["kind"] == PODS.kind else {}
    return {
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
        "metadata": {**metadata, "managedFields": [managed]},
        "spec": spec,
        "status": obj.get("status", status),
    }


def _defaulted(spec: Object) -> Object:
    ready = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    container = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        **spec,
        "containers": [one | container for one in spec["containers"]],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "tolerations": [{"key": f"node.kubernetes.io/{key}", **ready} for key in ("not-ready", "unreachable")],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


class Served:
    """The objects of a scenario, and who watches pods."""

    def __init__(self, scenario: Scenario, rate: float) -> None:
        everything = [*scenario.nodes, *(group for _, group in scenario.groups), *scenario.pods]
        self._lists: dict[str, list[Object]] = {one.plural: [] for one in (NODES, POD_GROUPS, COMPOSITE_POD_GROUPS)}
        self._pods: dict[str, Object] = {}
        for number, obj in enumerate(everything, 1):
            served = as_served(obj, number)
            if obj["kind"] == PODS.kind:
                self._pods[obj["metadata"]["name"]] = served
            else:
                plural = next(
                    one.plural for one in (NODES, POD_GROUPS, COMPOSITE_POD_GROUPS) if one.kind == obj["kind"]
                )
                self._lists[plural].append(served)
        self._revision = len(everything)
        self._rate = rate
        self._line: deque[tuple[_Face, str, str]] = deque()
        self.watchers: list[asyncio.Transport] = []

    def listed(self, plural: str) -> bytes:
        items = list(self._pods.values()) if plural == PODS.plural else self._lists.get(plural, [])
        body = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._revision)}}
        return msgspec.json.encode({**body, "items": items})

    def ask(self, face: _Face, pod: str, node: str) -> None:
        self._line.append((face, pod, node))

    async def answer(self) -> None:
        """Answer bindings at the rate that was asked for; what is in line waits."""
        done, begin = 0, time.perf_counter()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.perf_counter()
            if not self._line:
                done, begin = 0, now
            while self._line and done < (now - begin) * self._rate:
                done += 1
                face, pod, node = self._line.popleft()
                face.say(b"201 Created", _BOUND)
                self._tell(pod, node)

    def _tell(self, name: str, node: str) -> None:
        self._revision += 1
        pod = self._pods[name]
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": _CREATED}
        bound = {
            **pod,
            "metadata": {**pod["metadata"], "resourceVersion": str(self._revision)},
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**pod["status"], "conditions": [scheduled]},
        }
        line = msgspec.json.encode({"type": "MODIFIED", "object": bound}) + b"\n"
        for watcher in self.watchers:
            watcher.write(b"%x\r\n%b\r\n" % (len(line), line))


class _Face(asyncio.Protocol):
    """One connection."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        if self._transport in self._served.watchers:
            self._served.watchers.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        parts = urlsplit(self._url.decode())
        path = parts.path.split("/")
        assert self._transport is not None
        if self._parser.get_method() == b"GET" and "watch" in parse_qs(parts.query):
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            self._transport.write(head)
            if path[-1] == PODS.plural:
                self._served.watchers.append(self._transport)
        elif self._parser.get_method() == b"GET":
            self.say(b"200 OK", self._served.listed(path[-1]))
        elif path[-1] == "binding":
            binding: dict[str, Any] = msgspec.json.decode(self._body)
            self._served.ask(self, path[-2], binding["target"]["name"])
        else:
            self.say(b"404 Not Found", _REFUSED)

    def say(self, status: bytes, body: bytes) -> None:
        """With the headers that kube-apiserver sends."""
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 %b\r\nAudit-Id: 5b55bfb3-6547-4cc9-a106-ac0a16f73c83\r\nCache-Control: no-cache, private\r\n"
            b"Content-Type: application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(body), body)
        )


async def _serve(directory: Path, served: Served) -> None:
    own = certificates.ensure(directory, time.time())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Face(served), "127.0.0.1", 0, ssl=tls)
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    answering = asyncio.create_task(served.answer())
    await loop.run_in_executor(None, sys.stdin.read)
    answering.cancel()
    server.close()


def main(arguments: Iterable[str]) -> None:
    directory, scenario, scale, rate = arguments
    run_program(_serve(Path(directory), Served(SCENARIOS[scenario](float(scale)), float(rate))))


if __name__ == "__main__":
    main(sys.argv[1:])
