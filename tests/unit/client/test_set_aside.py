"""A reader that fails on an object: the object is set aside for that reader alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

import pytest
from prometheus_client import CollectorRegistry

from echelon.api.scheme import EVENTS, PODS, Object
from echelon.api.views.pod_views import PodView
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory


def _pod(name: str, version: int, node: str = "") -> Object:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)},
        "spec": {"nodeName": node},
    }


def _caches(registry: CollectorRegistry | None = None) -> Caches:
    # Nothing is listed or watched: what the caches hold comes through `observe`.
    return Caches(None, ManualClock(), registry)  # type: ignore[arg-type]


def _told(heard: list[tuple[Object | None, Object | None]]) -> list[tuple[str, str]]:
    def shown(obj: Object | None) -> str:
        return "" if obj is None else f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"

    return [(shown(old), shown(new)) for old, new in heard]


def test_other_handlers_and_other_objects_are_served() -> None:
    caches = _caches()
    heard: list[tuple[Object | None, Object | None]] = []

    def fails(old: Object | None, new: Object | None) -> None:
        if new is not None and new["metadata"]["name"] == "bad":
            raise ValueError("cannot read this")

    served: list[str] = []
    caches.of(PODS).add_handler(fails, "careless")
    caches.of(PODS).add_handler(lambda old, new: heard.append((old, new)))
    caches.of(PODS).add_handler(lambda old, new: served.append(new["metadata"]["name"] if new else ""))
    caches.observe(PODS, _pod("bad", 1))
    caches.observe(PODS, _pod("good", 2))
    assert _told(heard) == [("", "bad@1"), ("", "good@2")]
    assert served == ["bad", "good"]
    assert [str(error) for error in caches.set_aside.errors.values()] == ["cannot read this"]


def test_an_object_set_aside_does_not_exist_for_its_reader_until_it_changes() -> None:
    caches = _caches()
    heard: list[tuple[Object | None, Object | None]] = []

    def careful(old: Object | None, new: Object | None) -> None:
        heard.append((old, new))
        if new is not None and new["spec"]["nodeName"] == "?":
            raise ValueError("which node")

    caches.of(PODS).add_handler(careful)
    caches.observe(PODS, _pod("p", 1, "n1"))
    caches.observe(PODS, _pod("p", 2, "?"))
    caches.observe(PODS, _pod("p", 3, "n2"))
    caches.observe(PODS, _pod("p", 4, "?"))
    caches.of(PODS)._remove("ns/p")
    assert _told(heard) == [
        ("", "p@1"),
        ("p@1", "p@2"),
        ("p@1", ""),  # taken out after the failure
        ("", "p@3"),
        ("p@3", "p@4"),
        ("p@3", ""),
    ]


def test_an_index_that_fails_leaves_out_that_object_alone() -> None:
    caches = _caches()

    def by_node(obj: Object) -> Iterable[str]:
        return (obj["spec"]["nodeName"].upper(),)

    pods = caches.of(PODS, {"node": by_node})
    caches.observe(PODS, {**_pod("bad", 1), "spec": {"nodeName": 7}})
    caches.observe(PODS, _pod("good", 2, "n1"))
    assert pods.find_keys("node", "N1") == ["ns/good"]
    assert len(pods) == 2
    pods._remove("ns/bad")
    assert len(pods) == 1


def test_handlers_of_views_fail_one_by_one() -> None:
    registry = CollectorRegistry()
    caches = _caches(registry)
    heard: list[str] = []

    def fails(old: PodView | None, new: PodView | None) -> None:
        if new is not None and new.name == "bad":
            raise ValueError("cannot read this")

    caches.views(PodView).add_handler(fails, "scheduler")
    caches.views(PodView).add_handler(lambda old, new: heard.append(new.name if new else ""))
    for version, name in enumerate(("bad", "good")):
        caches.observe(PODS, _pod(name, version + 1))
    assert heard == ["bad", "good"]
    labels = {"component": "scheduler", "kind": "Pod"}
    assert registry.get_sample_value("echelon_objects_set_aside_total", labels) == 1


def test_a_handler_added_again_hears_everything_again_and_changes_once() -> None:
    caches, heard = _caches(), list[str]()

    def note(old: Object | None, new: Object | None) -> None:
        heard.append(new["metadata"]["name"] if new else "")

    pods = caches.of(PODS)
    caches.observe(PODS, _pod("a", 1))
    pods.add_handler(note)
    pods.add_handler(note)
    caches.observe(PODS, _pod("b", 2))
    assert heard == ["a", "a", "b"]


async def test_an_event_on_the_object_tells_of_it(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    pipeline = Pipeline(open_memory(header_of), clock, Rng(1))
    await pipeline.bootstrap()
    caches = Caches(pipeline, clock)

    def fails(old: Object | None, new: Object | None) -> None:
        raise KeyError("restartCount")

    caches.of(PODS).add_handler(fails, "simulated-nodes")
    running = asyncio.create_task(caches.run())
    await caches.wait_synced()
    container = {"name": "c", "image": "i"}
    await pipeline.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}}, "default")
    async with asyncio.timeout(60), aclosing(pipeline.watch(EVENTS, "default")) as events:
        event = (await anext(events)).object
    running.cancel()
    assert (event["reason"], event["type"], event["involvedObject"]["name"]) == ("SetAside", "Warning", "p")
    assert event["message"].startswith("simulated-nodes cannot process this object and leaves it aside: KeyError")
    assert "Pod default/p is set aside: KeyError: 'restartCount' in test_set_aside.py:" in caplog.text
