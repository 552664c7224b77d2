"""The cases sent to a real kube-apiserver that has the kinds and the policies of an installation, and no more of it.

Objects that are to change and runtimes that TrainJobs name are made before the policies: some could not be made after.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from echelon.api.custom.defined_kinds import ESTABLISHED
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.schema.crd_rules import CRD_RULES
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOB_SETS,
    NAMESPACES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Object,
)
from echelon.api.verbs import Patch, PatchType, Verbs, WriteOptions
from echelon.deploy.admission.admission_policies import policy_objects
from echelon.deploy.objects.installation import definitions, resource_of
from echelon.deploy.options import InstallOptions

from .cases import Write

#: The cases name it.
NAMESPACE = "ns"
SCHEMA, RULE, POLICY, TAKEN = "schema", "rule of the definition", "policy", "taken"
_RULES = {rule["message"] for rules in CRD_RULES.values() for rule in rules.values()}
_DRY = WriteOptions(dry_run=True)
_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    case: Write
    #: Who refused it, if anybody.
    by: str
    said: str


class RealServer:
    def __init__(self, verbs: Verbs, options: InstallOptions = InstallOptions()) -> None:
        self._verbs = verbs
        self._options = options
        #: Objects that are to change, by kind and content.
        self._stored: dict[bytes, Object] = {}
        #: Sets of objects that are there besides -> what the names of their runtimes begin with.
        self._prefixes: dict[bytes, str] = {}

    async def prepare(self, cases: Sequence[Write], awaited: Sequence[Write]) -> None:
        """Kinds, objects, policies; returns once all of `awaited` are refused and defaults are set, if they are."""
        await self._verbs.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        kinds = definitions(self._options)
        for one in kinds:
            await self._apply(one)
        for one in kinds:
            await self._until(functools.partial(self._is_established, one))
        for case in cases:
            await self._store_beside(case)
            if case.old is not None and _key(case) not in self._stored:
                self._stored[_key(case)] = await self._store(case, len(self._stored))
        for one in policy_objects(self._options):
            await self._apply(one)
        if self._options.mutating_policies:
            await self._until(self._sets_defaults)
        for case in awaited:
            await self._until(functools.partial(self._is_refused, case))

    async def judge(self, case: Write) -> Verdict:
        try:
            await self._write(case)
        except ApiError as error:
            if error.code != 422:
                raise
            return Verdict(case, _refused_by(str(error)), str(error))
        return Verdict(case, TAKEN, "")

    async def _write(self, case: Write) -> None:
        new = self._as_sent(case, case.new)
        if case.old is None:
            await self._verbs.create(case.resource, new, _space(case, NAMESPACE), _DRY)
            return
        stored = self._stored[_key(case)]
        identity = {field: stored["metadata"][field] for field in ("name", "resourceVersion", "uid")}
        space = meta.namespace(stored)
        metadata = {**new["metadata"], **identity, **({"namespace": space} if space else {})}
        await self._verbs.update(case.resource, {**new, "metadata": metadata}, space, options=_DRY)

    async def _store(self, case: Write, number: int) -> Object:
        """Each in a namespace of its own, because names take part in rules."""
        space = _space(case, f"old-{number}")
        if space:
            await self._verbs.create(NAMESPACES, {"metadata": {"name": space}})
        old = self._as_sent(case, case.old)
        name = meta.name(old) if space else f"old-{number}"
        metadata = {**old["metadata"], "name": name, "namespace": space}
        made = await self._verbs.create(case.resource, {**old, "metadata": metadata}, space)
        status = dict(old.get("status") or {})
        if not status:
            return made
        if "conditions" in status:
            times = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ended", "message": ""}
            status["conditions"] = [{**times, **one} for one in status["conditions"]]
        return await self._verbs.update(case.resource, {**made, "status": status}, space, "status")

    async def _store_beside(self, case: Write) -> None:
        """Runtimes of one case may have the names of those of another, so each set of them has a prefix of its own."""
        key = msgspec.json.encode(case.beside)
        if not case.beside or key in self._prefixes:
            return
        self._prefixes[key] = prefix = f"c{len(self._prefixes)}"
        for resource in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES):
            for kind, one in case.beside:
                if kind == resource.qualified:
                    metadata = {**one["metadata"], "name": prefix + meta.name(one)}
                    made = {**one, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
                    await self._verbs.create(resource, made, NAMESPACE if resource.namespaced else "")

    def _as_sent(self, case: Write, obj: Object) -> Object:
        obj = {**obj, "apiVersion": case.resource.api_version, "kind": case.resource.kind}
        prefix = self._prefixes.get(msgspec.json.encode(case.beside), "")
        if not prefix or case.resource != TRAIN_JOBS:
            return obj
        reference = obj["spec"]["runtimeRef"]
        return {**obj, "spec": {**obj["spec"], "runtimeRef": {**reference, "name": prefix + reference["name"]}}}

    async def _apply(self, obj: Object) -> None:
        options = WriteOptions(field_validation="Strict", field_manager="test")
        await self._verbs.patch(resource_of(obj), meta.name(obj), Patch(PatchType.APPLY, obj), options=options)

    async def _is_established(self, definition: Object) -> bool:
        found = await self._verbs.get(CUSTOM_RESOURCE_DEFINITIONS, meta.name(definition))
        return meta.condition_is(found, ESTABLISHED)

    async def _is_refused(self, case: Write) -> bool:
        return (await self.judge(case)).by != TAKEN

    async def _sets_defaults(self) -> bool:
        made = await self._verbs.create(JOB_SETS, {"metadata": {"name": "empty"}}, NAMESPACE, _DRY)
        return "network" in (made.get("spec") or {})

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    if await holds():
                        return
                except ApiError as error:
                    if error.code != 503:  # a server that does not know a new kind well enough to set its defaults
                        raise
                await asyncio.sleep(0.1)


def _refused_by(said: str) -> str:
    if "ValidatingAdmissionPolicy" in said:
        return POLICY
    return RULE if any(message in said for message in _RULES) else SCHEMA


def _space(case: Write, name: str) -> str:
    return name if case.resource.namespaced else ""


def _key(case: Write) -> bytes:
    return msgspec.json.encode([case.kind, case.old, case.beside])
