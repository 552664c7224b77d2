"""Writing decisions to the API: bindings, evictions, conditions.

    loop ─► Enactor ─► pools of writers (bounded) ─► Verbs ─► caches.observe

Nothing here decides.  Bindings have a pool of their own, so that they never queue behind explanations; good news and
events also leave the server to them (`WritePool.courtesy`).  Conditions are written only when they differ from what the
object says, one write per object at a time, the newest word wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.vocabulary import EVICTED_BY
from ...api.scheme import NODES, PODS, Object, Resource
from ...api.verbs import DeleteOptions, Patch, PatchType, Verbs
from ...base.clock import Clock
from ...client.informer import Caches
from ..intake.group_tree import Member
from .metrics import Metrics
from .write_pool import Job, WritePool

log = logging.getLogger(__name__)

#: Enough to keep a server busy while the next tree is decided; more would only stand in line there.
_BINDINGS_AT_ONCE = 64
_OTHER_WRITES_AT_ONCE = 16
#: That a group is scheduled is said when no binding is under way any more; after this long one by one beside them, in a
#: tenth of the turns, and after that long without regard to them.  The same for events, which nobody acts on.
_GOOD_NEWS_SECONDS = 3.0
_OLD_NEWS_SECONDS = 15.0
_EVENT_SECONDS = 5.0
_OLD_EVENT_SECONDS = 60.0
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 30.0

#: Called when a binding ended: the member, and what went wrong if anything did.
BindingEnded = Callable[[Member, str], None]


@dataclass(frozen=True, slots=True)
class Word:
    """A condition as it should read."""

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(slots=True)
class _Note:
    """What an object's status should say: words and fields still to be written, and those being written."""

    resource: Resource
    obj: Object
    words: dict[str, Word] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    flying: dict[str, Word] = field(default_factory=dict)
    flying_fields: dict[str, Any] = field(default_factory=dict)
    #: Since when it waits for bindings to be through; 0 if it does not.
    patient: float = 0.0


class Enactor:
    """The scheduler's hand."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock, metrics: Metrics) -> None:
        self._verbs = verbs
        self._caches = caches
        self._nodes = caches.of(NODES)
        self._clock = clock
        self._metrics = metrics
        self._bindings = WritePool("scheduler-bind", _BINDINGS_AT_ONCE, clock)
        self._others = WritePool("scheduler-write", _OTHER_WRITES_AT_ONCE, clock)
        self._notes: dict[str, _Note] = {}
        #: Good news in line, the oldest first.
        self._patient: deque[_Note] = deque()
        self._glad = asyncio.Event()
        #: Writes that failed and wait for their next try; held so that they are not lost.
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._bindings.run())
                group.create_task(self._others.run())
                group.create_task(self._tell_good_news(), name="scheduler-good-news")
        finally:
            for task in self._waiting:
                task.cancel()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is in line or being written; what failed may wait for its next try."""
        return self._bindings.idle and self._others.idle and not self._patient

    @property
    def has_plenty(self) -> bool:
        """Whether bindings stand in line behind as many as are sent at a time."""
        return self._bindings.has_plenty

    async def let_events_pass(self, since: float) -> None:
        """Return when an event that waits since then may be written."""
        await self._bindings.courtesy(since + _EVENT_SECONDS, since + _OLD_EVENT_SECONDS)

    # -- bindings --------------------------------------------------------------------------------------

    def bind(self, member: Member, ended: BindingEnded) -> None:
        node = member.assumed
        self._bindings.submit(lambda: self._bind(member, node, ended))

    async def _bind(self, member: Member, node: str, ended: BindingEnded) -> None:
        if self._nodes.get(node) is None:
            # It went while the binding was in line; a real server would accept it all the same.
            ended(member, f"node {node} is gone")
            return
        trouble, sent = "", self._clock.now()
        try:
            await self._verbs.bind(member.namespace, member.name, node, uid=member.uid)
        except (ApiError, OSError, TimeoutError) as error:
            trouble = str(error) or type(error).__name__
        self._metrics.answered(self._clock.now() - sent)
        if trouble:
            await self._find_out(member, node, ended, trouble, _FIRST_RETRY_SECONDS)
        else:
            ended(member, "")

    async def _find_out(self, member: Member, node: str, ended: BindingEnded, trouble: str, retry: float) -> None:
        """After a failed call: whether the binding took place all the same; until then its place is held."""
        try:
            pod = await self._verbs.get(PODS, meta.name(member.obj), meta.namespace(member.obj))
        except (ApiError, OSError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.code == 404:
                ended(member, trouble)
            else:
                again = min(retry * 2, _LAST_RETRY_SECONDS)
                self._later(retry, lambda: self._find_out(member, node, ended, trouble, again))
            return
        self._caches.observe(PODS, pod)
        bound = meta.uid(pod) == member.uid and pod["spec"].get("nodeName") == node
        ended(member, "" if bound else trouble)

    # -- evictions -------------------------------------------------------------------------------------

    def evict(
        self, members: Collection[Member], scheduler: str, message: str, still_there: Callable[[Member], bool]
    ) -> None:
        """Mark pods as targets of disruption, then delete them with their grace; tried until they are gone.

        None is deleted before all are marked: the next process sees by condition and annotation which pods to evict.
        """
        word = Word("DisruptionTarget", "True", "PreemptionByScheduler", message)
        unmarked = {member.id: None for member in members}

        async def mark(member: Member) -> None:
            if not meta.condition_is(member.obj, word.type):
                await self._patch(PODS, member.obj, {word.type: word}, {}, {EVICTED_BY: scheduler})

        async def delete(member: Member) -> None:
            if not meta.deleting(member.obj):
                options = DeleteOptions(uid=member.uid)
                await self._verbs.delete(PODS, meta.name(member.obj), meta.namespace(member.obj), options)

        def marked(member: Member) -> None:
            unmarked.pop(member.id, None)
            if not unmarked:
                for one in members:
                    self._insist(one, delete, still_there, lambda _: None)

        for member in members:
            self._insist(member, mark, still_there, marked)

    def _insist(
        self,
        member: Member,
        act: Callable[[Member], Awaitable[None]],
        still_there: Callable[[Member], bool],
        done: Callable[[Member], None],
        retry: float = _FIRST_RETRY_SECONDS,
    ) -> None:
        """Do something to a pod, again and again until it is done or the pod is gone."""

        async def attempt() -> None:
            try:
                if still_there(member):
                    await act(member)
            except (ApiError, OSError, TimeoutError) as error:
                if not isinstance(error, ApiError) or error.code != 404:
                    log.warning("evicting pod %s: %s", member.key, error or type(error).__name__)
                    self._later(retry, attempt_again)
                    return
            done(member)

        async def attempt_again() -> None:
            self._insist(member, act, still_there, done, min(retry * 2, _LAST_RETRY_SECONDS))

        self._others.submit(attempt)

    # -- conditions ------------------------------------------------------------------------------------

    def say(self, resource: Resource, obj: Object, *words: Word, **fields: Any) -> bool:
        """Make the status of an object say this now; False if it already does."""
        return self._say(resource, obj, words, fields, 0.0)

    def say_later(self, resource: Resource, obj: Object, *words: Word) -> bool:
        """The same, when bindings are through."""
        return self._say(resource, obj, words, {}, self._clock.now())

    def _say(
        self, resource: Resource, obj: Object, words: Collection[Word], fields: Mapping[str, Any], patient: float
    ) -> bool:
        note = self._notes.get(meta.uid(obj))
        fresh = [word for word in words if _said(note, obj, word.type) != word]
        changed = {name: value for name, value in fields.items() if _field(note, obj, name) != value}
        if not fresh and not changed:
            return False
        if note is None:
            note = self._notes[meta.uid(obj)] = _Note(resource, obj)
        fresh_note = not note.words and not note.fields and not note.flying and not note.flying_fields
        if fresh_note and patient:
            note.patient = patient
            if not self._patient:
                self._glad.set()
            self._patient.append(note)
        elif fresh_note or (note.patient and not patient):
            self._submit(note)
        note.obj = obj
        note.words |= {word.type: word for word in fresh}
        note.fields |= changed
        return bool(fresh)

    def _submit(self, note: _Note) -> None:
        """A group's reason is not to wait for those of the thousand pods of another."""
        note.patient = 0.0
        self._others.submit(lambda: self._write(note, _FIRST_RETRY_SECONDS), can_wait=note.resource is PODS)

    async def _tell_good_news(self) -> None:
        while True:
            await self._glad.wait()
            note = self._patient.popleft()
            if not self._patient:
                self._glad.clear()
            latest = note.patient + _OLD_NEWS_SECONDS
            if note.patient:
                await self._bindings.courtesy(note.patient + _GOOD_NEWS_SECONDS, latest)
            if not note.patient:
                continue  # bad news took it along
            if self._bindings.idle or self._clock.now() >= latest:
                self._submit(note)
            else:
                note.patient = 0.0
                await self._write(note, _FIRST_RETRY_SECONDS)

    def said(self, obj: Object, type_: str) -> Word | None:
        """A condition as an object has it or is about to have it."""
        return _said(self._notes.get(meta.uid(obj)), obj, type_)

    async def _write(self, note: _Note, retry: float) -> None:
        """Write all that an object should say, until there is nothing new."""
        while note.words or note.fields:
            note.flying, note.words = note.words, {}
            note.flying_fields, note.fields = note.fields, {}
            try:
                if not self._outdated(note):
                    await self._patch(note.resource, note.obj, note.flying, note.flying_fields)
            except (ApiError, OSError, TimeoutError) as error:
                if isinstance(error, ApiError) and (error.code in (404, 422) or self._outdated(note)):
                    log.debug("status of %s %s: %s", note.resource.kind, meta.key(note.obj), error)
                    continue
                note.words = note.flying | note.words
                note.fields = note.flying_fields | note.fields
                self._later(retry, lambda: self._write(note, min(retry * 2, _LAST_RETRY_SECONDS)))
                return
        self._notes.pop(meta.uid(note.obj), None)

    def _outdated(self, note: _Note) -> bool:
        """Whether what was to be said is no longer so: the object is another one, or the pod has found its place."""
        known = self._caches.of(note.resource).get(meta.key(note.obj))
        if known is None or meta.uid(known) != meta.uid(note.obj):
            return True
        return note.resource is PODS and bool(known["spec"].get("nodeName"))

    async def _patch(
        self,
        resource: Resource,
        obj: Object,
        words: Mapping[str, Word],
        fields: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        known = self._caches.of(resource).get(meta.key(obj)) or obj
        status = {name: value or None for name, value in fields.items()}
        status["conditions"] = [self._condition(known, word) for word in words.values()]
        metadata: Object = {"uid": meta.uid(obj)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        if "PodScheduled" in words:
            # A binding must win over an explanation that was written at the same time.
            metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
        patched = await self._verbs.patch(
            resource,
            meta.name(obj),
            Patch(PatchType.STRATEGIC, {"metadata": metadata, "status": status}),
            meta.namespace(obj),
            "status",
        )
        self._caches.observe(resource, patched)

    def _condition(self, known: Object, word: Word) -> Object:
        fresh = meta.condition(word.type, word.status, word.reason, word.message, self._clock.now())
        old = meta.find_condition(known, word.type)
        if old is not None and old["status"] == word.status and old.get("lastTransitionTime"):
            fresh["lastTransitionTime"] = old["lastTransitionTime"]
        return fresh

    def _later(self, seconds: float, job: Job) -> None:
        async def wait() -> None:
            await self._clock.sleep(seconds)
            self._others.submit(job)

        task = asyncio.get_running_loop().create_task(wait(), name="scheduler-retry")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


def _said(note: _Note | None, obj: Object, type_: str) -> Word | None:
    """What an object says, or is about to say, under a condition type."""
    if note is not None:
        word = note.words.get(type_) or note.flying.get(type_)
        if word is not None:
            return word
    found = meta.find_condition(obj, type_)
    if found is None:
        return None
    return Word(type_, found["status"], found.get("reason") or "", found.get("message") or "")


def _field(note: _Note | None, obj: Object, name: str) -> Any:
    if note is not None:
        for fields in (note.fields, note.flying_fields):
            if name in fields:
                return fields[name]
    return (obj.get("status") or {}).get(name) or ""
