"""The server without sockets and without controllers: requests go straight into its application, many in a second.

What fails is logged as in a plane.  Several requests are in flight at a time, so that writes meet.
"""

from __future__ import annotations

import asyncio
import io
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import uvloop

from echelon.api.access.authorizers import AllowAll
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.base.rng import Rng
from echelon.runtime.clocks import RealClock
from echelon.server.http.application import Application
from echelon.server.http.handlers.health import Health
from echelon.server.http.requests.gate import Gate
from echelon.server.identity.authenticator import Authenticator
from echelon.server.identity.service_account_tokens import ServiceAccountTokens
from echelon.server.identity.user_file import UserFile
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.server.setup import certificates
from echelon.store.memory import open_memory

from .grammar import FuzzRequest, Grammar
from .grammar_run import GrammarResult, without_one_entry
from .plane import Answer

#: A request that takes more CPU time is told as a stall.
_MOST_CPU = 1.0
_TOKEN = "fuzz"
_MOST_TOLD = 20
_IN_FLIGHT = 8


class Direct:
    """An application that can be called like a connection."""

    def __init__(self, directory: Path) -> None:
        self.loop = uvloop.new_event_loop()
        self._app = self.loop.run_until_complete(self._made(directory))

    async def _made(self, directory: Path) -> Application:
        clock = RealClock()
        pipeline = Pipeline(open_memory(header_of), clock, Rng(1))
        await pipeline.bootstrap(builtin_runtimes())
        tokens = ServiceAccountTokens(certificates.signing_key(directory / "sa.key"), pipeline.reader)
        users = Authenticator(_TOKEN, UserFile(directory / "users.json"), tokens, time.time)
        gate, health = Gate(["direct"], users, AllowAll()), Health({}, {})
        return Application(pipeline, pipeline.kinds, gate, clock, "direct:1", bytes, health)

    def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        request = FuzzRequest(method, path, body, content_type, accept)
        return self.loop.run_until_complete(self.answer(request))

    async def answer(self, request: FuzzRequest) -> Answer:
        target, _, query = request.path.partition("?")
        headers = {"host": "direct", "authorization": f"Bearer {_TOKEN}", "content-type": request.content_type}
        headers |= {"accept": request.accept} if request.accept else {}
        headers |= {"content-length": str(len(request.body or b""))}
        scope = {
            "type": "http",
            "method": request.method,
            "path": unquote(target, errors="surrogateescape"),
            "query_string": query.encode("latin-1", "replace"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        }
        messages = [{"type": "http.request", "body": request.body or b"", "more_body": False}]
        never = asyncio.get_running_loop().create_future()
        codes, parts = list[int](), list[bytes]()

        async def receive() -> Any:
            return messages.pop() if messages else await never

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return Answer(codes[0], b"".join(parts))


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """What the server logs while the block runs."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setLevel(logging.ERROR)
    logging.getLogger("echelon").addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger("echelon").removeHandler(handler)


def run(directory: Path, seed: int, seconds: float, most: int) -> GrammarResult:
    """Send requests until the time or the number is over; the same seed sends the same requests."""
    direct, result, end = Direct(directory), GrammarResult(), time.monotonic() + seconds
    grammar = Grammar.of(direct, random.Random(seed))
    for name in ("fuzz", "a"):
        direct("POST", "/api/v1/namespaces", b'{"metadata":{"name":"%s"}}' % name.encode())
    with _logged() as log:
        while time.monotonic() < end and result.requests < most:
            batch = [grammar.request() for _ in range(_IN_FLIGHT)]
            begin = time.thread_time()
            for request, answer in zip(batch, direct.loop.run_until_complete(_answers(direct, batch)), strict=True):
                result.codes[answer.code] += 1
                _judge(direct, request, answer, log, result)
            took = time.thread_time() - begin
            if took > _MOST_CPU:
                told = " and ".join(request.curl() for request in batch)
                result.failures.append(f"took {took:.1f} s of CPU time: {told}")
    return result


async def _answers(direct: Direct, batch: list[FuzzRequest]) -> list[Answer]:
    return list(await asyncio.gather(*map(direct.answer, batch)))


def _judge(direct: Direct, request: FuzzRequest, answer: Answer, log: io.StringIO, result: GrammarResult) -> None:
    text = log.getvalue()
    log.seek(0)
    log.truncate()
    if (answer.code < 500 and not text) or len(result.failures) >= _MOST_TOLD:
        return
    small = request
    shrunk = answer.code >= 500 and request.tree is not None
    while shrunk:
        shrunk = False
        for candidate in without_one_entry(small):
            if direct.loop.run_until_complete(direct.answer(candidate)).code >= 500:
                small, shrunk = candidate, True
                break
    result.failures.append(f"{answer.code}: {answer.body[:300]!r}\n  {small.curl()}\n{text[-3_000:]}")
    print(result.failures[-1], flush=True)
