"""The image on a real cluster: its pods run without privileges on a read-only root, and schedule."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tools.image import layout
from tools.image.__main__ import cache_home
from tools.image.contents import SITE
from tools.image.layers import native

from echelon.api.scheme import JOB_SETS, NODES
from echelon.client.http import HttpVerbs
from echelon.testing.builders import make_node
from tests.clients.environments import interpreter

from .audit import nothing_forbidden
from .controlplane import ControlPlane
from .gangs import count_bound, places, submit_gang
from .image_pods import REPOSITORY, Image, assemble, run_in, start_pod, unpacked_image
from .installed_programs import Program, kubelet_for
from .installing import run
from .job_objects import our_jobset
from .logins import client_of
from .own_planes import own_plane
from .waiting import eventually
from .work_places import namespace_with_account

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
PYTHON = "/usr/bin/python3.11"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with unpacked_image() as found:
        yield found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "image") as found:
        yield found


@pytest.fixture
async def verbs(plane: ControlPlane) -> AsyncIterator[HttpVerbs]:
    async with client_of(plane.kubeconfig) as client:
        yield client


async def test_pods_of_the_image_schedule_a_gang_and_make_jobs_of_a_jobset(
    image: Image, plane: ControlPlane, verbs: HttpVerbs, tmp_path: Path
) -> None:
    await namespace_with_account(verbs, "work")
    await verbs.create(NODES, make_node("n1", cpu=16))
    start = functools.partial(start_pod, image)
    with nothing_forbidden(plane.audit_log):
        async with kubelet_for(verbs, plane, tmp_path, start) as programs:
            await _install_and_work(plane, verbs, programs)
    # What a kubelet sends first is enough: the lease is given up, and nothing is said of errors.
    for program in programs.values():
        assert program.process.returncode == 0, program.said()
        assert "Traceback" not in program.said()


async def _install_and_work(plane: ControlPlane, verbs: HttpVerbs, programs: dict[str, Program]) -> None:
    code, said = await run(plane, "install")
    assert code == 0, said
    assert set(programs) == {"echelon-scheduler", "echelon-controllers"}
    for program in programs.values():
        _has_no_privileges(program)
        _is_modest(program)
    gang = await submit_gang(verbs, "work", "n1", "gang")
    await eventually(places(verbs, "work", gang), {"n1"})
    await verbs.create(JOB_SETS, our_jobset("js"), "work")
    await eventually(lambda: count_bound(verbs, "work", "js-"), 4)
    for program in programs.values():
        assert "pandas" not in _libraries_of(program)


def _libraries_of(program: Program) -> str:
    return Path(f"/proc/{program.pid}/maps").read_text()


def _status(program: Program) -> dict[str, str]:
    lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _is_modest(program: Program) -> None:
    """Memory that it has used, and for people the seconds until it was ready, which depend on the machine."""
    mebibytes = int(_status(program)["VmHWM"].split()[0]) / 1024
    print(f"{program.name}: {mebibytes:.0f} MiB, ready after {program.start_seconds:.1f} s")
    assert mebibytes < 200


def _has_no_privileges(program: Program) -> None:
    status = _status(program)
    # A namespace of users maps somebody else than root to nobody but themselves.
    wanted = "65532" if os.getuid() == 0 else str(os.getuid())
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {wanted}
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    mounts = [line.split() for line in Path(f"/proc/{program.pid}/mountinfo").read_text().splitlines()]
    writable = {mount[4] for mount in mounts if "rw" in mount[5].split(",")}
    assert "/" not in writable
    assert {path for path in writable if not path.startswith(("/dev", "/proc"))} == set()


def test_the_solver_works_and_pandas_is_two_empty_classes(image: Image) -> None:
    program = """
import sys
from echelon.engine.space.budget import Steps
from echelon.engine.space.cpsat import Solver
solver = Solver()
number = solver.cp.new_int_var(0, 9, "number")
solver.cp.add(number * 3 == 12)
assert solver.solve(Steps(100_000), 1) and solver.value(number) == 4
import pandas
print(pandas.__file__, sorted(name for name in vars(pandas) if name[0] != "_"))
"""
    done = run_in(image, PYTHON, "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"/{SITE}/pandas.py", "['Index',", "'Series']"]


def test_every_module_of_the_programs_can_be_imported(image: Image) -> None:
    program = """
import importlib, pkgutil, echelon
names = [one.name for one in pkgutil.walk_packages(echelon.__path__, "echelon.") if not one.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    done = run_in(image, PYTHON, "-W", "error", "-c", program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400


def test_every_shared_library_that_is_asked_for_is_there(image: Image) -> None:
    libraries = image.root / native().libraries
    loader = [str(libraries / native().loader), "--inhibit-cache", "--library-path", str(libraries), "--list"]
    looked_at = [path for path in image.root.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    assert len(looked_at) > 150
    for path in looked_at:
        listed = subprocess.run([*loader, str(path)], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            found = line.partition("=>")[2].split()
            assert "not found" not in line, f"{path}: {line}"
            assert not found or found[0].startswith((str(image.root), "(")), f"{path}: {line}"


def test_there_is_no_shell_and_nothing_that_only_installs_or_tests(image: Image) -> None:
    programs = {
        path.name for place in ("usr/bin", "usr/sbin", "usr/local/bin") for path in (image.root / place).glob("*")
    }
    assert programs == {"python3.11", "echelon"}
    names = {path.name for path in (image.root / SITE).iterdir()}
    assert not names & {"pip", "setuptools", "hatchling", "pytest", "pandas"}
    assert not [path for path in image.root.rglob("*") if path.suffix in (".pyi", ".h", ".a", ".pyx")]


def test_bytecode_is_there_for_all_sources_and_never_out_of_date(image: Image) -> None:
    sources = list(image.root.rglob("*.py"))
    assert len(sources) > 1500
    for path in sources:
        compiled = path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc"
        assert compiled.is_file(), path
        assert compiled.read_bytes()[4:8] == b"\x01\0\0\0", "hash of the source, not looked at again"


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    command = [interpreter("hadolint").with_name("hadolint"), REPOSITORY / "deploy" / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_is_smaller_than_the_aim(image: Image) -> None:
    manifest = layout.read_manifest(image.layout)
    assert sum(layer["size"] for layer in manifest["layers"]) < 120_000_000


def test_made_again_elsewhere_it_is_the_same_byte_for_byte(image: Image, tmp_path: Path) -> None:
    """With other caches, another time zone, locale, hash seed and umask; packages are not downloaded again."""
    cache = tmp_path / "elsewhere"
    cache.mkdir()
    apt = f"apt-{native().name}"
    shutil.copytree(cache_home() / apt, cache / apt)
    former = os.umask(0o027)
    try:
        assemble(
            tmp_path / "again", "--cache", str(cache), TZ="Asia/Kathmandu", LC_ALL="C", PYTHONHASHSEED="7",
        )  # fmt: skip
    finally:
        os.umask(former)
    assert _content(tmp_path / "again") == _content(image.layout)


def _content(found: Path) -> dict[str, bytes]:
    return {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()}
