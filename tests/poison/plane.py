"""`echelon up` as a process with a log, an HTTPS client for odd requests, and a measure of how soon it answers."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.process import free_port

_CLUSTER = "pools:\n- {name: cpu, counts: {node: 3}, capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}\n"
#: Lines of a log that tell of an object or a component that failed.
_FAILURES = ("Traceback", "set aside", "failed", "unexpected error")


_HELD = re.compile(r"event loop held for (\d+) ms \(CPU time: loop (\d+) ms, process (\d+) ms\) at (.*)")


def is_failure(line: str) -> bool:
    """Whether a line of a log tells of something that failed."""
    return any(word in line for word in _FAILURES) and "event loop held" not in line


@dataclass(frozen=True)
class HeldLoop:
    """A turn of the plane's event loop that took long, in seconds: by the clock, and CPU time of loop and process."""

    seconds: float
    loop_cpu: float
    process_cpu: float
    places: str


@dataclass(frozen=True)
class Answer:
    code: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Plane:
    """One data directory, any number of lives."""

    def __init__(self, directory: Path, speed: float = 20.0, watchdog: bool = False) -> None:
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({"ECHELON_WATCHDOG": "50"} if watchdog else {})}
        directory.mkdir(parents=True, exist_ok=True)
        self._data = directory / "data"
        self._log = directory / "log"
        cluster = directory / "cluster.yaml"
        cluster.write_text(_CLUSTER)
        self._port = free_port()
        self._arguments = ["--data", str(self._data), "--port", str(self._port)]
        self._arguments += ["--cluster", str(cluster), "--speed", str(speed)]
        self._process: subprocess.Popen[bytes] | None = None
        self._told = 0

    def start(self, seconds: float = 60.0) -> None:
        with self._log.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "echelon", "up", *self._arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )
        deadline = time.monotonic() + seconds
        while b"is ready at" not in self._log.read_bytes()[begin:]:
            assert self._process.poll() is None, f"the plane ended at its start:\n{self.log()}"
            assert time.monotonic() < deadline, f"the plane does not start:\n{self.log()}"
            time.sleep(0.02)
        config = yaml.safe_load((self._data / "kubeconfig").read_text())
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        user = config["users"][0]["user"]
        self._headers = {"authorization": f"Bearer {user['token']}"}

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def memory(self) -> int:
        """Resident bytes."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def failures(self) -> list[str]:
        """Lines of the log that tell of something that failed."""
        return [line for line in self.log().splitlines() if is_failure(line)]

    def new_lines(self) -> list[str]:
        """Whole lines of the log that were not asked for yet."""
        with self._log.open("rb") as log:
            log.seek(self._told)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._told += len(whole)
        return whole.decode(errors="replace").splitlines()

    def held(self) -> list[HeldLoop]:
        """What the watchdog has told, if the plane was started with one."""
        found = [_HELD.search(line) for line in self.log().splitlines()]
        return [HeldLoop(*(int(number) / 1000 for number in one.groups()[:3]), one[4]) for one in found if one]

    def connect(self, timeout: float = 30.0) -> Connection:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=timeout)
        return Connection(connection, self._headers)

    @contextmanager
    def watched(self, every: float = 0.1) -> Iterator[Latencies]:
        """Time a GET every so often, on a thread of its own, while the block runs."""
        latencies, stop = Latencies(), threading.Event()

        def measure() -> None:
            connection = self.connect()
            while not stop.wait(every):
                begin = time.monotonic()
                try:
                    connection("GET", "/api/v1/namespaces/default")
                except (OSError, http.client.HTTPException):
                    latencies.failed += 1
                latencies.seconds.append(time.monotonic() - begin)
            connection.close()

        thread = threading.Thread(target=measure, name="latencies")
        thread.start()
        try:
            yield latencies
        finally:
            stop.set()
            thread.join()


@dataclass
class Latencies:
    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def share(self, part: float) -> float:
        """The latency that this part of all requests did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0

    @property
    def worst(self) -> float:
        return max(self.seconds, default=0.0)


class Connection:
    """A connection that is kept; `self(method, path, body)` sends one request."""

    def __init__(self, connection: http.client.HTTPSConnection, headers: dict[str, str]) -> None:
        self._connection = connection
        self._headers = headers

    def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        sent = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        if isinstance(sent, str):
            sent = sent.encode("utf-8", "surrogatepass")
        headers = {**self._headers, "content-type": content_type, **({"accept": accept} if accept else {})}
        try:
            self._connection.request(method, path, sent, headers)
            response = self._connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


def wait_for(check: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.05)
