"""The real kubectl, unmodified, as a function."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PATH = shutil.which("kubectl")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Kubectl:
    kubeconfig: Path
    cache: Path
    binary: str | None = PATH

    def command(self, *arguments: str) -> list[str]:
        assert self.binary is not None
        return [self.binary, "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.cache), *arguments]

    def environment(self) -> dict[str, str]:
        """Without a home, so that nothing of the person running the tests is read or changed."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.cache)}

    def run(self, *arguments: str, manifest: Any = None) -> Outcome:
        """Run to the end; `manifest` (an object or several) goes in as `-f -`."""
        given = None
        if manifest is not None:
            arguments = (*arguments, "-f", "-")
            given = yaml.safe_dump_all(manifest if isinstance(manifest, list) else [manifest])
        done = subprocess.run(
            self.command(*arguments), input=given, env=self.environment(), capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, manifest: Any = None) -> str:
        """What a command that must succeed prints."""
        outcome = self.run(*arguments, manifest=manifest)
        assert outcome.code == 0, f"kubectl {' '.join(arguments)}: {outcome.err or outcome.out}"
        return outcome.out

    def object(self, *arguments: str) -> Any:
        return yaml.safe_load(self("get", *arguments, "-o", "yaml"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a command that goes on, such as `get -w`."""
        return subprocess.Popen(
            self.command(*arguments), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
