"""The wheels of requirements.lock, chosen by the image's Python and architecture, not by those of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .contents import NOT_OF_LOCK, PYTHON, Architecture
from .debian import CannotAssemble


def locked(lock: str) -> Iterator[tuple[str, str]]:
    """Each distribution of a lock file with its version and hashes: `(name, requirement)`, as written."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if lines:
            yield re.split(r"[=\s]", lines[0], maxsplit=1)[0], "\n".join(lines)


def wanted(lock: str) -> str:
    """The lock for the image: what applies to its Python on Linux, without what is never imported."""
    return "".join(f"{_applied(text)}\n" for name, text in locked(lock) if name not in NOT_OF_LOCK and _applies(text))


def install(lock: str, target: Path, architecture: Architecture) -> None:
    """Unpacked below `target`; a wheel whose hash is not in the lock is refused by pip."""
    target.mkdir(parents=True)
    requirements = target.parent / "requirements.txt"
    requirements.write_text(wanted(lock))
    platforms = [word for tag in architecture.platforms for word in ("--platform", tag)]
    version = PYTHON.replace(".", "")
    abis = [word for tag in (f"cp{version}", "abi3", "none") for word in ("--abi", tag)]
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore",
        "--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:", "--target", str(target),
        "--python-version", PYTHON, "--implementation", "cp", *abis, *platforms, "--requirement", str(requirements),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    requirements.unlink()
    if done.returncode != 0:
        raise CannotAssemble(f"pip cannot fetch the wheels of requirements.lock: {done.stderr.strip()}")


def _applies(requirement: str) -> bool:
    """Markers are pip's to evaluate, yet it takes this interpreter's version for the image's."""
    from pip._vendor.packaging.markers import Marker

    _, _, marker = requirement.splitlines()[0].rstrip("\\ ").partition(";")
    image = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0", "sys_platform": "linux"}
    return not marker.strip() or Marker(marker.strip()).evaluate(image)


def _applied(requirement: str) -> str:
    first, *hashes = requirement.splitlines()
    return "\n".join([f"{first.partition(';')[0].rstrip(chr(92) + ' ')} {chr(92)}", *hashes])
