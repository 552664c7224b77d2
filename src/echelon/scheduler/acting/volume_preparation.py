"""Volumes of pods that are being placed: chosen, written, and awaited before the first pod of a gang is bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..intake.group_tree import Member
from ..intake.translate import Translator
from ..reporting.volume_writes import VolumeWriter
from ..volumes.late_binding import VolumeChoice


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The claims of pods with places that are not bound yet."""

    chosen: tuple[VolumeChoice, ...] = ()
    #: Those that are being bound for other pods already.
    awaited: tuple[VolumeChoice, ...] = ()


class VolumePreparation:
    """Claims that get their volume with the place of their pod."""

    def __init__(self, translator: Translator, writer: VolumeWriter) -> None:
        self._translator = translator
        self._writer = writer

    def plan(self, assignment: Mapping[int, str]) -> VolumePlan:
        """How the claims of members with these places get volumes; the decision has made sure that they can."""
        members, view = self._translator.members, self._translator.view
        if not self._translator.volumes.in_use:
            return VolumePlan()
        places = {members[number].uid: view.node(node) for number, node in assignment.items()}
        found = self._translator.volumes.plan({uid: node for uid, node in places.items() if node is not None})
        assert not isinstance(found, str), f"{found} lacks a volume that was decided on"
        late = self._translator.volumes.late
        chosen = tuple(one for one in found if not late.is_under_way(one))
        return VolumePlan(chosen, tuple(one for one in found if late.is_under_way(one)))

    def prepare(
        self,
        members: Collection[Member],
        plan: VolumePlan,
        bind: Callable[[Collection[Member]], None],
        refused: Callable[[Member, str], None],
    ) -> None:
        """Have these claims bound, then `bind` the members; or `refused` for each, with nothing left behind."""

        def wanted() -> bool:
            return any(member.id in self._translator.members for member in members)

        def done(trouble: str) -> None:
            if not trouble:
                bind(members)
                return
            self._translator.give_up_volumes([one.claim.key for one in plan.chosen], members)
            for member in members:
                refused(member, trouble)

        if plan.chosen or plan.awaited:
            self._writer.prepare(plan.chosen, plan.awaited, wanted, done)
        else:
            bind(members)
