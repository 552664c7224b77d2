"""Everything that containers write, as one stream of lines."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from echelon.agents.process.local_pods import LocalPods
from echelon.agents.process.machine import ChosenTier
from echelon.agents.process.pod_directories import NodeDirectory
from echelon.agents.process.pod_network import PodNetwork
from echelon.agents.process.serving import log_tails
from echelon.agents.process.serving.log_tails import FileLogTails
from echelon.agents.process.shim.container_log import ContainerLog


class Pods:
    """Pods that write, without anything that runs."""

    def __init__(self, path: Path) -> None:
        self.directory = NodeDirectory(path)
        network = PodNetwork(self.directory, ChosenTier("plain", "", user_namespace=False))
        self.local = LocalPods(self.directory, network)

    def log(
        self, uid: str, container: str = "c", attempt: int = 0, most_bytes: int = 1 << 20, most_files: int = 5
    ) -> ContainerLog:
        pod = self.directory.pod(uid)
        path = pod.log(container, attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"namespace": "default", "name": f"pod-{uid}", "node": "n", "tier": "plain", "address": ""}
        pod.write("sandbox.json", {**facts, "user_namespace": False})
        return ContainerLog(str(path), most_bytes, most_files)

    def tails(self, *, complete: bool = True) -> FileLogTails:
        return FileLogTails(self.local, complete=complete)


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path)


def texts(tails: FileLogTails, *, last: bool = True) -> list[str]:
    return [line.text for line in tails.new_lines(last=last)]


def test_every_line_comes_once(pods: Pods) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"one\ntwo\nth")
    assert texts(tails) == ["one", "two"]
    log.feed("stdout", b"ree\n")
    assert texts(tails) == ["three"]
    assert texts(tails) == []
    log.close()


def test_lines_of_several_pods_and_containers_come_in_order_of_time(pods: Pods) -> None:
    tails = pods.tails()
    logs = [pods.log("u", "a"), pods.log("u", "b"), pods.log("v")]
    for number in range(12):
        logs[number % 3].feed("stdout", f"{number}\n".encode())
    told = tails.new_lines(last=True)
    assert [line.text for line in told] == [str(number) for number in range(12)]
    assert [(line.pod, line.container) for line in told[:3]] == [("pod-u", "a"), ("pod-u", "b"), ("pod-v", "c")]
    for log in logs:
        log.close()


def test_a_line_waits_until_no_older_one_can_come(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"just now\n")
    monkeypatch.setattr(log_tails, "_SETTLED_SECONDS", 3600.0)
    assert texts(tails, last=False) == []
    monkeypatch.setattr(log_tails, "_SETTLED_SECONDS", 0.0)
    assert texts(tails, last=False) == ["just now"]
    log.close()


def test_a_long_line_is_one_line(pods: Pods) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"x" * 50_000 + b"\ny" * 1 + b"\n")
    assert texts(tails) == ["x" * 50_000, "y"]
    log.close()


def test_the_beginning_of_a_line_comes_at_the_end_of_all(pods: Pods) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"x" * 20_000)
    assert texts(tails, last=False) == []
    assert [len(text) for text in texts(tails)] == [16 * 1024]
    log.close()


def test_rotation_loses_nothing(pods: Pods) -> None:
    tails, log = pods.tails(), pods.log("u", most_bytes=2_000)
    told: list[str] = []
    for number in range(300):
        log.feed("stdout", f"line {number}\n".encode())
        if number % 50 == 0:
            told += texts(tails)
    log.close()
    assert [*told, *texts(tails)] == [f"line {number}" for number in range(300)]
    assert len(list(pods.directory.pod("u").log("c", 0).parent.iterdir())) > 1


def test_lines_of_a_busy_log_come_once_and_in_order(pods: Pods) -> None:
    """It is rotated all the time, so that many a look comes while it has no newest piece."""
    tails, log = pods.tails(), pods.log("u", most_bytes=400, most_files=1 << 20)

    def write() -> None:
        for number in range(0, 5_000, 10):
            log.feed("stdout", b"".join(b"%d\n" % one for one in range(number, number + 10)))

    writing = threading.Thread(target=write)
    writing.start()
    told: list[str] = []
    while writing.is_alive():
        told += texts(tails, last=False)
    writing.join()
    log.close()
    assert [*told, *texts(tails)] == [str(number) for number in range(5_000)]


def test_lines_that_are_written_while_their_file_is_opened_come_once(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails, log = pods.tails(), pods.log("u")
    unwritten = [b"one\ntwo\n"]

    def pread(file: int, length: int, offset: int) -> bytes:
        found = os.pread(file, length, offset)
        if unwritten:
            log.feed("stdout", unwritten.pop())
        return found

    monkeypatch.setattr(log_tails, "os", SimpleNamespace(**{**vars(os), "pread": pread}))
    assert [*texts(tails), *texts(tails), *texts(tails)] == ["one", "two"]
    log.close()


def test_a_large_log_is_read_in_turns_and_stays_in_order(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tails, "_MOST_BYTES", 4_000)
    tails, big, small = pods.tails(), pods.log("u", "big", most_bytes=20_000), pods.log("u", "small")
    for number in range(1_000):
        (small if number % 100 == 0 else big).feed("stdout", f"{number}\n".encode())
    monkeypatch.setattr(log_tails, "_SETTLED_SECONDS", 0.0)
    told: list[str] = []
    for _ in range(30):
        told += texts(tails, last=False)
    assert told == [str(number) for number in range(1_000)]
    big.close()
    small.close()


def test_what_is_left_is_read_before_the_files_of_a_pod_go(pods: Pods) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"one\n")
    assert texts(tails) == ["one"]
    log.feed("stdout", b"two\n")
    log.close()
    tails.keep("u")
    pods.directory.pod("u").remove()
    assert [(line.pod, line.text) for line in tails.new_lines(last=True)] == [("pod-u", "two")]


def test_a_pod_that_is_over_is_read_once(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    tails, log = pods.tails(), pods.log("u")
    log.feed("stdout", b"one\n")
    log.close()
    (pods.directory.pod("u").path / "state.json").write_text(json.dumps({"stopped": True, "attempts": []}))
    assert texts(tails) == ["one"]
    monkeypatch.setattr(FileLogTails, "_read_piece", lambda *_: pytest.fail("read again"))
    assert texts(tails) == []


def test_who_wants_only_the_newest_lines_skips_the_rest(pods: Pods) -> None:
    tails, log = pods.tails(complete=False), pods.log("u", most_bytes=10 << 20)
    log.feed("stdout", b"".join(b"line %d\n" % number for number in range(100_000)))
    log.close()
    told = texts(tails)
    assert told[-1] == "line 99999"
    assert len(told) < 3_000
