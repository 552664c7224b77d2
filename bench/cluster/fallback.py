"""Groups of Echelon's own on a control plane without gates, beside native groups on one that has them.

    with all gates ─► PodGroups of scheduling.k8s.io,      pods with spec.schedulingGroup ─► Echelon ┐
    without gates  ─► PodGroups of scheduling.echelon.dev, pods with a label              ─► Echelon ┴► ratio

Both servers run all the time with equal nodes and the same admission plugins, and the two forms take turns.
kube-scheduler has no part in it: without gates it knows no gangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.cluster.controlplane import ControlPlane, GateSet, control_plane
from tests.cluster.group_forms import with_group_kinds

from echelon.api.group_kinds import NATIVE, OWN, labelled, to_own
from echelon.api.scheme import OWN_GROUP_KINDS
from echelon.runtime.plane import run_program

from .contenders import echelon
from .measure import SUBMISSIONS, Runs, submitted, waiting
from .scenarios import SCENARIOS, Scenario
from .stage import Stage, stage

_COMPARED = ("small", "racks")


@dataclass
class Forms:
    """The runs of one scenario, by the form of its groups."""

    title: str
    waiting: Runs = field(default_factory=Runs)
    submitted: Runs = field(default_factory=Runs)


def compare(directory: Path, scale: float, rounds: int, patience: float) -> Iterator[Forms]:
    """One scenario after the other, each on two servers of its own."""
    for name in _COMPARED:
        homes = {form: directory / f"{name}-{form}" for form in (NATIVE, OWN)}
        for home in homes.values():
            home.mkdir()
        with (
            control_plane(homes[NATIVE], manager=False, strict=True) as native,
            control_plane(homes[OWN], manager=False, strict=True, gates=GateSet.NONE) as own,
        ):
            planes = {NATIVE: native, OWN: own}
            yield run_program(_take_turns(planes, SCENARIOS[name](scale), rounds, patience))


async def _take_turns(planes: dict[str, ControlPlane], scenario: Scenario, rounds: int, patience: float) -> Forms:
    written = {NATIVE: scenario, OWN: _in_own_form(scenario)}
    forms = Forms(scenario.title)
    async with AsyncExitStack() as stack:
        stages = {form: await stack.enter_async_context(stage(plane)) for form, plane in planes.items()}
        for at in stages.values():
            await _prepare(at, scenario)
        for number in range(rounds):
            for kind, runs, race, most in (
                ("waiting", forms.waiting, waiting, rounds),
                ("submitted", forms.submitted, submitted, SUBMISSIONS),
            ):
                for form, at in stages.items() if number < most else ():
                    await asyncio.sleep(at.settle)
                    contender = echelon(at.plane, "--groups", form)
                    runs.add(form, await race(at, written[form], contender, f"{kind}-{number}", patience))
    return forms


async def _prepare(at: Stage, scenario: Scenario) -> None:
    await at.nodes(scenario.nodes)
    await at.account("default")
    await with_group_kinds(at.verbs)


def _in_own_form(scenario: Scenario) -> Scenario:
    """The same, written as a user does where there are no native groups."""
    groups = [(OWN_GROUP_KINDS[resource], to_own(group)) for resource, group in scenario.groups]
    return replace(scenario, groups=groups, pods=[labelled(pod) for pod in scenario.pods])
