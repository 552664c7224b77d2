"""The OCI image layout of three layers, and the same as one file that `docker load` and `podman load` take."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .archive import Layer, add_entry
from .contents import ENTRY_POINT, ENVIRONMENT, STOP_SIGNAL, USER, Architecture

_TYPES = "application/vnd.oci.image."


def config(layers: Sequence[Layer], architecture: Architecture, version: str, made: int) -> dict[str, Any]:
    time = datetime.fromtimestamp(made, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": time,
        "architecture": architecture.name,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": list(ENTRY_POINT),
            "WorkingDir": "/",
            "StopSignal": STOP_SIGNAL,
            "Labels": {
                "org.opencontainers.image.title": "echelon",
                "org.opencontainers.image.description": "Gang scheduler and JobSet and TrainJob controllers",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.content_digest}" for one in layers]},
        "history": [{"created": time, "created_by": one.title} for one in layers],
    }


def write(target: Path, layers: Sequence[Layer], architecture: Architecture, version: str, made: int) -> str:
    """A layout in place of whatever was there; the digest of its manifest."""
    shutil.rmtree(target, ignore_errors=True)
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in layers:
        shutil.copyfile(layer.file, blobs / layer.digest)
    described = _blob(blobs, f"{_TYPES}config.v1+json", config(layers, architecture, version, made))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPES}manifest.v1+json",
        "config": described,
        "layers": [
            {"mediaType": f"{_TYPES}layer.v1.tar+gzip", "digest": f"sha256:{one.digest}", "size": one.size}
            for one in layers
        ],
    }
    entry = _blob(blobs, f"{_TYPES}manifest.v1+json", manifest)
    named = {
        **entry,
        "platform": {"architecture": architecture.name, "os": "linux"},
        "annotations": {
            "org.opencontainers.image.ref.name": version,
            "io.containerd.image.name": f"docker.io/library/echelon:{version}",
        },
    }
    index = {"schemaVersion": 2, "mediaType": f"{_TYPES}index.v1+json", "manifests": [named]}
    (target / "index.json").write_bytes(_json(index))
    (target / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(entry["digest"])


def write_archive(layout: Path, file: Path, version: str) -> None:
    """The layout as a tar, with the list that engines without OCI look for."""
    manifest = read_manifest(layout)
    blob_of = {"config": _path_of(manifest["config"]), "layers": [_path_of(one) for one in manifest["layers"]]}
    listed = [{"Config": blob_of["config"], "RepoTags": [f"echelon:{version}"], "Layers": blob_of["layers"]}]
    (layout / "manifest.json").write_bytes(_json(listed))
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(layout.rglob("*")):
            add_entry(archive, path, str(path.relative_to(layout)))
    (layout / "manifest.json").unlink()


def read_manifest(layout: Path) -> dict[str, Any]:
    index = json.loads((layout / "index.json").read_bytes())
    found: dict[str, Any] = json.loads((layout / _path_of(index["manifests"][0])).read_bytes())
    return found


def _path_of(described: dict[str, Any]) -> str:
    return f"blobs/{described['digest'].replace(':', '/')}"


def _blob(blobs: Path, kind: str, content: dict[str, Any]) -> dict[str, Any]:
    data = _json(content)
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"
