"""Connections that are kept, and the ways in which they break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from echelon.client.connection_pool import ConnectionPool
from echelon.client.login.credentials import FixedCredentials
from echelon.client.stream import ConnectionClosed

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_PATIENCE = 20.0

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
#: Answers one request; False hangs up afterwards.
Script = Callable[[int, Writer], Awaitable[bool]]


class Desk:
    """A server that answers by a script and counts what came."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                if b"Content-Length" in head:
                    await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]))
                if not await self._script(len(self.requests), writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def desk(script: Script, limit: int = 8) -> AsyncIterator[tuple[Desk, ConnectionPool]]:
    at = Desk(script)
    server = await asyncio.start_server(at.serve, "127.0.0.1", 0)
    async with server:
        wire = ConnectionPool(
            f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base/", FixedCredentials(), {"A": "b"}, limit
        )
        try:
            yield at, wire
        finally:
            wire.close()


async def say_ok(_: int, writer: Writer) -> bool:
    writer.write(_OK)
    return True


async def get(wire: ConnectionPool, path: str = "/p") -> bytes:
    return (await wire.call("GET", path, None, "", _PATIENCE)).body


async def post(wire: ConnectionPool, seconds: float = _PATIENCE) -> bytes:
    return (await wire.call("POST", "/p", b"{}", "application/json", seconds)).body


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with desk(say_ok) as (at, wire):
        assert [await get(wire), await post(wire), await get(wire)] == [b"ok"] * 3
        assert (at.connections, len(at.requests)) == (1, 3)


async def test_requests_at_the_same_time_have_a_connection_each_up_to_the_limit() -> None:
    async with desk(say_ok, limit=3) as (at, wire):
        assert await asyncio.gather(*(post(wire) for _ in range(12))) == [b"ok"] * 12
        assert at.connections == 3


async def test_a_request_is_what_it_should_be_on_the_line() -> None:
    async with desk(say_ok) as (at, wire):
        await wire.call("PATCH", "/a b\r\nX: y?q=1%202", b"{}", "application/merge-patch+json", _PATIENCE)
    lines = at.requests[0].decode().split("\r\n")
    assert lines[0] == "PATCH /base/a%20b%0D%0AX%3A%20y?q=1%202 HTTP/1.1"
    assert {"A: b", "Accept: application/json", "Content-Type: application/merge-patch+json"} <= set(lines)
    assert lines[-3:] == ["Content-Length: 2", "", ""]


async def test_answers_in_chunks_with_warnings_and_after_a_continue() -> None:
    async def script(_: int, writer: Writer) -> bool:
        writer.write(b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nWarning: 299 - "w"\r\n')
        await writer.drain()
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n2\r\nto\r\n7\r\ngether!\r\n0\r\n\r\n")
        return True

    async with desk(script) as (at, wire):
        for _ in range(2):
            answer = await wire.call("POST", "/p", b"{}", "application/json", _PATIENCE)
            assert (answer.status, answer.body, answer.warnings) == (201, b"together!", ('299 - "w"',))
        assert at.connections == 1


@pytest.mark.parametrize("name", [b"Warning", b"warning", b"WARNING"])
async def test_a_warning_is_heard_in_any_letters_and_wherever_its_head_is_cut(name: bytes) -> None:
    first, second = b'299 - "one"', b'299 - "two"'
    text = b"HTTP/1.1 200 OK\r\n%b: %b\r\nX: y\r\n%b:%b\r\nContent-Length: 2\r\n\r\nok" % (name, first, name, second)

    async def script(number: int, writer: Writer) -> bool:
        if number == len(text):
            writer.write(_OK)
            return True
        writer.write(text[:number])
        await writer.drain()
        await asyncio.sleep(0.001)
        writer.write(text[number:])
        return True

    async with desk(script) as (at, wire):
        for _ in text[1:]:
            answer = await wire.call("GET", "/p", None, "", _PATIENCE)
            assert (answer.body, answer.warnings) == (b"ok", ('299 - "one"', '299 - "two"'))
        assert (await wire.call("GET", "/p", None, "", _PATIENCE)).warnings == ()
        assert at.connections == 1


async def test_words_like_a_warning_elsewhere_are_none() -> None:
    body = b'{"message":"a\nWarning: 299 - no"}\nWarning: 299 - neither'
    text = b"HTTP/1.1 200 OK\r\nX-Warning: 299 - a\r\nWarnings: 299 - b\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )

    async def script(_: int, writer: Writer) -> bool:
        writer.write(text)
        return True

    async with desk(script) as (_, wire):
        answer = await wire.call("GET", "/p", None, "", _PATIENCE)
        assert (answer.body, answer.warnings) == (body, ())


async def test_a_body_of_many_reads_is_whole_and_an_answer_has_its_own_alone() -> None:
    bodies = [bytes(f"{number}" * 100_000, "ascii") for number in range(3)]

    async def script(number: int, writer: Writer) -> bool:
        body = bodies[number - 1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return True

    async with desk(script) as (at, wire):
        assert [await get(wire), await get(wire), await post(wire)] == bodies
        assert at.connections == 1


async def answer_and_hang_up(_: int, writer: Writer) -> bool:
    writer.write(_OK)
    return False


async def test_a_connection_closed_while_it_waited_is_replaced() -> None:
    async with desk(answer_and_hang_up) as (at, wire):
        assert await post(wire) == b"ok"
        while wire._idle[0].usable:  # noqa: ASYNC110 - until we have seen it, too
            await asyncio.sleep(0.01)
        assert await post(wire) == b"ok"
        assert at.connections == 2


@pytest.mark.parametrize(("method", "tries"), [("GET", 3), ("POST", 2)])
async def test_only_what_changes_nothing_is_asked_again(method: str, tries: int) -> None:
    """The second request is read and not answered: nobody knows whether it was carried out."""

    async def script(number: int, writer: Writer) -> bool:
        if number != 2:
            writer.write(_OK)
        return number != 2

    async with desk(script) as (at, wire):
        await get(wire)
        if method == "GET":
            assert await get(wire) == b"ok"
        else:
            with pytest.raises(ConnectionClosed):
                await post(wire)
        assert len(at.requests) == tries


async def test_a_server_that_says_close_is_taken_at_its_word() -> None:
    async def script(_: int, writer: Writer) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        return True

    async with desk(script) as (at, wire):
        await post(wire)
        await post(wire)
        assert at.connections == 2


async def test_an_answer_that_is_too_late_never_answers_another_request() -> None:
    async def script(number: int, writer: Writer) -> bool:
        if number > 1:
            writer.write(_OK)
        return True

    async with desk(script) as (at, wire):
        with pytest.raises(TimeoutError):
            await post(wire, seconds=0.05)
        assert await post(wire) == b"ok"
        assert at.connections == 2


async def test_a_caller_who_gives_up_leaves_no_connection_behind_that_is_not_clean() -> None:
    asked = asyncio.Event()

    async def script(number: int, writer: Writer) -> bool:
        asked.set()
        if number > 1:
            writer.write(_OK)
        return True

    async with desk(script) as (at, wire):
        task = asyncio.create_task(post(wire))
        await asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await post(wire) == b"ok"
        assert at.connections == 2


def after(answers: asyncio.Event) -> Script:
    """Every request is answered, but none before this event."""

    async def script(_: int, writer: Writer) -> bool:
        await answers.wait()
        writer.write(_OK)
        return True

    return script


async def test_those_who_wait_for_a_place_are_served_in_order() -> None:
    answers = asyncio.Event()
    async with desk(after(answers), limit=1) as (at, wire):
        tasks = [asyncio.create_task(get(wire, f"/{number}")) for number in range(5)]
        while not at.requests:  # noqa: ASYNC110 - until the first has its place
            await asyncio.sleep(0.01)
        answers.set()
        # Who comes when a place is about to be free stands behind those who wait.
        tasks.append(asyncio.create_task(get(wire, "/5")))
        assert await asyncio.gather(*tasks) == [b"ok"] * 6
        assert [head.split()[1] for head in at.requests] == [b"/base/%d" % number for number in range(6)]
        assert at.connections == 1


@pytest.mark.parametrize("given", [False, True])
async def test_who_gives_up_waiting_for_a_place_takes_none(given: bool) -> None:
    """In line, or in the very moment in which its place was given to it."""
    answers = asyncio.Event()
    async with desk(after(answers), limit=1) as (at, wire):

        async def be_first() -> bytes:
            answer = await get(wire)
            if given:
                second.cancel()
            return answer

        first, second, third = (asyncio.create_task(wait) for wait in (be_first(), get(wire), get(wire)))
        while not at.requests:  # noqa: ASYNC110 - until the first has its place
            await asyncio.sleep(0.01)
        if not given:
            second.cancel()
        answers.set()
        results = await asyncio.gather(first, second, third, return_exceptions=True)
        assert (results[0], type(results[1]), results[2]) == (b"ok", asyncio.CancelledError, b"ok")
        assert await asyncio.gather(*(get(wire) for _ in range(3))) == [b"ok"] * 3
        assert (len(at.requests), at.connections) == (5, 1)


@pytest.mark.parametrize("fate", ["cancelled", "late", "refused"])
async def test_a_request_that_fails_leaves_its_place(fate: str) -> None:
    asked = asyncio.Event()

    async def script(number: int, writer: Writer) -> bool:
        asked.set()
        if number > 1:
            writer.write(_OK)
        return number > 1 or fate != "refused"

    async with desk(script, limit=1) as (at, wire):
        task = asyncio.create_task(post(wire, seconds=0.05 if fate == "late" else _PATIENCE))
        await asked.wait()
        if fate == "cancelled":
            task.cancel()
        (failed,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(
            failed, {"cancelled": asyncio.CancelledError, "late": TimeoutError, "refused": ConnectionClosed}[fate]
        )
        assert await asyncio.wait_for(post(wire), _PATIENCE) == b"ok"
        assert at.connections == 2


async def test_connections_can_be_opened_before_there_is_anything_to_say() -> None:
    async with desk(say_ok) as (at, wire):
        await wire.open(3, _PATIENCE)
        await wire.open(2, _PATIENCE)
        assert await asyncio.gather(*(post(wire) for _ in range(3))) == [b"ok"] * 3
        assert at.connections == 3
