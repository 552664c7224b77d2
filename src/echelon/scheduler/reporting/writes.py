"""Writing decisions to the API: bindings, evictions, conditions.

    loop ─► ApiWriter ─► pools of writers (bounded) ─► Verbs ─► caches.observe

Nothing here decides.  Bindings have a pool of their own, so that they never queue behind explanations; Scheduled
conditions and events also wait for them (`WritePool.courtesy`).  Conditions are written only when they differ from what
the object has, one write per object at a time, the newest wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...api.errors import ApiError, said
from ...api.objects import meta
from ...api.objects.vocabulary import EVICTED_BOUND_UNTIL, EVICTED_BY
from ...api.scheme import NODES, PODS, Object, Resource
from ...api.verbs import DeleteOptions, Patch, PatchType, Verbs
from ...base.clock import Clock
from ...client.informer import Caches
from ..intake.group_tree import Member
from ..intake.object_facts import bound_at
from .claim_writes import ClaimWriter
from .metrics import Metrics
from .retried_writes import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, RetriedWrites
from .volume_writes import VolumeWriter
from .write_pool import Job, WritePool

log = logging.getLogger(__name__)

#: Enough to keep a server busy while the next root is decided; more would only queue there.
_BINDINGS_AT_ONCE = 64
_OTHER_WRITES_AT_ONCE = 16
#: Scheduled conditions of groups are written when no binding is under way; after the first time one by one beside
#: bindings, in a tenth of the turns, and after the second time at once.  The same for events, which nothing waits for.
_SCHEDULED_SECONDS = 3.0
_SCHEDULED_AT_MOST_SECONDS = 15.0
_EVENT_SECONDS = 5.0
_EVENT_AT_MOST_SECONDS = 60.0

#: Called with the member of a binding, and with what went wrong, "" if nothing did.
BindingAnswered = Callable[[Member, str], None]


@dataclass(frozen=True, slots=True)
class ConditionDraft:
    """A condition as it should be, without its times."""

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(slots=True)
class _StatusWrite:
    """Conditions and fields of one object that are still to be written, and those being written."""

    resource: Resource
    obj: Object
    conditions: dict[str, ConditionDraft] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    writing: dict[str, ConditionDraft] = field(default_factory=dict)
    writing_fields: dict[str, Any] = field(default_factory=dict)
    #: Since when it waits for bindings to finish; 0 if it does not.
    patient: float = 0.0


class ApiWriter:
    """All writes of the scheduler but events."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock, metrics: Metrics) -> None:
        self._verbs = verbs
        self._caches = caches
        self._nodes = caches.of(NODES)
        self._clock = clock
        self._metrics = metrics
        self._bindings = WritePool("scheduler-bind", _BINDINGS_AT_ONCE, clock)
        self._others = WritePool("scheduler-write", _OTHER_WRITES_AT_ONCE, clock)
        self._retried = RetriedWrites(self._others.submit, self._later)
        submit = self._bindings.submit
        giving_back = RetriedWrites(submit, self._later)
        self.claims = ClaimWriter(verbs, caches, submit, giving_back)
        self.volumes = VolumeWriter(verbs, caches, clock, submit, self._later, giving_back)
        self._status_writes: dict[str, _StatusWrite] = {}
        #: Writes that wait for bindings to finish, the oldest first.
        self._patient: deque[_StatusWrite] = deque()
        self._has_patient = asyncio.Event()
        #: Writes that failed and wait for their next try; held so that they are not lost.
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._bindings.run())
                group.create_task(self._others.run())
                group.create_task(self._write_patient(), name="scheduler-patient-writes")
        finally:
            for task in self._waiting:
                task.cancel()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is in line or being written; failed writes may wait for their next try."""
        return self._bindings.idle and self._others.idle and not self._patient

    @property
    def has_plenty(self) -> bool:
        """Whether more bindings are in line than are sent at a time."""
        return self._bindings.has_plenty

    async def let_events_pass(self, since: float) -> None:
        """Return when an event that was recorded then may be written."""
        await self._bindings.courtesy(since + _EVENT_SECONDS, since + _EVENT_AT_MOST_SECONDS)

    # -- bindings --------------------------------------------------------------------------------------

    def bind(self, member: Member, answered: BindingAnswered) -> None:
        node = member.assumed
        self._bindings.submit(lambda: self._bind(member, node, answered))

    async def _bind(self, member: Member, node: str, answered: BindingAnswered) -> None:
        if self._nodes.get(node) is None:
            # It went while the binding was in line; the API server would accept the binding all the same.
            answered(member, f"node {node} is gone")
            return
        error_text, sent = "", self._clock.now()
        try:
            await self._verbs.bind(member.namespace, member.name, node, uid=member.uid)
        except (ApiError, OSError, TimeoutError) as error:
            error_text = said(error)
        self._metrics.answered(self._clock.now() - sent)
        if error_text:
            await self._find_out(member, node, answered, error_text, FIRST_RETRY_SECONDS)
        else:
            answered(member, "")

    async def _find_out(
        self, member: Member, node: str, answered: BindingAnswered, error_text: str, retry: float
    ) -> None:
        """After a failed call, read whether the pod is bound all the same; until then its place is held."""
        try:
            pod = await self._verbs.get(PODS, meta.name(member.obj), meta.namespace(member.obj))
        except (ApiError, OSError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.code == 404:
                answered(member, error_text)
            else:
                again = min(retry * 2, LAST_RETRY_SECONDS)
                self._later(retry, lambda: self._find_out(member, node, answered, error_text, again))
            return
        self._caches.observe(PODS, pod)
        bound = meta.uid(pod) == member.uid and pod["spec"].get("nodeName") == node
        answered(member, "" if bound else error_text)

    # -- evictions -------------------------------------------------------------------------------------

    def evict(
        self, members: Collection[Member], scheduler: str, message: str, still_there: Callable[[Member], bool]
    ) -> None:
        """Mark pods as disruption targets, then delete them with their grace; retried until they are gone.

        None is deleted before all are marked: the next process sees by condition and annotation which pods to evict.
        """
        condition = ConditionDraft("DisruptionTarget", "True", "PreemptionByScheduler", message)
        # The server says when pods were bound: the time of the condition, which is ours, must not be compared with it.
        until = max((bound_at(member.obj) for member in members), default="")
        notes = {EVICTED_BY: scheduler, **({EVICTED_BOUND_UNTIL: until} if until else {})}

        async def mark(member: Member) -> None:
            if still_there(member) and not meta.condition_is(member.obj, condition.type):
                await self._patch(PODS, member.obj, {condition.type: condition}, {}, notes)

        async def delete(member: Member) -> None:
            if still_there(member) and not meta.deleting(member.obj):
                options = DeleteOptions(uid=member.uid)
                await self._verbs.delete(PODS, meta.name(member.obj), meta.namespace(member.obj), options)

        def on_all(act: Callable[[Member], Awaitable[None]], done: Callable[[], None]) -> None:
            writes = [(f"evicting pod {member.key}", partial(act, member)) for member in members]
            self._retried.insist_on_all(writes, done)

        on_all(mark, lambda: on_all(delete, lambda: None))

    # -- conditions ------------------------------------------------------------------------------------

    def set_conditions(self, resource: Resource, obj: Object, *conditions: ConditionDraft, **fields: Any) -> bool:
        """Write conditions and status fields now; False if the object has these conditions already."""
        return self._set_conditions(resource, obj, conditions, fields, 0.0)

    def set_conditions_later(self, resource: Resource, obj: Object, *conditions: ConditionDraft) -> bool:
        """The same, when bindings have finished."""
        return self._set_conditions(resource, obj, conditions, {}, self._clock.now())

    def _set_conditions(
        self,
        resource: Resource,
        obj: Object,
        conditions: Collection[ConditionDraft],
        fields: Mapping[str, Any],
        patient: float,
    ) -> bool:
        write = self._status_writes.get(meta.uid(obj))
        fresh = [condition for condition in conditions if _condition_of(write, obj, condition.type) != condition]
        changed = {name: value for name, value in fields.items() if _field(write, obj, name) != value}
        if not fresh and not changed:
            return False
        if write is None:
            write = self._status_writes[meta.uid(obj)] = _StatusWrite(resource, obj)
        is_new = not write.conditions and not write.fields and not write.writing and not write.writing_fields
        if is_new and patient:
            write.patient = patient
            if not self._patient:
                self._has_patient.set()
            self._patient.append(write)
        elif is_new or (write.patient and not patient):
            self._submit(write)
        write.obj = obj
        write.conditions |= {condition.type: condition for condition in fresh}
        write.fields |= changed
        return bool(fresh)

    def _submit(self, write: _StatusWrite) -> None:
        """Groups go before pods: a group's reason should not wait for those of a thousand pods."""
        write.patient = 0.0
        self._others.submit(lambda: self._write(write, FIRST_RETRY_SECONDS), can_wait=write.resource is PODS)

    async def _write_patient(self) -> None:
        while True:
            await self._has_patient.wait()
            write = self._patient.popleft()
            if not self._patient:
                self._has_patient.clear()
            latest = write.patient + _SCHEDULED_AT_MOST_SECONDS
            if write.patient:
                await self._bindings.courtesy(write.patient + _SCHEDULED_SECONDS, latest)
            if not write.patient:
                continue  # a write that could not wait took it along
            if self._bindings.idle or self._clock.now() >= latest:
                self._submit(write)
            else:
                write.patient = 0.0
                await self._write(write, FIRST_RETRY_SECONDS)

    def condition_of(self, obj: Object, type_: str) -> ConditionDraft | None:
        """A condition as an object has it or is about to have it."""
        return _condition_of(self._status_writes.get(meta.uid(obj)), obj, type_)

    async def _write(self, write: _StatusWrite, retry: float) -> None:
        """Write what is pending for an object until there is nothing new."""
        while write.conditions or write.fields:
            write.writing, write.conditions = write.conditions, {}
            write.writing_fields, write.fields = write.fields, {}
            try:
                if not self._outdated(write):
                    await self._patch(write.resource, write.obj, write.writing, write.writing_fields)
            except (ApiError, OSError, TimeoutError) as error:
                if isinstance(error, ApiError) and (error.code in (404, 422) or self._outdated(write)):
                    log.debug("status of %s %s: %s", write.resource.kind, meta.key(write.obj), error)
                    continue
                write.conditions = write.writing | write.conditions
                write.fields = write.writing_fields | write.fields
                self._later(retry, lambda: self._write(write, min(retry * 2, LAST_RETRY_SECONDS)))
                return
        self._status_writes.pop(meta.uid(write.obj), None)

    def _outdated(self, write: _StatusWrite) -> bool:
        """Whether a write is obsolete: the object was replaced, or the pod is bound."""
        known = self._caches.of(write.resource).get(meta.key(write.obj))
        if known is None or meta.uid(known) != meta.uid(write.obj):
            return True
        return write.resource is PODS and bool(known["spec"].get("nodeName"))

    async def _patch(
        self,
        resource: Resource,
        obj: Object,
        conditions: Mapping[str, ConditionDraft],
        fields: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        known = self._caches.of(resource).get(meta.key(obj)) or obj
        status = {name: value or None for name, value in fields.items()}
        status["conditions"] = [self._condition(known, condition) for condition in conditions.values()]
        metadata: Object = {"uid": meta.uid(obj)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        if "PodScheduled" in conditions:
            # A binding must win over an explanation that is written at the same time.
            metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
        patched = await self._verbs.patch(
            resource,
            meta.name(obj),
            Patch(PatchType.STRATEGIC, {"metadata": metadata, "status": status}),
            meta.namespace(obj),
            "status",
        )
        self._caches.observe(resource, patched)

    def _condition(self, known: Object, condition: ConditionDraft) -> Object:
        fresh = meta.condition(condition.type, condition.status, condition.reason, condition.message, self._clock.now())
        old = meta.find_condition(known, condition.type)
        if old is not None and old["status"] == condition.status and old.get("lastTransitionTime"):
            fresh["lastTransitionTime"] = old["lastTransitionTime"]
        return fresh

    def _later(self, seconds: float, job: Job) -> None:
        async def wait() -> None:
            await self._clock.sleep(seconds)
            self._others.submit(job)

        task = asyncio.get_running_loop().create_task(wait(), name="scheduler-retry")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


def _condition_of(write: _StatusWrite | None, obj: Object, type_: str) -> ConditionDraft | None:
    """A condition of an object, as pending or as written."""
    if write is not None:
        condition = write.conditions.get(type_) or write.writing.get(type_)
        if condition is not None:
            return condition
    found = meta.find_condition(obj, type_)
    if found is None:
        return None
    return ConditionDraft(type_, found["status"], found.get("reason") or "", found.get("message") or "")


def _field(write: _StatusWrite | None, obj: Object, name: str) -> Any:
    if write is not None:
        for fields in (write.fields, write.writing_fields):
            if name in fields:
                return fields[name]
    return (obj.get("status") or {}).get(name) or ""
