"""Manifests from files."""

from __future__ import annotations

from pathlib import Path

from echelon.cli.following.manifests import load, ordered

TEXT = """\
# A job
# with its class
apiVersion: batch/v1
kind: Job
metadata: {name: j}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {generateName: p-}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}}
---
"""


def test_documents_and_lists_are_objects_and_the_opening_comment_is_the_title(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(TEXT)
    manifest = load(path)
    assert manifest.title == "A job with its class"
    assert [entry.label for entry in manifest.entries] == ["Job/j", "Pod/p-", "PriorityClass/high"]


def test_what_others_refer_to_goes_first_and_the_rest_as_written(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(TEXT)
    assert [entry.label for entry in ordered(load(path).entries)] == ["PriorityClass/high", "Job/j", "Pod/p-"]
