"""A real disk that is full, and one whose fsync fails: writers are told, and nothing they were not told of appears.

The writer is a process of its own.  Its kernel refuses what the test says: RLIMIT_FSIZE bounds the size of files, and a
seccomp filter answers fsync and fdatasync with EIO.
"""

from __future__ import annotations

import asyncio
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.store.interface import Header
from echelon.store.sqlite import open_sqlite

_LINUX = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the filter is made for Linux on x86_64"
)

_WRITER = """
import asyncio, ctypes, errno, os, resource, sys
from pathlib import Path
from echelon.store.interface import Header, StoreFailed
from echelon.store.sqlite import open_sqlite

class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]

def refuse_fsync():
    steps = (Step * 5)(
        Step(0x20, 0, 0, 0),                        # the number of the system call
        Step(0x15, 1, 0, 74), Step(0x15, 0, 1, 75), # fsync, fdatasync
        Step(0x06, 0, 0, 0x50000 | errno.EIO),
        Step(0x06, 0, 0, 0x7fff0000),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    # For all threads of the process.
    assert libc.syscall(317, 1, 1, ctypes.byref(Program(5, steps))) == 0, os.strerror(ctypes.get_errno())

def refuse_large_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

def value(text):
    return lambda revision: (f"{text}:{revision}:" + "x" * 3000).encode()

async def main():
    store = open_sqlite(Path(sys.argv[1]), lambda key, value: Header())
    for n in range(20):
        record = await store.put(f"/core/pods/a/{n}", value("early"), 0)
        print("+", record.key, record.revision, flush=True)
    {"fsync": refuse_fsync, "full": refuse_large_files}[sys.argv[2]]()
    for turn in range(40):
        writes = [store.put(f"/core/pods/b/{turn}-{n}", value("late"), 0) for n in range(8)]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, StoreFailed):
                print("!", outcome, flush=True)
            else:
                print("+", outcome.key, outcome.revision, flush=True)
    print("=", len(store.scan("")), store.revision, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def _run(directory: Path, fault: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WRITER, str(directory), fault]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@_LINUX
@pytest.mark.conformance("API-120")
@pytest.mark.parametrize("fault", ["fsync", "full"])
async def test_writers_are_told_and_a_restart_shows_what_was_acknowledged_and_no_more(
    fault: str, tmp_path: Path
) -> None:
    ended = await asyncio.to_thread(_run, tmp_path, fault)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    lines = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    acknowledged = {key: int(revision) for sign, key, revision in lines if sign == "+"}
    refused = [line for line in lines if line[0] == "!"]
    assert len(acknowledged) >= 20
    assert len(acknowledged) + len(refused) == 20 + 40 * 8
    assert len(refused) > 8
    assert all("no more writes are accepted" in " ".join(line) for line in refused)
    # What the process itself showed to readers, and what the next one shows.
    assert [line for line in lines if line[0] == "="] == [["=", str(len(acknowledged)), str(len(acknowledged))]]
    again = open_sqlite(tmp_path, lambda key, value: Header())
    assert {record.key: record.revision for record in again.scan("")} == acknowledged
    assert (await again.put("/core/pods/c/x", lambda revision: b"{}", 0)).revision == len(acknowledged) + 1
    await again.close()
