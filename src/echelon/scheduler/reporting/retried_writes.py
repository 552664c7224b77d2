"""Writes that are retried until they are done, or until what they write to is gone.

evictions, claims and volumes that are given back ─► RetriedWrites ─► a line of `WritePool`, again after each failure
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from ...api.errors import ApiError, said
from .write_pool import Job

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 30.0


class RetriedWrites:
    """`submit` puts a write into its line, `later` does so after some seconds."""

    def __init__(self, submit: Callable[[Job], None], later: Callable[[float, Job], None]) -> None:
        self._submit = submit
        self._later = later

    def insist(
        self, what: str, write: Job, done: Callable[[], None], retry_seconds: float = FIRST_RETRY_SECONDS
    ) -> None:
        """Do one write; `what` is for the log."""

        async def attempt() -> None:
            try:
                await write()
            except Exception as error:
                if not isinstance(error, ApiError) or error.code != 404:
                    # Also one that nobody expected: who waits for this write would wait for ever.
                    unexpected = not isinstance(error, (ApiError, OSError))
                    log.warning("%s: %s", what, said(error), exc_info=error if unexpected else None)
                    self._later(retry_seconds, again)
                    return
            done()

        async def again() -> None:
            self.insist(what, write, done, min(retry_seconds * 2, LAST_RETRY_SECONDS))

        self._submit(attempt)

    def insist_on_all(self, writes: Collection[tuple[str, Job]], done: Callable[[], None]) -> None:
        """Do several writes, at least one; `done` is called after the last of them."""
        left = len(writes)

        def finished() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for what, write in writes:
            self.insist(what, write, finished)
