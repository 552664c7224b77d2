"""The cluster clock across restarts: it never steps back, and it does not run away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from echelon.runtime import clocks, durable_clock
from echelon.runtime.durable_clock import BadClockFile, open_clock

HOUR = 3600.0


class Machine:
    """The clocks of a machine; they move only when told to."""

    def __init__(self, boot: Path) -> None:
        self.boot = boot
        self.time = 1_800_000_000.0
        self.monotonic = 1000.0

    def wall(self) -> float:
        return self.time

    def run(self, seconds: float) -> None:
        self.time += seconds
        self.monotonic += seconds

    def fail(self, directory: Path) -> None:
        """Lose what was not on disk, and start again."""
        (directory / "clock.now").write_bytes(bytes(16))
        self.boot.write_text("another\n")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("machine") / "boot_id")
    made.boot.write_text("first\n")
    monkeypatch.setattr(durable_clock, "_BOOT_ID", made.boot)
    monkeypatch.setattr(clocks.time, "monotonic", lambda: made.monotonic)
    return made


@pytest.mark.parametrize("speed", [1.0, 10.0, 1000.0])
def test_after_a_stop_the_clock_goes_on_where_it_was(tmp_path: Path, speed: float, machine: Machine) -> None:
    clock = open_clock(tmp_path, speed, machine.wall)
    machine.run(HOUR)
    last = clock.now()
    assert last == 1_800_000_000.0 + speed * HOUR
    clock.close()
    assert open_clock(tmp_path, speed, machine.wall).now() == pytest.approx(last, abs=1e-3)


@pytest.mark.parametrize("speed", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("seconds", [0.0, 1.0, 12.0, HOUR])
def test_after_a_crash_of_the_plane_the_clock_goes_on_where_it_was(
    tmp_path: Path, speed: float, seconds: float, machine: Machine
) -> None:
    clock = open_clock(tmp_path, speed, machine.wall)
    machine.run(seconds)
    last = clock.now()
    assert open_clock(tmp_path, speed, machine.wall).now() == pytest.approx(last, abs=1e-3)


@pytest.mark.parametrize("speed", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("seconds", [0.0, 1.0, 12.0])
def test_after_a_failure_of_the_machine_the_clock_is_never_behind_and_little_ahead(
    tmp_path: Path, speed: float, seconds: float, machine: Machine
) -> None:
    clock = open_clock(tmp_path, speed, machine.wall)
    machine.run(seconds)
    last = clock.now()
    machine.fail(tmp_path)
    again = open_clock(tmp_path, speed, machine.wall).now()
    assert last - 1e-3 <= again <= last + 30.0 * (speed - 1) + 1e-3


@pytest.mark.parametrize("fails", [True, False])
def test_a_wall_clock_set_back_while_the_plane_was_down_is_not_followed(
    tmp_path: Path, machine: Machine, fails: bool
) -> None:
    clock = open_clock(tmp_path, 10.0, machine.wall)
    machine.run(20.0)
    last = clock.now()
    if fails:
        machine.fail(tmp_path)
    machine.time -= HOUR
    assert open_clock(tmp_path, 10.0, machine.wall).now() >= last


def test_crashes_at_real_speed_do_not_add_up(tmp_path: Path, machine: Machine) -> None:
    for _ in range(20):
        clock = open_clock(tmp_path, 1.0, machine.wall)
        machine.run(5.0)
        machine.fail(tmp_path)
    assert clock.now() == pytest.approx(machine.time, abs=1e-3)


def test_while_the_plane_is_down_its_clock_goes_on_at_real_speed(tmp_path: Path, machine: Machine) -> None:
    clock = open_clock(tmp_path, 10.0, machine.wall)
    machine.run(HOUR)
    clock.close()
    last = clock.now()
    machine.run(500.0)
    assert open_clock(tmp_path, 10.0, machine.wall).now() == pytest.approx(last + 500.0, abs=1e-3)


def test_a_plane_slower_than_real_time_goes_on_at_wall_time(tmp_path: Path, machine: Machine) -> None:
    clock = open_clock(tmp_path, 0.1, machine.wall)
    machine.run(HOUR)
    clock.close()
    assert open_clock(tmp_path, 0.1, machine.wall).now() == pytest.approx(machine.time, abs=1e-3)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"ahead": "x", "seen": 1, "reserved": 1})])
def test_a_damaged_file_is_refused_and_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "clock.json").write_text(text)
    with pytest.raises(BadClockFile, match=r"clock\.json is damaged .* delete it if"):
        open_clock(tmp_path, 1.0)
