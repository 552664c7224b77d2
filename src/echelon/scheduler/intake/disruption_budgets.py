"""PodDisruptionBudgets: which pods each covers, and how many of them may still go.

A budget's own status counts when its controller has seen the spec; until then the allowance is worked out from the
placed pods it covers.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import meta
from ...api.objects.selectors import LabelSelector
from ...api.scheme import Object
from ...engine import Budget
from .forest import Ids


class _Cover:
    """One budget and the placed pods under it."""

    def __init__(self, number: int, obj: Object) -> None:
        self.id = number
        self.obj = obj
        self.selector = LabelSelector.from_object(obj["spec"].get("selector"))
        self.pods: dict[int, None] = {}

    def covers(self, pod: Object) -> bool:
        labels = meta.labels(pod)
        return bool(labels) and self.selector.matches(labels)

    def allowance(self) -> int:
        status = self.obj.get("status") or {}
        if "disruptionsAllowed" in status and status.get("observedGeneration", 0) >= self.obj["metadata"].get(
            "generation", 0
        ):
            return int(status["disruptionsAllowed"])
        spec, count = self.obj["spec"], len(self.pods)
        if spec.get("maxUnavailable") is not None:
            return max(0, _share(spec["maxUnavailable"], count))
        return max(0, count - _share(spec.get("minAvailable", 0), count))


class Budgets:
    """All budgets, by namespace."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._spaces: dict[str, dict[str, _Cover]] = {}

    def put(self, obj: Object) -> bool:
        """Take in a budget; True if it may cover other pods than before."""
        space = self._spaces.setdefault(meta.namespace(obj), {})
        known = space.get(meta.name(obj))
        fresh = _Cover(self._ids.of(("budget", meta.key(obj))), obj)
        if known is not None and known.selector == fresh.selector:
            known.obj = obj
            return False
        space[meta.name(obj)] = fresh
        return True

    def remove(self, obj: Object) -> int:
        """Forget a budget; its id."""
        space = self._spaces[meta.namespace(obj)]
        cover = space.pop(meta.name(obj))
        if not space:
            del self._spaces[meta.namespace(obj)]
        self._ids.drop(("budget", meta.key(obj)))
        return cover.id

    def cover(self, number: int, pod: Object) -> tuple[int, ...]:
        """A pod holds a place: the ids of the budgets that cover it; others that did no longer do."""
        if not self._spaces:
            return ()
        found = []
        for cover in self._spaces.get(meta.namespace(pod), {}).values():
            if cover.covers(pod):
                cover.pods[number] = None
                found.append(cover.id)
            else:
                cover.pods.pop(number, None)
        return tuple(found)

    def uncover(self, number: int, namespace: str) -> None:
        for cover in self._spaces.get(namespace, {}).values():
            cover.pods.pop(number, None)

    def allowances(self, namespace: str) -> list[Budget]:
        return [Budget(cover.id, cover.allowance()) for cover in self._spaces.get(namespace, {}).values()]


def _share(amount: Any, of: int) -> int:
    """A count, or a percentage of `of`, rounded up."""
    text = str(amount)
    return -(-int(text[:-1]) * of // 100) if text.endswith("%") else int(text)
