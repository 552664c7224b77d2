"""`make image`: the image as an OCI layout; `--root` writes the tree alone, for deploy/Dockerfile."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import layout
from .contents import ARCHITECTURES
from .debian import CannotAssemble
from .layers import Assembly, native, version_of

SOURCE = Path(__file__).parents[2]


def cache_home() -> Path:
    chosen = os.environ.get("ECHELON_IMAGE_CACHE")
    return (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "echelon/image"
    )


def made_at() -> int:
    """The image's time: given, or that of the last commit, or none."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "-C", str(SOURCE), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return int(done.stdout) if done.returncode == 0 else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.image", description=__doc__)
    parser.add_argument("--out", type=Path, default=SOURCE / "build" / "image", help="where the OCI layout goes")
    parser.add_argument("--archive", type=Path, help="also write it as one file for docker load and podman load")
    parser.add_argument("--root", type=Path, help="write the tree of files there instead")
    parser.add_argument("--arch", choices=ARCHITECTURES, help="default: that of this machine")
    parser.add_argument("--cache", type=Path, default=cache_home(), help="packages and layers made before")
    options = parser.parse_args()
    try:
        _assemble(options)
    except CannotAssemble as error:
        sys.exit(f"image: {error}")


def _assemble(options: argparse.Namespace) -> None:
    architecture = ARCHITECTURES[options.arch] if options.arch else native()
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assembly = Assembly(SOURCE, options.cache.resolve(), architecture)
        if options.root:
            for tree in assembly.trees():
                shutil.copytree(tree, options.root, symlinks=True, dirs_exist_ok=True)
            return
        layers = assembly.layers()
        version = version_of(SOURCE)
        digest = layout.write(options.out, layers, architecture, version, made_at())
    if options.archive:
        layout.write_archive(options.out, options.archive, version)
    for layer in layers:
        print(f"{layer.size / 1e6:7.1f} MB  {layer.title}")
    print(f"{sum(layer.size for layer in layers) / 1e6:7.1f} MB  echelon:{version} {architecture.name} {digest}")
    print(f"oci:{options.out}")


if __name__ == "__main__":
    main()
