"""What holds for all tests: no scheduler under test acts on a verdict that the engine's judge refuses, and no random
example fails for taking long, since that is a matter of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.judging import Judge

settings.register_profile("whatever the machine", deadline=None)
settings.load_profile("whatever the machine")


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    """Every verdict is judged; what the judge finds wrong fails the test at its end."""
    judge = Judge()
    judge.install(monkeypatch)
    yield judge
    assert not judge.wrong
