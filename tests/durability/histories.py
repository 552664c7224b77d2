"""Records histories: clients that create, update, apply, delete and get one ConfigMap at the same time, over HTTPS."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, Object
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs, WriteOptions

from .linearizability import Kind, Operation, Outcome

NAMESPACE = "default"
CLIENTS = 6
_STEPS = 6
_KINDS: tuple[Kind, ...] = ("create", "update", "apply", "delete", "get")
_WEIGHTS = (3, 5, 3, 2, 4)
_OUTCOMES: dict[str, Outcome] = {"AlreadyExists": "exists", "NotFound": "missing", "Conflict": "conflict"}


class History:
    """Seeded operations of several clients on the ConfigMap `name`."""

    def __init__(self, verbs: Verbs, seed: int) -> None:
        self._verbs = verbs
        self._chance = random.Random(seed)
        self._name = f"history-{seed}"
        self._ticks: Iterator[int] = itertools.count()
        #: The newest revision that some client has seen.
        self._seen = 0
        self.operations: list[Operation] = []

    async def record(self) -> list[Operation]:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))
        return self.operations

    async def _client(self, client: int) -> None:
        for step in range(_STEPS):
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(0)
            (kind,) = self._chance.choices(_KINDS, _WEIGHTS)
            conditional = kind in ("update", "delete") and self._chance.random() < 0.5
            await self._do(kind, f"{client}-{step}", self._seen if conditional else 0)

    async def _do(self, kind: Kind, value: str, expect: int) -> None:
        called, revision, outcome = next(self._ticks), 0, "ok"
        try:
            answer = await self._call(kind, value, expect)
        except ApiError as refused:
            outcome = _OUTCOMES[refused.reason]
        else:
            # A deletion is answered with a Status.
            revision = int(answer["metadata"].get("resourceVersion", 0))
            value = answer["data"]["value"] if kind == "get" else value
            self._seen = max(self._seen, revision)
        done = Operation(kind, called, next(self._ticks), outcome, value, expect, revision)  # type: ignore[arg-type]
        self.operations.append(done)

    def _object(self, value: str, expect: int = 0) -> Object:
        metadata: Object = {"name": self._name}
        if expect:
            metadata["resourceVersion"] = str(expect)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}

    async def _call(self, kind: Kind, value: str, expect: int) -> Object:
        verbs = self._verbs
        if kind == "create":
            return await verbs.create(CONFIG_MAPS, self._object(value), NAMESPACE)
        if kind == "update":
            return await verbs.update(CONFIG_MAPS, self._object(value, expect), NAMESPACE)
        if kind == "apply":
            options = WriteOptions(field_manager="history", force=True)
            patch = Patch(PatchType.APPLY, self._object(value))
            return await verbs.patch(CONFIG_MAPS, self._name, patch, NAMESPACE, options=options)
        if kind == "get":
            return await verbs.get(CONFIG_MAPS, self._name, NAMESPACE)
        options_ = DeleteOptions(resource_version=str(expect) if expect else "")
        return await verbs.delete(CONFIG_MAPS, self._name, NAMESPACE, options_)
