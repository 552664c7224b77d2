"""Logs of containers as they are read and followed, over rotations."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from echelon.agents.process.serving.log_reading import LogReader
from echelon.agents.process.shim.container_log import ContainerLog
from echelon.api.running_pods import LogOptions


def line(second: int, text: str, output: str = "stdout", kind: str = "F") -> str:
    return f"2026-01-01T00:00:{second:02}.000000000Z {output} {kind} {text}\n"


def shown(log: Path, **options: object) -> str:
    async def read() -> bytes:
        reader = LogReader(log, lambda: False, LogOptions(**options))  # type: ignore[arg-type]
        return b"".join([piece async for piece in reader.read()])

    return asyncio.run(read()).decode()


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """A log that was rotated once: lines 0 to 4, then 5 to 9."""
    old, new = tmp_path / "0.log.1", tmp_path / "0.log"
    old.write_text("".join(line(n, f"line {n}") for n in range(5)))
    new.write_text("".join(line(n, f"line {n}", "stderr" if n % 2 else "stdout") for n in range(5, 10)))
    return new


def lines(*numbers: int) -> str:
    return "".join(f"line {n}\n" for n in numbers)


def test_all_pieces_are_read_oldest_first(rotated: Path) -> None:
    assert shown(rotated) == lines(*range(10))


def test_who_does_not_follow_reads_no_more_than_there_was(tmp_path: Path) -> None:
    """Though the container writes faster than anybody reads."""
    log = tmp_path / "0.log"
    piece = "".join(line(n % 60, "x" * 1000) for n in range(200))
    log.write_text(piece)

    async def read() -> int:
        seen = turns = 0
        async for data in LogReader(log, lambda: True, LogOptions()).read():
            seen += len(data)
            turns += 1
            assert turns < 50, "it never ends"
            with log.open("a") as file:
                file.write(piece)
        return seen

    assert asyncio.run(read()) == 200 * 1001


@pytest.mark.conformance("API-112")
@pytest.mark.parametrize(("count", "first"), [(0, 10), (1, 9), (4, 6), (5, 5), (6, 4), (9, 1), (10, 0), (11, 0)])
def test_the_last_lines_are_counted_over_rotated_pieces(rotated: Path, count: int, first: int) -> None:
    assert shown(rotated, tail_lines=count) == lines(*range(first, 10))


def test_the_last_lines_are_found_beyond_one_read(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text("".join(line(n % 60, f"{n:06} " + "x" * 1000) for n in range(300)))
    assert [text[:6] for text in shown(log, tail_lines=200).splitlines()] == [f"{n:06}" for n in range(100, 300)]


def test_only_lines_since_a_time_are_shown(rotated: Path) -> None:
    assert shown(rotated, since="2026-01-01T00:00:07.000000") == lines(7, 8, 9)


def test_one_output_can_be_chosen(rotated: Path) -> None:
    assert shown(rotated, only="stderr") == lines(5, 7, 9)


def test_timestamps_stand_before_each_line(rotated: Path) -> None:
    assert shown(rotated, tail_lines=1, timestamps=True) == "2026-01-01T00:00:09.000000000Z line 9\n"


def test_bytes_are_limited_to_the_byte(rotated: Path) -> None:
    assert shown(rotated, limit_bytes=10) == "line 0\nlin"


def test_parts_of_a_long_line_are_joined(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(line(0, "begin ", kind="P") + line(0, "end"))
    assert shown(log) == "begin end\n"


@pytest.mark.parametrize("rotations", [0, 1, 3])
def test_a_log_is_followed_over_rotations_to_its_end(tmp_path: Path, rotations: int) -> None:
    """Also when it was rotated several times since the last look."""
    log = tmp_path / "0.log"
    log.write_text(line(0, "line 0"))
    running = True

    async def follow() -> str:
        nonlocal running
        reader = LogReader(log, lambda: running, LogOptions(follow=True))
        found: list[bytes] = []

        async def read() -> None:
            async for piece in reader.read():
                found.append(piece)  # noqa: PERF401  # what was read is there even if the rest never comes

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.15)
        with log.open("a") as file:
            file.write(line(1, "line 1"))
        log.rename(tmp_path / "0.log.1")
        for number in range(2, 2 + rotations):
            log.write_text(line(number, f"line {number}"))
            log.rename(tmp_path / f"0.log.{number}")
        log.write_text(line(9, "line 9"))
        await asyncio.sleep(0.25)
        with log.open("a") as file:
            file.write(line(10, "line 10"))
        running = False
        await asyncio.wait_for(reading, 60)
        return b"".join(found).decode()

    assert asyncio.run(follow()) == lines(0, 1, *range(2, 2 + rotations), 9, 10)


def test_who_follows_a_busy_log_sees_every_line_once(tmp_path: Path) -> None:
    """It is rotated all the time, so that many a look comes while it has no newest piece."""
    rounds, lines_each, path = 500, 10, tmp_path / "0.log"
    log = ContainerLog(str(path), 400, 1 << 20)
    wrote = threading.Event()

    def write() -> None:
        for number in range(0, rounds * lines_each, lines_each):
            log.feed("stdout", b"".join(b"%d\n" % one for one in range(number, number + lines_each)))
        wrote.set()

    async def follow() -> list[bytes]:
        reader = LogReader(path, lambda: not wrote.is_set(), LogOptions(follow=True), look_seconds=0)
        async with asyncio.timeout(60):
            return b"".join([piece async for piece in reader.read()]).splitlines()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        assert asyncio.run(follow()) == [b"%d" % number for number in range(rounds * lines_each)]
    finally:
        writing.join()
        log.close()


def test_times_stand_before_whole_lines_and_not_in_their_middle(tmp_path: Path) -> None:
    """Long lines are stored in parts, and those of two outputs between one another."""
    log = tmp_path / "0.log"
    parts = ["a stdout P", "x stderr P", "b stdout P", "c stdout F", "y stderr F", "next stdout F"]
    log.write_text("".join(line(n, *part.split()) for n, part in enumerate(parts)))
    times = [line(n, "").split()[0] for n in range(6)]
    assert shown(log, timestamps=True, only="stdout") == f"{times[0]} abc\n{times[5]} next\n"
    assert shown(log, timestamps=True, only="stderr") == f"{times[1]} xy\n"
