"""A config file that changes under a running program."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from echelon.base.clock import ManualClock
from echelon.base.program_options import API_VERSION, SCHEDULER_PROGRAM
from echelon.deploy.configuration import BadConfiguration
from echelon.runtime.operations.live_configuration import LiveConfiguration

HEAD = f"apiVersion: {API_VERSION}\nkind: SchedulerConfiguration\n"


class Live:
    """A configuration, the values that its listener was given, and its metrics."""

    def __init__(self, path: Path, **flags: Any) -> None:
        self.configuration = LiveConfiguration(SCHEDULER_PROGRAM, flags, path)
        self.heard: list[float] = []
        self.configuration.on_change(lambda values: self.heard.append(values["reserveAfter"]))
        self.registry = CollectorRegistry()
        self.configuration.count_in(self.registry)

    def counted(self, result: str) -> float:
        return self.registry.get_sample_value("echelon_config_reloads_total", {"result": result}) or 0.0

    def gauge(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


def write(path: Path, text: str) -> None:
    """As editors do: another file under the name."""
    path.with_suffix(".new").write_text(HEAD + text)
    path.with_suffix(".new").rename(path)


def test_a_change_is_applied_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    write(path, "reserveAfter: 5\n")
    live = Live(path)
    live.configuration.look()
    assert live.heard == []
    write(path, "reserveAfter: 7\n")
    live.configuration.look()
    live.configuration.look()
    assert live.heard == [7.0]
    assert live.counted("applied") == 1


def test_a_bad_file_keeps_the_old_values_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.yaml"
    write(path, "reserveAfter: 5\n")
    live = Live(path)
    write(path, "reserveAftre: 7\n")
    live.configuration.look()
    assert live.configuration.values["reserveAfter"] == 5.0
    assert "c.yaml:3: unknown key 'reserveAftre', did you mean 'reserveAfter'?" in caplog.text
    assert (live.counted("refused"), live.gauge("echelon_config_last_reload_successful")) == (1, 0)
    path.unlink()
    live.configuration.look()
    assert live.counted("refused") == 2
    write(path, "reserveAfter: 8\n")
    live.configuration.look()
    assert live.heard == [8.0]
    assert live.gauge("echelon_config_last_reload_successful") == 1


def test_what_cannot_change_at_run_time_is_told_and_the_rest_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.yaml"
    write(path, "")
    live = Live(path)
    with caplog.at_level(logging.WARNING):
        write(path, "metricsPort: 7\nreserveAfter: 9\n")
        live.configuration.look()
    assert live.configuration.restart_needed == ("metricsPort",)
    assert live.gauge("echelon_config_restart_needed") == 1
    assert live.configuration.values["metricsPort"] is None
    assert live.heard == [9.0]
    assert "restart needed" in caplog.text
    write(path, "reserveAfter: 9\n")
    live.configuration.look()
    assert live.configuration.restart_needed == ()


def test_a_flag_wins_also_after_a_change(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    write(path, "")
    live = Live(path, reserveAfter=3.0)
    write(path, "reserveAfter: 9\n")
    live.configuration.look()
    assert live.configuration.values["reserveAfter"] == 3.0
    assert live.heard == []


def test_a_config_map_changes_by_its_link(tmp_path: Path) -> None:
    """As a kubelet does: `c.yaml` leads through `..data`, which moves to another directory at once."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "c.yaml").write_text(f"{HEAD}reserveAfter: {number}\n")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "c.yaml").symlink_to("..data/c.yaml")
    live = Live(tmp_path / "c.yaml")
    assert live.configuration.values["reserveAfter"] == 1.0
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    live.configuration.look()
    assert live.heard == [2.0]


async def test_the_file_is_looked_at_every_few_seconds(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    write(path, "")
    live = Live(path)

    class Yielding(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            await asyncio.sleep(0)

    following = asyncio.create_task(live.configuration.follow(Yielding()))
    await asyncio.sleep(0)
    write(path, "reserveAfter: 4\n")
    for _ in range(3):
        await asyncio.sleep(0)
    following.cancel()
    assert live.heard == [4.0]


def test_a_file_that_cannot_be_used_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"c\.yaml: No such file or directory"):
        Live(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfiguration, match="not a text file"):
        Live(tmp_path / "c.yaml")


@pytest.mark.parametrize("between", ["reserveAftre: 7\n", "metricsPort: 7\nreserveAfter: 5\n"], ids=["bad", "restart"])
def test_a_file_that_is_as_before_again_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, between: str) -> None:
    path = tmp_path / "c.yaml"
    write(path, "reserveAfter: 5\n")
    live = Live(path)
    write(path, between)
    live.configuration.look()
    assert "read again" not in caplog.text
    write(path, "reserveAfter: 5\n")
    live.configuration.look()
    assert "config file read again" in caplog.text
    assert live.heard == []
