"""The same verbs in process and over HTTPS: callers cannot tell which one they hold."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, PODS, Object
from echelon.api.verbs import DeleteOptions, ListOptions, Patch, PatchType, Verbs, WatchOptions, WriteOptions
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from echelon.testing.builders import bare_pod
from tests.https_server import running


@pytest.fixture(params=["in process", "https"])
async def verbs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Verbs]:
    async with running(tmp_path) as (server, pipeline):
        if request.param == "in process":
            yield pipeline
            return
        server.write_kubeconfig(tmp_path / "kubeconfig")
        client = kubeconfig.connect(kubeconfig.load(tmp_path / "kubeconfig"))
        try:
            yield client
        finally:
            await client.close()


def config_map(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}, **more}


async def test_objects_are_written_and_read(verbs: Verbs) -> None:
    made = await verbs.create(CONFIG_MAPS, config_map("m"), "default")
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert await verbs.get(CONFIG_MAPS, "m", "default") == made
    listed = await verbs.list(CONFIG_MAPS, "default", ListOptions(label_selector="a=b"))
    assert listed.items == [made]
    assert int(listed.resource_version) >= int(made["metadata"]["resourceVersion"])
    updated = await verbs.update(CONFIG_MAPS, {**made, "data": {"k": "w"}}, "default")
    patched = await verbs.patch(CONFIG_MAPS, "m", Patch(PatchType.MERGE, {"data": {"l": "x"}}), "default")
    assert patched["data"] == {"k": "w", "l": "x"}
    assert meta.uid(updated) == meta.uid(made)


async def test_pages_go_on_where_they_ended(verbs: Verbs) -> None:
    for index in range(3):
        await verbs.create(CONFIG_MAPS, config_map(f"m-{index}"), "default")
    first = await verbs.list(CONFIG_MAPS, "default", ListOptions(limit=2))
    rest = await verbs.list(CONFIG_MAPS, "default", ListOptions(limit=2, continue_token=first.continue_token))
    assert [meta.name(item) for item in first.items + rest.items] == ["m-0", "m-1", "m-2"]
    assert (first.remaining, rest.continue_token) == (1, "")


async def test_pods_are_bound_reported_on_and_evicted(verbs: Verbs) -> None:
    made = await verbs.create(PODS, bare_pod("p"), "default")
    await verbs.bind("default", "p", "n1", uid=meta.uid(made))
    status = Patch(PatchType.STRATEGIC, {"status": {"phase": "Succeeded"}})
    assert (await verbs.patch(PODS, "p", status, "default", "status"))["status"]["phase"] == "Succeeded"
    await verbs.evict("default", "p", DeleteOptions(grace_period_seconds=0))
    with pytest.raises(ApiError) as gone:
        await verbs.get(PODS, "p", "default")
    assert (gone.value.code, gone.value.reason, gone.value.details["kind"]) == (404, "NotFound", "pods")


async def test_refusals_are_the_same_exception(verbs: Verbs) -> None:
    made = await verbs.create(CONFIG_MAPS, config_map("m"), "default")
    await verbs.update(CONFIG_MAPS, {**made, "data": {}}, "default")
    with pytest.raises(ApiError) as stale:
        await verbs.update(CONFIG_MAPS, made, "default")
    assert (stale.value.code, stale.value.reason) == (409, "Conflict")
    with pytest.raises(ApiError) as invalid:
        await verbs.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": []}}, "default")
    assert [cause["field"] for cause in invalid.value.details["causes"]] == ["spec.containers"]


async def test_warnings_reach_the_writer_word_by_word(verbs: Verbs) -> None:
    heard: list[str] = []
    await verbs.create(CONFIG_MAPS, config_map("m", nosuch=1), "default", WriteOptions(warn=heard.append))
    assert heard == ['unknown field "nosuch"']


async def test_watch_begins_with_what_there_is_and_goes_on(verbs: Verbs) -> None:
    await verbs.create(CONFIG_MAPS, config_map("first"), "default")
    options = WatchOptions(
        allow_bookmarks=True, send_initial_events=True, resource_version_match="NotOlderThan", timeout_seconds=20
    )
    seen = []
    async with asyncio.timeout(60):
        async for event in verbs.watch(CONFIG_MAPS, "default", options):
            seen.append((event.type, event.object["metadata"].get("name")))
            if event.type == "BOOKMARK":
                await verbs.create(CONFIG_MAPS, config_map("second"), "default")
            if len(seen) == 3:
                await verbs.delete(CONFIG_MAPS, "first", "default")
            if len(seen) == 4:
                break
    assert seen == [("ADDED", "first"), ("BOOKMARK", None), ("ADDED", "second"), ("DELETED", "first")]


async def test_watch_by_a_field_that_is_not_offered_is_refused(verbs: Verbs) -> None:
    with pytest.raises(ApiError) as refused:
        async for _ in verbs.watch(CONFIG_MAPS, "default", WatchOptions(field_selector="spec.nosuch=1")):
            pass
    assert refused.value.code == 400


class TestServerThatCannotBeReached:
    """Over HTTPS alone: whatever goes wrong on the way is a refusal like any other."""

    async def test_nobody_listens(self) -> None:
        client = HttpVerbs("http://127.0.0.1:1")
        with pytest.raises(ApiError) as refused:
            await client.get(PODS, "p", "default")
        await client.close()
        assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")
        assert "GET http://127.0.0.1:1/api/v1/namespaces/default/pods/p" in refused.value.message

    @pytest.mark.parametrize(
        "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"nonsense\r\n\r\n"], ids=repr
    )
    async def test_line_breaks_before_the_answer_is_whole(self, answer: bytes) -> None:
        async with _answering(answer) as client:
            with pytest.raises(ApiError) as refused:
                await client.create(CONFIG_MAPS, config_map("m"), "default")
        assert refused.value.code == 503

    @pytest.mark.parametrize("answer", [b"<html></html>", b'"hello"', b"{}"], ids=repr)
    async def test_what_answers_is_no_api_server(self, answer: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(answer) + 1)
        async with _answering(head + answer + b"\n") as client:
            for call in (client.get(PODS, "p", "default"), client.list(PODS), anext(client.watch(PODS))):
                with pytest.raises(ApiError, match="not a response of an API server") as refused:
                    await call
                assert refused.value.code == 502

    async def test_watch_breaks_after_its_first_event(self) -> None:
        event = b'{"type":"ADDED","object":{"metadata":{"name":"m"}}}\n'
        chunk = b"%x\r\n%s\r\n" % (len(event), event)
        async with _answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk) as client:
            events = client.watch(CONFIG_MAPS, "default")
            assert (await anext(events)).object["metadata"]["name"] == "m"
            with pytest.raises(ApiError) as refused:
                await anext(events)
        assert refused.value.code == 503


@asynccontextmanager
async def _answering(answer: bytes) -> AsyncIterator[HttpVerbs]:
    """A client of a server that says this to every request and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = HttpVerbs(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            yield client
        finally:
            await client.close()


async def test_a_port_where_nobody_listens_is_said_in_plain_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = HttpVerbs(server)
        try:
            with pytest.raises(ApiError) as refused:
                await client.list(PODS, "default")
        finally:
            await client.close()
    assert str(refused.value) == f"GET {server}/api/v1/namespaces/default/pods: Connection refused"


async def test_a_server_without_tls_where_some_is_expected_is_said_in_words_of_tls() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = HttpVerbs(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            with pytest.raises(ApiError, match=r"/api/v1/pods: .*SSL") as refused:
                await client.list(PODS)
        finally:
            await client.close()
    assert refused.value.code == 503
