"""Decoded trees are shared, kept for a while, and described to the store by a header."""

from __future__ import annotations

import json

from echelon.api.scheme import PODS, WORKLOADS
from echelon.server.objects.object_cache import ObjectCache, header_of, resource_of


def test_a_tree_that_was_written_is_never_decoded() -> None:
    trees, tree = ObjectCache(), {"metadata": {}}
    trees.keep("/core/pods/a/x", 3, tree)
    assert trees.of("/core/pods/a/x", 3, b"not even JSON") is tree


def test_every_revision_has_its_own_tree_and_readers_share_it() -> None:
    trees = ObjectCache()
    first = trees.of("/core/pods/a/x", 1, b'{"n": 1}')
    assert trees.of("/core/pods/a/x", 2, b'{"n": 2}') == {"n": 2}
    assert trees.of("/core/pods/a/x", 1, b'{"n": 1}') is first


def test_what_was_not_used_for_longest_goes_first() -> None:
    trees = ObjectCache(capacity=2)
    kept = trees.of("a", 1, b"{}")
    gone = trees.of("b", 1, b"{}")
    trees.of("a", 1, b"{}")
    trees.of("c", 1, b"{}")
    assert trees.of("a", 1, b"{}") is kept
    assert trees.of("b", 1, b"{}") is not gone


def test_the_header_of_a_stored_pod_has_what_selectors_and_the_collector_ask_for() -> None:
    metadata = {"name": "x", "namespace": "a", "uid": "u1", "labels": {"k": "v"}, "ownerReferences": [{"uid": "o1"}]}
    pod = {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    header = header_of("/core/pods/a/x", json.dumps(pod).encode())
    assert (header.uid, header.labels, header.owners) == ("u1", {"k": "v"}, ("o1",))
    assert (header.fields["spec.nodeName"], header.fields["status.phase"]) == ("n1", "Running")


def test_a_key_names_its_kind() -> None:
    assert resource_of(PODS.key("x", "a")).kind == "Pod"
    assert resource_of(WORKLOADS.key("w", "a")).plural == "workloads"
