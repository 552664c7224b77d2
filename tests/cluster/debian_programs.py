"""Programs of Debian's packages: the machine's own, or unpacked from the package into the cache of `make image`."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest
from tools.image import debian
from tools.image.__main__ import cache_home
from tools.image.layers import native


def debian_program(name: str, package: str) -> Path:
    """The test is skipped where there is neither."""
    if found := shutil.which(name):
        return Path(found)
    cache_home().mkdir(parents=True, exist_ok=True)
    with (cache_home() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            apt = debian.Apt(cache_home(), native())
            apt.update()
            [wanted] = apt.find([package])
            place = cache_home() / "programs" / wanted.file
            if not place.is_dir():
                [file] = apt.fetch([wanted])
                shutil.rmtree(place.with_suffix(".new"), ignore_errors=True)
                debian.unpack(file, place.with_suffix(".new"))
                place.with_suffix(".new").rename(place)
        except debian.CannotAssemble as error:
            pytest.skip(f"NO {name.upper()}: {error}")
    return place / "usr" / "bin" / name
