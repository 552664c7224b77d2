"""FlightLimits of what one client may ask for at a time, and what others notice: over real connections."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from echelon.server import connections, https_server
from echelon.server.http.application import FlightLimits
from echelon.server.http.requests import request
from tests.https_server import Https, in_thread

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    """A server that holds two reading and two writing requests at a time."""
    with in_thread(tmp_path_factory.mktemp("limited"), limits=FlightLimits(2, 2)) as server:
        yield Https(server)


def _unfinished(https: Https, agent: str) -> http.client.HTTPSConnection:
    """A request whose body does not come: it stays in flight."""
    connection = https.connect()
    connection.putrequest("POST", MAPS)
    for name, value in https.headers(user_agent=agent, content_type="application/json").items():
        connection.putheader(name, value)
    connection.putheader("content-length", "100")
    connection.endheaders()
    return connection


def test_writers_beyond_the_limit_are_told_to_come_again_and_others_are_not(limited: Https) -> None:
    with closing(_unfinished(limited, "greedy")), closing(_unfinished(limited, "greedy")):
        # The two are in flight as soon as their heads have been read.
        answer = limited("POST", MAPS, {"metadata": {"generateName": "m-"}}, user_agent="greedy")
        while answer.status == 201:
            answer = limited("POST", MAPS, {"metadata": {"generateName": "m-"}}, user_agent="greedy")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.body == b"Too many requests, please try again later.\n"
        other = limited("POST", MAPS, {"metadata": {"name": "other"}}, user_agent="modest")
        assert other.status == 201
        # Reading is counted apart, watches and health checks are not counted.
        assert limited("GET", f"{MAPS}/other", user_agent="greedy").status == 200
        assert limited("GET", "/readyz", user_agent="greedy").status == 200
    while (again := limited("POST", MAPS, {"metadata": {"generateName": "m-"}}, user_agent="greedy")).status == 429:
        pass
    assert again.status == 201


def test_a_head_that_is_too_large_is_refused(https: Https) -> None:
    assert https("GET", MAPS, x_long="b" * 1_500_000).status == 431
    assert https("GET", MAPS, x_long="b" * 900_000).status == 200


def test_a_url_that_is_too_long_is_refused(https: Https) -> None:
    assert https("GET", f"{MAPS}?x=" + "a" * 70_000).status == 414
    assert https("GET", f"{MAPS}?x=" + "a" * 60_000).status == 200


def test_selectors_have_a_bound(https: Https) -> None:
    many = ",".join(f"k{number}" for number in range(251))
    refused = https("GET", f"{MAPS}?labelSelector={many}")
    assert (refused.status, refused.json()["message"]) == (400, "the selector has 251 requirements: limit is 250")
    values = ",".join(f"v{number}" for number in range(5_000))
    assert https("GET", f"{MAPS}?labelSelector=k+in+({values})").status == 200
    watched = https("GET", f"{MAPS}?watch=1&labelSelector={many}")
    assert watched.status == 400


def test_a_list_arrives_whole_while_its_reader_is_slow_and_others_are_answered(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        https = Https(server)
        body = {"data": {"text": "x" * 400_000}}
        for number in range(60):
            assert https("POST", MAPS, {"metadata": {"name": f"m{number:02}"}, **body}).status == 201
        connection = https.connect()
        with closing(connection):
            connection.request("GET", MAPS, headers=https.headers())
            response = connection.getresponse()
            begin = response.read(1000)
            # 24 MB do not fit into the buffers of a socket: the list is still being sent.
            assert https("POST", MAPS, {"metadata": {"name": "late"}}).status == 201
            assert https("GET", f"{MAPS}/late").status == 200
            listed = json.loads(begin + response.read())
    assert [item["metadata"]["name"] for item in listed["items"]] == [f"m{number:02}" for number in range(60)]


def test_a_body_that_does_not_arrive_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "BODY_SECONDS", 0.2)
    with in_thread(tmp_path) as server, closing(_unfinished(Https(server), "slow")) as connection:
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["reason"]) == (504, "Timeout")


def _is_closed(connection: http.client.HTTPSConnection) -> bool:
    """Wait for the server to close the connection; the time limit of the socket ends a test in vain."""
    try:
        return connection.sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_head_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.2)
    with in_thread(tmp_path) as server, closing(Https(server).connect()) as connection:
        connection.connect()
        connection.sock.sendall(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
        assert _is_closed(connection)


def test_a_connection_without_requests_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https_server, "_KEEP_ALIVE_SECONDS", 1)
    with in_thread(tmp_path) as server, closing(Https(server).connect()) as connection:
        connection.request("GET", "/readyz")
        assert connection.getresponse().read() == b"ok"
        assert _is_closed(connection)


def test_a_client_that_does_not_read_its_list_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "STUCK_SECONDS", 0.3)
    with in_thread(tmp_path) as server:
        https = Https(server)
        for number in range(60):
            body = {"metadata": {"name": f"m{number:02}"}, "data": {"text": "x" * 400_000}}
            assert https("POST", MAPS, body).status == 201
        with closing(https.connect()) as connection:
            connection.request("GET", MAPS, headers=https.headers())
            response = connection.getresponse()
            time.sleep(1.5)
            with pytest.raises((http.client.IncompleteRead, OSError)):
                response.read()
        assert https("GET", f"{MAPS}/m00").status == 200
