"""Machines whose kernel refuses namespaces: the next tier is chosen and told, and training goes through."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import kubectl as kubectl_module
from . import refused_namespaces
from .as_nobody import NOBODY, directory_of_nobody, seeing_the_interpreter
from .kubectl import Kubectl
from .refused_namespaces import EVERY_KIND
from .test_process_nodes import client, documents, started
from .test_training import EXAMPLES, losses, trainers, until_trained

LIMITED = r"namespaces are limited on this machine \(/proc/sys/user/max_\*_namespaces\)"
FORBIDDEN = r"namespaces are not permitted to this user \(a policy of this machine such as AppArmor or seccomp\)"
PAUSE = 'PAUSE = float(os.environ.get("PAUSE", 0.02))'
pytestmark = [
    pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can forbid namespaces for a part of the machine"),
    pytest.mark.skipif(not all(map(shutil.which, ("unshare", "mount"))), reason="needs util-linux"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """That of pytest is closed to other users."""
    with tempfile.TemporaryDirectory(prefix="echelon-refused-") as made:
        yield Path(made)


def within(folder: Path, refused: str, uid: str) -> list[str]:
    """A command that runs the rest of its arguments where namespaces are refused."""
    return [*seeing_the_interpreter(folder), sys.executable, refused_namespaces.__file__, refused, uid]


def without_pauses(*names: str) -> list[Any]:
    """The NumPy example, as fast as it can."""
    text = "\n---\n".join((EXAMPLES / "numpy" / f"{name}.yaml").read_text() for name in names)
    assert PAUSE in text
    return documents(text.replace(PAUSE, "PAUSE = 0.0"))


def isolation(kubectl: Kubectl) -> Any:
    (node,) = kubectl.object("nodes")["items"]
    return next(one for one in node["status"]["conditions"] if one["type"] == "echelon.dev/PodIsolation")


@pytest.mark.parametrize(
    ("refused", "uid", "tier", "why"),
    [
        ("net", NOBODY, "names", rf"\(net: {LIMITED}\)"),
        (EVERY_KIND, "0", "plain", rf"\(net: {LIMITED}; names: {LIMITED}\)"),
        pytest.param("net", "0", "names", rf"\(net: {LIMITED}\)", marks=pytest.mark.long),
        pytest.param(EVERY_KIND, NOBODY, "plain", rf"\(net: {LIMITED}; names: {LIMITED}\)", marks=pytest.mark.long),
        pytest.param("mnt", NOBODY, "plain", rf"\(net: {LIMITED}; names: {LIMITED}\)", marks=pytest.mark.long),
        pytest.param("seccomp", NOBODY, "plain", rf"\(net: {FORBIDDEN}; names: {FORBIDDEN}\)", marks=pytest.mark.long),
        pytest.param("seccomp", "0", "plain", rf"\(net: {FORBIDDEN}; names: {FORBIDDEN}\)", marks=pytest.mark.long),
    ],
)
def test_the_next_tier_is_chosen_and_told_and_trains(folder: Path, refused: str, uid: str, tier: str, why: str) -> None:
    own = directory_of_nobody(folder)
    with started(own / "data", within=within(folder, refused, uid)) as up:
        assert re.search(rf"pods run as processes of this machine: tier {tier}, .*{why}", up.told)
        kubectl = client(up, folder)
        told = isolation(kubectl)
        assert (told["reason"], told["status"]) == (tier.capitalize(), str(tier == "names"))
        assert re.search(f"{why}$", told["message"])
        kubectl("apply", manifest=without_pauses("code", "trainjob"))
        until_trained(kubectl, "trainjob", "numpy")
        first, second = (losses(kubectl, pod) for pod in trainers(kubectl, "node"))
        assert first == second
        assert first[10] > 10 * first[300]


@pytest.mark.parametrize(
    ("refused", "uid", "tier"),
    [("seccomp", NOBODY, "plain"), pytest.param("net", "0", "names", marks=pytest.mark.long)],
)
def test_a_local_run_trains_where_namespaces_are_refused(folder: Path, refused: str, uid: str, tier: str) -> None:
    own = directory_of_nobody(folder)
    whole = own / "numpy.yaml"
    whole.write_text(yaml.safe_dump_all(without_pauses("code", "jobset")))
    command = [*within(folder, refused, uid), sys.executable, "-m", "echelon", "run", str(whole), "--local"]
    environment = {**os.environ, "TMPDIR": str(own), "HOME": str(own), "COLUMNS": "400"}
    done = subprocess.run(
        command,
        env=environment,
        cwd=own,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"tier {tier},.*\(net: namespaces\s+are ", done.stdout, re.DOTALL), done.stdout


def test_a_tier_that_is_asked_for_and_refused_is_an_error_that_says_why(folder: Path) -> None:
    own = directory_of_nobody(folder)
    command = [*within(folder, "net", NOBODY), sys.executable, "-m", "echelon", "up", "--nodes", "process"]
    done = subprocess.run(
        [*command, "--data", str(own / "data"), "--port", "0", "--tier", "net"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.search(rf"^echelon: --tier net: {LIMITED}; --tier auto chooses", done.stderr)
