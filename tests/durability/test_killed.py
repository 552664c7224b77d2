"""A plane killed under 64 writers keeps what it acknowledged; `make durability` runs all rounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import killed_rounds

ROUNDS = 20 if os.environ.get("ECHELON_LONG") else 2


@pytest.mark.conformance("API-24", "API-118")
@pytest.mark.timeout(60 + ROUNDS * 30)
async def test_killed_under_64_writers_a_plane_keeps_every_acknowledged_write(tmp_path: Path) -> None:
    figures = await killed_rounds.run(tmp_path, ROUNDS)
    assert figures.rounds == ROUNDS
    assert figures.writes > killed_rounds.WRITERS
