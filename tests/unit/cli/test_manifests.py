"""Manifests from files."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from echelon.cli.following.manifests import BadManifest, load, ordered

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
    (manifest,) = load([path])
    assert manifest.title == "A job with its class"
    assert [entry.resource.kind for entry in manifest.entries] == ["Job", "Pod", "PriorityClass"]
    assert [entry.place for entry in manifest.entries] == [f"{path}:{line}" for line in (3, 7, 7)]


def test_what_others_refer_to_goes_first_and_the_rest_as_written(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(TEXT)
    assert [entry.resource.kind for entry in ordered(load([path])[0].entries)] == ["PriorityClass", "Job", "Pod"]


def test_a_directory_is_its_files_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json"):
        (tmp_path / name).write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}}")
    (tmp_path / "notes.md").write_text("not a manifest")
    (tmp_path / "deeper.yaml").mkdir()
    assert [Path(manifest.source).name for manifest in load([tmp_path])] == ["a.yml", "b.yaml", "c.json"]


def test_a_directory_without_manifests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadManifest, match=r"contains no \.yaml, \.yml, \.json files"):
        load([tmp_path])


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("# From a pipe\n" + TEXT))
    (manifest,) = load([Path("-")])
    assert (manifest.source, manifest.title, len(manifest.entries)) == ("stdin", "From a pipe A job with its class", 3)
