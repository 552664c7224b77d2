"""Views in a cache: made once for a version, shared by all readers, gone with the object."""

from __future__ import annotations

from echelon.api.scheme import PODS, Object
from echelon.api.views.pod_views import PodView
from echelon.base.clock import ManualClock
from echelon.client.informer import Caches, by_namespace


def _pod(version: int, node: str = "") -> Object:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": str(version)},
        "spec": {"nodeName": node},
    }


def _caches() -> Caches:
    # Nothing is listed or watched: what the caches hold comes through `observe`.
    return Caches(None, ManualClock())  # type: ignore[arg-type]


def test_readers_share_one_view_of_a_version() -> None:
    caches = _caches()
    pods = caches.views(PodView, {"namespace": by_namespace})
    assert caches.views(PodView) is pods
    caches.observe(PODS, _pod(1))
    first = pods.get("ns/p")
    assert first is not None
    assert pods.find("namespace", "ns") == pods.all() == [first]
    caches.observe(PODS, _pod(2, "n1"))
    second = pods.get("ns/p")
    assert second is not None
    assert second is not first
    assert (first.spec.node_name, second.spec.node_name) == ("", "n1")


def test_handlers_hear_of_old_and_new_views() -> None:
    caches = _caches()
    caches.observe(PODS, _pod(1))
    pods = caches.views(PodView)
    caches.observe(PODS, _pod(2))
    known, heard = pods.get("ns/p"), list[tuple[PodView | None, PodView | None]]()
    pods.add_handler(lambda old, new: heard.append((old, new)))
    caches.observe(PODS, _pod(3, "n1"))
    current = pods.get("ns/p")
    caches.of(PODS)._remove("ns/p")
    assert heard == [(None, known), (known, current), (current, None)]
    assert pods.get("ns/p") is None
