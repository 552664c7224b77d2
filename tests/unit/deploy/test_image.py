"""The image as it is put together: what is in it, equal bytes for equal trees, and a Dockerfile that says the same."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tools.image import archive, layout, wheels
from tools.image.contents import (
    ARCHITECTURES,
    ENTRY_POINT,
    ENVIRONMENT,
    NOT_OF_LOCK,
    NOT_OF_PROGRAM,
    PACKAGES,
    STOP_SIGNAL,
    SUITE,
    USER,
)
from tools.image.debian import Apt, CannotAssemble
from tools.image.layers import version_of

from echelon.base.version import __version__
from echelon.deploy.objects.installation import objects
from echelon.deploy.options import InstallOptions

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements.lock").read_text()


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, with continued lines joined."""
    lines = [line for line in (ROOT / "deploy/Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    split = [line.split(maxsplit=1) for line in joined if line.strip()]
    return [(word, rest) for word, rest in split]


def last_stage() -> dict[str, str]:
    words = [word for word, _ in instructions()]
    start = len(words) - 1 - words[::-1].index("FROM")
    found = dict(instructions()[start:])
    assert len(found) == len(instructions()) - start, "an instruction stands there twice"
    return found


def assigned(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(text))  # type: ignore[misc]


def configured() -> dict[str, Any]:
    made: dict[str, Any] = layout.config([], ARCHITECTURES["amd64"], __version__, 0)["config"]
    return made


def test_the_dockerfile_says_what_the_image_is_configured_with() -> None:
    stage, made = last_stage(), configured()
    assert stage["FROM"] == "scratch"
    assert stage["USER"] == made["User"] == f"{USER}:{USER}"
    assert json.loads(stage["ENTRYPOINT"]) == made["Entrypoint"] == list(ENTRY_POINT)
    assert [f"{name}={value}" for name, value in assigned(stage["ENV"]).items()] == made["Env"]
    assert assigned(stage["LABEL"]) == made["Labels"]
    assert stage["STOPSIGNAL"] == made["StopSignal"] == STOP_SIGNAL
    assert stage["WORKDIR"] == made["WorkingDir"]


def test_the_dockerfile_puts_in_what_this_code_puts_together_and_nothing_else() -> None:
    found = instructions()
    assert found[0] == ("FROM", f"debian:{SUITE}-slim AS build")
    assert any(word == "RUN" and "-m tools.image" in rest and "--root /image" in rest for word, rest in found)
    assert last_stage()["COPY"] == "--from=build /image/ /"
    copied = {word for kind, rest in found if kind == "COPY" for word in rest.split()[:-1] if not word.startswith("-")}
    let_in = {line[1:] for line in (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    assert copied - {"/image/"} == let_in


@pytest.mark.parametrize("deployment", [obj for obj in objects(InstallOptions()) if obj["kind"] == "Deployment"])
def test_deployments_run_the_image_as_it_is_made_to_run(deployment: Any) -> None:
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["image"] == f"echelon:{__version__}"
    assert container["command"] == list(ENTRY_POINT)
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == USER
    values = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert values.items() <= ENVIRONMENT.items()


def test_the_version_is_the_programs() -> None:
    assert version_of(ROOT) == __version__


def test_every_distribution_of_the_lock_is_in_once_or_left_out_by_name() -> None:
    inside = [name for name, _ in wheels.locked(wheels.wanted(LOCK))]
    known = {name for name, _ in wheels.locked(LOCK)}
    assert set(NOT_OF_LOCK) < known
    assert known - set(NOT_OF_LOCK) - set(inside) == {"httpx2-jsfetch"}, "for another system"
    assert len(inside) == len(set(inside)), "numpy has a line for every Python"
    assert "numpy==2.4.6 \\" in wheels.wanted(LOCK)


def test_hashes_go_with_their_distributions() -> None:
    locked, asked = dict(wheels.locked(LOCK)), dict(wheels.locked(wheels.wanted(LOCK)))
    assert asked["aiohttp"].split() == locked["aiohttp"].split()
    assert asked["aiohttp"].count("--hash=sha256:") > 10


def test_nothing_that_is_left_out_is_imported() -> None:
    modules = {name.replace("-", "_") for name in NOT_OF_LOCK} | {"dateutil"}
    for path in (ROOT / "src/echelon").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert not modules & {name.split(".")[0] for name in names}, path
    left_out = {pattern.split("/")[0] for pattern in NOT_OF_PROGRAM if pattern[0] != "*"}
    assert left_out == {"testing"}, "test_layers says that nothing imports it"


def tree(at: Path, order: list[str]) -> Path:
    for name in order:
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(name)
    (at / "tool").chmod(0o700)
    (at / "link").symlink_to("a/one")
    (at / "tmp").mkdir()
    (at / "tmp").chmod(0o1777)
    return at


def test_equal_trees_are_equal_bytes_whenever_and_by_whomever_they_are_packed(tmp_path: Path) -> None:
    names = ["a/one", "a-b", "a/b/two", "tool", "x" * 120 + "/" + "y" * 90]
    first = archive.pack("t", tree(tmp_path / "first", names), tmp_path / "1.tar.gz")
    former = os.umask(0o077)
    try:
        other = tree(tmp_path / "second", names[::-1])
    finally:
        os.umask(former)
    os.utime(other / "a/one", (5, 5))
    second = archive.pack("t", other, tmp_path / "2.tar.gz")
    assert first.file.read_bytes() == second.file.read_bytes()
    (other / "a/one").write_text("two")
    assert archive.pack("t", other, tmp_path / "3.tar.gz").digest != first.digest


def test_a_layer_is_unpacked_as_it_was_with_root_as_its_owner(tmp_path: Path) -> None:
    made = archive.pack("t", tree(tmp_path / "from", ["a/one", "tool"]), tmp_path / "layer")
    archive.unpack(made.file, tmp_path / "to")
    assert (tmp_path / "to/link").read_text() == "a/one"
    assert os.access(tmp_path / "to/tool", os.X_OK)
    assert not os.access(tmp_path / "to/a/one", os.X_OK)
    with tarfile.open(made.file) as packed:
        entries = {entry.name: entry for entry in packed}
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries.values()} == {(0, 0, "", 0)}
    assert [oct(entries[name].mode) for name in ("a", "a/one", "tool", "tmp")] == ["0o755", "0o644", "0o755", "0o1777"]


def test_a_layout_names_what_is_in_it_by_its_hash(tmp_path: Path) -> None:
    layers = [archive.pack("t", tree(tmp_path / "tree", ["a", "tool"]), tmp_path / "layer")]
    at = tmp_path / "layout"
    (at / "old").mkdir(parents=True)
    digest = layout.write(at, layers, ARCHITECTURES["arm64"], "1.2.3", 86400)
    index = json.loads((at / "index.json").read_text())
    assert index["manifests"][0]["digest"] == digest
    assert index["manifests"][0]["platform"] == {"architecture": "arm64", "os": "linux"}
    manifest = layout.read_manifest(at)
    for one in (index["manifests"][0], manifest["config"], *manifest["layers"]):
        data = (at / "blobs" / one["digest"].replace(":", "/")).read_bytes()
        assert (one["digest"], one["size"]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    assert not (at / "old").exists()
    assert {path.name for path in at.iterdir()} == {"oci-layout", "index.json", "blobs"}
    assert layout.write(tmp_path / "again", layers, ARCHITECTURES["arm64"], "1.2.3", 86400) == digest
    assert layout.write(tmp_path / "later", layers, ARCHITECTURES["arm64"], "1.2.3", 86401) != digest


def test_the_one_file_form_has_the_list_that_docker_looks_for(tmp_path: Path) -> None:
    layers = [archive.pack("t", tree(tmp_path / "tree", ["a", "tool"]), tmp_path / "layer")]
    layout.write(tmp_path / "layout", layers, ARCHITECTURES["amd64"], "1.2.3", 0)
    layout.write_archive(tmp_path / "layout", tmp_path / "image.tar", "1.2.3")
    with tarfile.open(tmp_path / "image.tar") as packed:
        names = set(packed.getnames())
        listed = packed.extractfile("manifest.json")
        assert listed is not None
        [entry] = json.load(listed)
    assert entry["RepoTags"] == ["echelon:1.2.3"]
    assert {entry["Config"], *entry["Layers"], "oci-layout", "index.json"} <= names


def test_a_machine_without_apt_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "apt-get" else f"/bin/{name}")
    with pytest.raises(CannotAssemble, match=r"^no apt-get here: .* docker build --file deploy/Dockerfile \.$"):
        Apt(tmp_path, ARCHITECTURES["amd64"])


def test_packages_are_listed_once_and_in_order() -> None:
    assert list(PACKAGES) == sorted(set(PACKAGES))
