"""Logins made from files: read again after a while or when refused, and kept while files are being replaced."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from echelon.base.clock import ManualClock
from echelon.client.login.credentials import FileCredentials, FileValue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def token_in(file: Path) -> FileValue[str]:
    def read() -> str:
        if not file.read_text():
            raise ValueError(f"{file} is empty")
        return file.read_text()

    return FileValue((file,), read)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("old")
    return file


@pytest.fixture
def credentials(token: Path, clock: ManualClock) -> FileCredentials:
    return FileCredentials(token_in(token), FileValue((), ssl.create_default_context), clock.now)


def test_files_are_read_again_after_a_while(credentials: FileCredentials, token: Path, clock: ManualClock) -> None:
    first = credentials.current()
    token.write_text("new")
    clock.advance(9)
    assert credentials.current() is first
    clock.advance(1)
    assert credentials.current().authorization == "new"
    assert credentials.current().tls is first.tls, "connections go on"


def test_files_are_read_at_once_when_refused(credentials: FileCredentials, token: Path) -> None:
    first = credentials.current()
    assert asyncio.run(credentials.renewed(first)) is first, "there is no other"
    token.write_text("new")
    second = asyncio.run(credentials.renewed(first))
    assert second.authorization == "new"
    token.write_text("newest")
    assert asyncio.run(credentials.renewed(first)) is second, "what was refused is not the current one"


def test_without_a_change_the_login_stays_the_same_object(
    credentials: FileCredentials, token: Path, clock: ManualClock
) -> None:
    first = credentials.current()
    token.write_text("old")
    clock.advance(60)
    assert credentials.current() is first


@pytest.mark.parametrize("disturb", [Path.unlink, lambda file: file.write_text("")], ids=["gone", "empty"])
def test_a_file_that_is_being_replaced_is_waited_for(
    credentials: FileCredentials,
    token: Path,
    clock: ManualClock,
    disturb: Callable[[Path], object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    disturb(token)
    for _ in range(2):
        clock.advance(10)
        assert credentials.current().authorization == "old"
    assert len(caplog.records) == 1, "said once"
    token.write_text("new")
    clock.advance(10)
    assert credentials.current().authorization == "new"
