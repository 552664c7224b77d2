"""Counters for conditional properties, see `reached.py`."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from .reached import Reached, expected


@pytest.fixture
def reached(request: pytest.FixtureRequest) -> Reached:
    at_least = expected(request.node)
    assert at_least, "a test that counts branches says with @reaches how often"
    return Reached(at_least)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """After all examples have passed, the branches must have been reached."""
    result = yield
    counted = pyfuncitem.funcargs.get("reached")
    assert counted is not None or not expected(pyfuncitem), "a test with @reaches takes the fixture `reached`"
    if isinstance(counted, Reached):
        counted.check()
    return result
