"""What errors say in logs."""

from __future__ import annotations

from echelon.api.errors import ApiError, said


def test_an_error_without_words_is_told_by_its_kind() -> None:
    """An exception is true whatever it says: `error or …` would write an empty reason."""
    assert said(TimeoutError()) == "TimeoutError"
    assert said(ApiError(404, "NotFound", "no such pod")) == "no such pod"
