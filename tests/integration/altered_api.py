"""An API that behaves otherwise than the real one in a few verbs, for schedulers that must cope with it."""

from __future__ import annotations

from typing import Any

from echelon.api.verbs import Verbs


class AlteredApi:
    """Subclasses define the verbs that differ; all others are those of the API behind."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._verbs, name)
