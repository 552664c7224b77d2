"""Devices of pods that are being placed: chosen, written before the pods are bound, given back if that fails.

A gang gets the devices of all its pods or none: its first pod is bound when the last of its claims is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ...api.objects.subtree import mapping
from ...api.scheme import Object
from ..devices.allotments import ClaimUse, allocation_of
from ..intake.group_tree import Member
from ..intake.translate import Translator
from ..reporting.claim_writes import ClaimWrite, ClaimWriter


class DevicePreparation:
    """Claims of pods whose bindings are not answered yet."""

    def __init__(self, translator: Translator, writer: ClaimWriter) -> None:
        self._translator = translator
        self._claims = translator.claims
        self._writer = writer
        #: What was written for each member that is being bound.
        self._written: dict[int, list[ClaimWrite]] = {}

    def uses(self, assignment: Mapping[int, str]) -> list[ClaimUse]:
        """The claims that members with these places use; the decision has made sure that there are devices."""
        if not self._claims.in_use:
            return []
        members = self._translator.members
        places = {members[number].uid: node for number, node in assignment.items()}
        found = self._claims.plan(places)
        assert not isinstance(found, str), f"{found} has not the devices that were decided on"
        return found

    def prepare(
        self,
        members: Collection[Member],
        uses: Collection[ClaimUse],
        bind: Callable[[Collection[Member]], None],
        refused: Callable[[Member, str], None],
    ) -> None:
        """Write the claims of these members, then `bind` them; or `refused` for each, with nothing left behind."""
        writes = self._writer.writes_of(uses, self._allocation)

        def done(trouble: str) -> None:
            if not trouble:
                numbers = {member.uid: member.id for member in members}
                for one in writes:
                    for uid in one.consumers.keys() & numbers.keys():
                        self._written.setdefault(numbers[uid], []).append(one)
                bind(members)
                return
            chosen = [use.claim.key for use in uses if use.allotment is not None]
            self._translator.take_back_devices(chosen, members)
            for member in members:
                refused(member, trouble)

        if writes:
            self._writer.prepare(writes, done)
        else:
            bind(members)

    def bound(self, member: Member) -> None:
        self._written.pop(member.id, None)

    def gives_back(self, member: Member, then: Callable[[], None]) -> bool:
        """A member was not bound: its claims lose it, and their devices if nobody else uses them.

        False if there is nothing to give back; else `then` is called when that is done.
        """
        written = self._written.pop(member.id, ())
        own = [ClaimWrite(one.claim, None, {member.uid: one.consumers[member.uid]}) for one in written]
        if own:
            self._writer.give_back(own, then)
        return bool(own)

    def has_idle(self, members: Iterable[Member]) -> bool:
        """Whether members without a place have devices that nobody else uses."""
        return self._claims.in_use and bool(self._claims.idle([member.uid for member in members]))

    def release(self, members: Iterable[Member]) -> None:
        """Take devices from members that cannot be placed where these are."""
        claims = self._claims.idle([member.uid for member in members])
        keys = [claim.key for claim in claims]
        writes = [
            ClaimWrite(
                claim.obj,
                mapping(claim.obj, "status", "allocation"),
                {consumer.uid: {} for consumer in claim.status.reserved_for},
            )
            for claim in claims
        ]
        self._translator.set_leaving(keys, leaving=True)
        self._writer.give_back(writes, lambda: self._translator.set_leaving(keys, leaving=False))

    def _allocation(self, use: ClaimUse) -> Object | None:
        return None if use.allotment is None else allocation_of(use.allotment, self._claims.class_of)
