"""Debian packages of one suite, fetched by apt into a place of our own and unpacked by Python.

The machine's own packages, sources and privileges do not matter: apt works on an empty list of installed packages, and
checks signatures and hashes as it always does.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .contents import SUITE, Architecture

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: A mirror that has `debian` and `debian-security` beside each other.
MIRROR = os.environ.get("ECHELON_DEBIAN_MIRROR", "http://deb.debian.org")


class CannotAssemble(Exception):
    """The image cannot be made here; the message says what is missing."""


@dataclass(frozen=True)
class Package:
    name: str
    address: str
    file: str
    #: Its hash as the signed index has it.
    digest: str


class Apt:
    """apt-get on one suite and architecture, with lists and cache below `home`."""

    def __init__(self, home: Path, architecture: Architecture) -> None:
        missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
        if missing or not _KEYRING.is_file():
            lacking = ", ".join(missing) or f"{_KEYRING} (package debian-archive-keyring)"
            raise CannotAssemble(
                f"no {lacking} here: the image is put together from Debian packages; "
                "do it on Debian or Ubuntu, or with an engine: docker build --file deploy/Dockerfile ."
            )
        self._home = home / f"apt-{architecture.name}"
        self._options = self._configure(architecture)

    def _configure(self, architecture: Architecture) -> list[str]:
        for part in ("state/lists/partial", "cache/archives/partial", "packages"):
            (self._home / part).mkdir(parents=True, exist_ok=True)
        (self._home / "state" / "status").touch()
        sources = self._home / "sources.list"
        suites = (("debian", SUITE), ("debian", f"{SUITE}-updates"), ("debian-security", f"{SUITE}-security"))
        lines = [f"deb [signed-by={_KEYRING}] {MIRROR}/{archive} {suite} main\n" for archive, suite in suites]
        sources.write_text("".join(lines))
        settings = {
            "APT::Architecture": architecture.name,
            "APT::Architectures": architecture.name,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Dir::Cache": self._home / "cache",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State": self._home / "state",
            "Dir::State::status": self._home / "state" / "status",
        }
        return [word for key, value in settings.items() for word in ("--option", f"{key}={value}")]

    def update(self) -> None:
        self._run("update", "--quiet", "--quiet", "--error-on=any")

    def find(self, names: Iterable[str]) -> list[Package]:
        """The newest of each package, in the order of the names."""
        wanted = list(names)
        lines = self._run("download", "--print-uris", "--quiet", *wanted).splitlines()
        found: dict[str, Package] = {}
        for line in lines:
            address, file, _, digest = line.split()
            name = file.split("_")[0]
            found[name] = Package(name, address.strip("'"), file, digest)
        return [found[name] for name in wanted]

    def fetch(self, packages: Sequence[Package]) -> list[Path]:
        """Their files; what was fetched before is not fetched again."""
        folder = self._home / "packages"
        missing = [one for one in packages if not (folder / one.file).is_file()]
        if missing:
            self._run("download", "--quiet", "--quiet", *(_version_of(one) for one in missing), cwd=folder)
        return [folder / one.file for one in packages]

    def _run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["apt-get", *self._options, command, *arguments],
            capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip()
            raise CannotAssemble(f"apt-get {command} from {MIRROR} failed: {said}")
        return done.stdout


def _version_of(package: Package) -> str:
    """`name=version`; file names write a colon of the version as %3a."""
    return f"{package.name}={package.file.split('_')[1].replace('%3a', ':')}"


def unpack(file: Path, target: Path) -> None:
    """What is in a package, with `/bin`, `/lib` and the like below `/usr`, where Debian has them today."""
    data = _output("dpkg-deb", "--fsys-tarfile", str(file))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        # Signed by Debian; filters would change modes, and Debian's own Python has none.
        archive.extraction_filter = lambda member, _: member
        for member in archive:
            member.name = _below_usr(member.name.removeprefix("./"))
            if member.islnk():
                member.linkname = _below_usr(member.linkname.removeprefix("./"))
            if member.name not in ("", "."):
                archive.extract(member, target)


def control_of(file: Path) -> str:
    """The stanza by which scanners know a package."""
    return _output("dpkg-deb", "--field", str(file)).decode()


def _below_usr(path: str) -> str:
    first = path.split("/")[0]
    return f"usr/{path}" if first in ("bin", "sbin") or first.startswith("lib") else path


def _output(*command: str) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout
