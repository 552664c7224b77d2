"""The corpus against a real process: it answers, others' Jobs run to their end, a restart works, the log is clean."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from .corpus import MERGE, Odd, OddRequest, collection, objects, requests
from .plane import Connection, Plane, wait_for

_JOBS = "/apis/batch/v1/namespaces/bystander/jobs"
_BATCH = 100
_serial = count()

T = TypeVar("T", Odd, OddRequest)


def _bystander(plane: Plane, connection: Connection, name: str) -> None:
    """A Job of somebody else runs to its end."""
    connection("POST", "/api/v1/namespaces", {"metadata": {"name": "bystander"}})
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    answer = connection("POST", _JOBS, {"metadata": {"name": name}, "spec": {"template": {"spec": pods}}})
    assert answer.code == 201, answer.body

    def done() -> bool:
        status = connection("GET", f"{_JOBS}/{name}").json().get("status", {})
        return any(one["type"] == "Complete" for one in status.get("conditions", []))

    wait_for(done, f"the bystander's Job {name}")


def _send_object(connection: Connection, odd: Odd) -> list[int]:
    codes = [connection("POST", collection(odd.obj), odd.obj).code]
    if odd.status is not None and codes[0] == 201:
        path = f"{collection(odd.obj)}/{odd.obj['metadata']['name']}/status"
        codes.append(connection("PATCH", path, {"status": odd.status}, MERGE).code)
    return codes


def _send_request(connection: Connection, odd: OddRequest) -> list[int]:
    return [connection(odd.method, odd.path, odd.body, odd.content_type).code]


def _set_up(connection: Connection) -> None:
    connection("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "target"}})
    spec = {"schedulingGates": [{"name": "wait"}], "containers": [{"name": "c", "image": "i"}]}
    connection("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "target"}, "spec": spec})


def _problems(
    directory: Path, batch: Sequence[T], send: Callable[[Connection, T], list[int]], codes: dict[str, list[int]]
) -> list[str]:
    """What goes wrong with a batch, in a plane of its own that is killed and started again once."""
    plane = Plane(directory / str(next(_serial)))
    connection: Connection | None = None
    found: list[str] = []
    try:
        plane.start()
        connection = plane.connect(60)
        _set_up(connection)
        for odd in batch:
            try:
                codes[odd.id] = send(connection, odd)
            except (OSError, http.client.HTTPException) as error:
                found.append(f"{odd.id}: {error!r}")
                connection.close()
                continue
            if any(code >= 500 and code != 501 for code in codes[odd.id]):
                found.append(f"{odd.id}: {codes[odd.id]}")
        _bystander(plane, connection, "before")
        plane.kill()
        plane.start()
        connection.close()
        connection = plane.connect(60)
        _bystander(plane, connection, "after")
    except (AssertionError, OSError, http.client.HTTPException) as error:
        found.append(f"{type(error).__name__}: {str(error)[-2000:]}")
    finally:
        if connection is not None:
            connection.close()
        plane.kill()
    return found + plane.failures()[:10]


def _culprits(
    directory: Path, batch: Sequence[T], send: Callable[[Connection, T], list[int]], codes: dict[str, list[int]]
) -> str:
    """ "" if the batch is harmless; else the smallest part that is not, and what it does."""
    found = _problems(directory, batch, send, codes)
    if not found:
        return ""
    if len(batch) > 1:
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            text = _culprits(directory, half, send, codes)
            if text:
                return text
    return f"{', '.join(odd.id for odd in batch)}: " + "\n".join(found)


def _batches(odds: Sequence[T]) -> list[Sequence[T]]:
    return [odds[begin : begin + _BATCH] for begin in range(0, len(odds), _BATCH)]


@pytest.mark.parametrize("number", range(len(_batches(objects()))))
def test_no_odd_object_breaks_the_plane(tmp_path: Path, number: int) -> None:
    codes: dict[str, list[int]] = {}
    batch = _batches(objects())[number]
    assert _culprits(tmp_path, batch, _send_object, codes) == ""
    refused = {id_: answer for id_, answer in codes.items() if any(code >= 400 for code in answer)}
    # The corpus is of objects that are accepted; a few of them are refused by rules of their own.
    assert len(refused) <= len(batch) // 4, refused


@pytest.mark.parametrize("number", range(len(_batches(requests()))))
def test_no_odd_request_breaks_the_plane(tmp_path: Path, number: int) -> None:
    assert _culprits(tmp_path, _batches(requests())[number], _send_request, {}) == ""


def test_the_corpus_is_large_enough() -> None:
    ids = [odd.id for odd in objects()], [odd.id for odd in requests()]
    assert all(len(set(names)) == len(names) for names in ids)
    assert len(ids[0]) >= 440
    assert len(ids[1]) >= 317
