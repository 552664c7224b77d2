"""Sets of completion indexes, against plain sets."""

from __future__ import annotations

import time
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.objects import completion_indexes
from echelon.api.objects.completion_indexes import IndexSet

INDEXES = st.sets(st.integers(0, 40))


@given(INDEXES, INDEXES)
def test_sets_of_indexes_are_sets(left: set[int], right: set[int]) -> None:
    ours, theirs = completion_indexes.of(left), completion_indexes.of(right)
    assert ours | theirs == completion_indexes.of(left | right)
    assert ours & theirs == completion_indexes.of(left & right)
    assert len(ours) == len(left)
    assert [index for index in range(45) if index in ours] == sorted(left)
    assert list(ours.missing(42)) == [index for index in range(42) if index not in left]
    assert completion_indexes.members(str(ours), 50) == ours


def test_two_billion_indexes_are_one_interval() -> None:
    begun = time.process_time()
    everything = completion_indexes.members("0-2147483646", 2**31 - 1)
    assert len(everything) == 2**31 - 1
    assert 2**31 - 2 in everything
    assert str(everything | completion_indexes.of([2**31 + 5])) == "0-2147483646,2147483653"
    assert list(everything.missing(2**31 - 1)) == []
    assert list(islice(IndexSet([(0, 2**31 - 3)]).missing(2**31 - 1), 3)) == [2**31 - 2]
    assert time.process_time() - begun < 5
