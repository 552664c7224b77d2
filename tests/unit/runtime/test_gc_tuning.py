from __future__ import annotations

import gc

from echelon.runtime.gc_tuning import collecting_rarely

#: More than can be looked through in 20 ms.
_OBJECTS = 1_000_000


def test_what_survives_a_long_collection_is_not_looked_at_again_until_the_block_ends() -> None:
    gc.unfreeze()
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with collecting_rarely():
        assert gc.get_threshold() > before
        large = [[number] for number in range(_OBJECTS)]
        gc.collect()
        assert gc.get_freeze_count() > len(large)
    assert (gc.get_threshold(), gc.callbacks, gc.get_freeze_count()) == (before, callbacks, 0)
