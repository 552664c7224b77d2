"""A fenced client: nothing is written once it is forbidden, whatever was under way; reads go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, PODS
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from echelon.client.lease import NotLeading
from echelon.testing.builders import bare_pod
from tests.https_server import running


class Gate:
    """A permit that can be taken away."""

    def __init__(self) -> None:
        self.open = True

    def __call__(self) -> None:
        if not self.open:
            raise NotLeading("no longer the leader")


def fenced_client(server: asyncio.Server) -> HttpVerbs:
    return HttpVerbs(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").fenced(Gate())


async def cancel_a_write(client: HttpVerbs, begun: asyncio.Event) -> None:
    """Begin a write and cancel it when the server has it."""
    write = asyncio.create_task(client.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, "default"))
    await begun.wait()
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)


async def test_writes_end_with_the_permit_and_reads_do_not(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, pipeline):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        plain = kubeconfig.connect(kubeconfig.load(tmp_path / "kubeconfig"))
        gate = Gate()
        fenced = plain.fenced(gate)
        try:
            await fenced.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, "default")
            await pipeline.create(PODS, bare_pod("p"), "default")
            gate.open = False
            patch = Patch(PatchType.MERGE, {"data": {"a": "b"}})
            for write in (
                fenced.create(CONFIG_MAPS, {"metadata": {"name": "n"}}, "default"),
                fenced.patch(CONFIG_MAPS, "m", patch, "default"),
                fenced.update(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}}, "default"),
                fenced.delete(CONFIG_MAPS, "m", "default"),
                fenced.bind("default", "p", "n1"),
                fenced.evict("default", "p", DeleteOptions()),
            ):
                with pytest.raises(ApiError, match="no longer the leader") as refused:
                    await write
                assert refused.value.code == 503
            names = {meta.name(one): one for one in (await fenced.list(CONFIG_MAPS, "default")).items}
            assert set(names) == {"m"}
            assert "data" not in await fenced.get(CONFIG_MAPS, "m", "default")
            await plain.delete(CONFIG_MAPS, "m", "default")
        finally:
            await plain.close()


async def test_a_permit_is_asked_when_the_request_is_sent_and_not_before() -> None:
    """A write that waits for its connection meets a permit that was taken away meanwhile."""
    accepted, go_on, received = asyncio.Event(), asyncio.Event(), list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1))
        writer.close()

    gate = Gate()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = HttpVerbs(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        fenced = client.fenced(gate)
        connect = client._pool._connect_with

        async def slow(*args: object) -> object:
            made = await connect(*args)  # type: ignore[arg-type]
            accepted.set()
            await go_on.wait()
            return made

        client._pool._connect_with = slow  # type: ignore[method-assign, assignment]
        write = asyncio.create_task(fenced.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, "default"))
        await accepted.wait()
        gate.open = False
        go_on.set()
        with pytest.raises(ApiError, match="no longer the leader"):
            await write
        await client.close()
    assert b"P" not in received


async def test_cancelled_writes_are_waited_for() -> None:
    begun, answer = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await answer.wait()
        body = b'{"metadata":{}}'
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = fenced_client(server)
        await cancel_a_write(client, begun)
        waiting = asyncio.create_task(client.wait_written(60))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        answer.set()
        await waiting
        await client.close()


async def test_a_write_that_is_never_answered_is_waited_for_only_so_long() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        gone.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = fenced_client(server)
        await cancel_a_write(client, begun)
        assert not gone.is_set()
        await client.wait_written(0.05)
        await gone.wait()
        await client.close()


async def test_writes_that_were_cancelled_and_answered_are_not_kept_for_ever() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.readuntil(b"}}")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = fenced_client(server)
        for _ in range(5):
            asked = asyncio.Event()
            await cancel_a_write(client, asked)
            async with asyncio.timeout(60):
                await client._pool._abandoned[-1].closed.wait()
        assert len(client._pool._abandoned) == 1
        await client.close()
