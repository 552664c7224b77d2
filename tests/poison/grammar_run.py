"""The grammar fuzzer against a running plane: counts answers, and makes what fails as small as it can."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .grammar import FuzzRequest, Grammar
from .plane import Connection, Plane, is_failure

#: A request that is not answered in this time is told; what holds the loop for less is judged by CPU time.
_ANSWER_SECONDS = 120.0
#: A step of the event loop that took more CPU time is told as a stall.
_STALL_CPU = 0.25
#: Requests between two looks at the log, and between two clearings of pods that Jobs have left behind.
_LOOK, _CLEAR = 100, 3_000
#: Requests that a reproduction of a failure in the log is sought in.
_WINDOW = 300
#: Failures of one run that are made smaller.
_MOST_REPRODUCED = 20
_LEFT_BEHIND = (
    "/apis/batch/v1/namespaces/{}/jobs",
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "/api/v1/namespaces/{}/pods",
)


@dataclass
class GrammarResult:
    codes: Counter[int] = field(default_factory=Counter)
    #: Each failure with its reproduction.
    failures: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return sum(self.codes.values())


def set_up(connection: Connection) -> None:
    for name in ("fuzz", "a"):
        connection("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def run(plane: Plane, seed: int, seconds: float, most: int, threads: int, directory: Path) -> GrammarResult:
    """Send requests until the time or the number is over; the same seed and one thread send the same requests."""
    result, lock = GrammarResult(), threading.Lock()
    end = time.monotonic() + seconds
    connection = plane.connect(_ANSWER_SECONDS)
    set_up(connection)
    recent: deque[FuzzRequest] = deque(maxlen=_WINDOW)

    def work(number: int) -> None:
        own = plane.connect(_ANSWER_SECONDS)
        grammar = Grammar.of(own, random.Random(f"{seed}-{number}"))
        while time.monotonic() < end and result.requests < most and plane.runs:
            request = grammar.request()
            recent.append(request)
            problem, code = _send(own, request)
            with lock:
                result.codes[code] += 1
                if problem and len(result.failures) < _MOST_REPRODUCED:
                    small = _smaller(own, request)
                    result.failures.append(f"{problem}\n  {small.curl()}")
                    print(result.failures[-1], flush=True)
                if number == 0 and result.codes.total() % _LOOK < threads:
                    _look_at_log(plane, list(recent), result, directory)
            if number == 0 and result.requests % _CLEAR < threads:
                _clear(own)

    workers = [threading.Thread(target=work, args=(number,), name=f"fuzz-{number}") for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    time.sleep(1.0)
    _look_at_log(plane, list(recent), result, directory)
    if not plane.runs:
        result.failures.append("the plane ended")
    stalls = [one for one in plane.held() if one.loop_cpu > _STALL_CPU]
    result.failures += [
        f"a step of {one.loop_cpu:.2f} s of CPU time at {one.places}" for one in stalls[:_MOST_REPRODUCED]
    ]
    print("\n".join(result.failures[-len(stalls) :]) if stalls else "no long step")
    return result


def _send(connection: Connection, request: FuzzRequest) -> tuple[str, int]:
    """What is wrong with the answer, "" if nothing, and its code."""
    try:
        answer = connection(request.method, request.path, request.body, request.content_type, request.accept)
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error!r}", 0
    except ValueError:  # http.client does not send such a path or header
        return "", 0
    return (f"{answer.code}: {answer.body[:300]!r}" if answer.code >= 500 else ""), answer.code


def _smaller(connection: Connection, request: FuzzRequest) -> FuzzRequest:
    """The request with everything removed from its body that it fails without."""
    if request.tree is None:
        return request
    best = request
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in without_one_entry(best):
            if _send(connection, candidate)[0]:
                best, shrunk = candidate, True
                break
    return best


def without_one_entry(request: FuzzRequest) -> Iterator[FuzzRequest]:
    """The request with one entry of its body removed, in every way."""
    for tree in _without_one(request.tree):
        yield replace(request, tree=tree, body=json.dumps(tree).encode("utf-8", "surrogatepass"))


def _without_one(tree: Any) -> Iterator[Any]:
    """The tree without one entry, large parts first."""
    if isinstance(tree, dict):
        for key in tree:
            yield {name: value for name, value in tree.items() if name != key}
        for key, value in tree.items():
            for smaller in _without_one(value):
                yield {**tree, key: smaller}
    elif isinstance(tree, list):
        for index in range(len(tree)):
            yield tree[:index] + tree[index + 1 :]
        for index, value in enumerate(tree):
            for smaller in _without_one(value):
                yield [*tree[:index], smaller, *tree[index + 1 :]]


def _look_at_log(plane: Plane, recent: Sequence[FuzzRequest], result: GrammarResult, directory: Path) -> None:
    lines = plane.new_lines()
    bad = [line for line in lines if is_failure(line)]
    if not bad or len(result.failures) >= _MOST_REPRODUCED:
        return
    at = next(number for number, line in enumerate(lines) if is_failure(line))
    text = "\n    ".join(lines[max(0, at - 2) : at + 40])
    requests = _fewest(recent, lambda part: _fails_alone(part, directory / f"alone-{time.monotonic_ns()}"))
    told = "\n  ".join(request.curl() for request in requests) if requests else "(not reproduced alone)"
    result.failures.append(f"log: {bad[0]}\n    {text}\n  {told}")
    print(result.failures[-1], flush=True)


def _fails_alone(requests: Sequence[FuzzRequest], directory: Path) -> bool:
    """Whether the requests leave a failure in the log of a plane of their own."""
    plane = Plane(directory)
    try:
        plane.start()
        connection = plane.connect(_ANSWER_SECONDS)
        set_up(connection)
        for request in requests:
            _send(connection, request)
        connection.close()
        time.sleep(1.5)
        return bool(plane.failures())
    except AssertionError:  # it does not start in time on a busy machine
        return False
    finally:
        plane.kill()


def _fewest(requests: Sequence[FuzzRequest], fails: Callable[[Sequence[FuzzRequest]], bool]) -> list[FuzzRequest]:
    """A small part of the requests that still fails; [] if all of them do not."""
    left = list(requests)
    if not fails(left):
        return []
    size = len(left) // 2
    while size:
        for begin in range(0, len(left), size):
            part = left[:begin] + left[begin + size :]
            if part and fails(part):
                left = part
                break
        else:
            size //= 2
    return left


def _clear(connection: Connection) -> None:
    for namespace in ("default", "fuzz"):
        for path in _LEFT_BEHIND:
            query = "?gracePeriodSeconds=0&propagationPolicy=Background"
            _send(connection, FuzzRequest("DELETE", path.format(namespace) + query))
