"""The shipped roles are enough, and no right in them is too much: without any single one something is refused.

The steps of `rights_steps` run under the roles, with the audit log as the witness.  A right that no step uses is a
finding.  The matrix then takes rights away one by one and repeats the step that uses it until the server refuses it.
Everything is derived from the roles that are installed, so that a new rule is a new row.

Both are done where all groups are native and where all are our own, since the roles differ.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CLUSTER_ROLES, LEASES, ROLES, Object, Resource
from echelon.api.verbs import Verbs
from echelon.client.group_discovery import group_support, speaking
from echelon.deploy.options import LEASE_NAMESPACE, PARTS

from .audit import Asked, AuditLog
from .conftest import gate_sets
from .controlplane import ControlPlane, GateSet
from .installing import run
from .logins import client_of
from .own_planes import own_plane
from .replicas import Kubelets, kubelets_for
from .rights import Right, rights_of, without
from .rights_steps import STEPS, furnish, furnish_runtimes, new_place

START = "start"
_READS = ("list", "watch")
#: Rights that the server asks for while it admits another request, so that the log does not show their use.
_ADMISSION = {
    "jobsets/finalizers": "jobset_gang",
    "trainjobs/finalizers": "train",
    "jobs/finalizers": "job_group",
    "resourceclaims/binding": "devices",
}
#: Resources of which some servers never ask: with a beta gate kube-controller-manager takes back the start time of a
#: suspended Job itself; without any, there is no right to bind claims apart, and no rule that taints devices.
_UNASKED = {GateSet.ALL: ("jobs/status",), GateSet.NONE: ("resourceclaims/binding", "devicetaintrules")}
_REFUSED_SECONDS = 90.0
_PLACES = itertools.count()


@dataclass(frozen=True)
class Granted:
    """A right, and the role that grants it."""

    part: str
    kind: Resource
    right: Right

    @property
    def account(self) -> str:
        return f"echelon-{self.part}"

    @property
    def namespace(self) -> str:
        return LEASE_NAMESPACE if self.kind is ROLES else ""

    def __str__(self) -> str:
        return f"{self.part}: {self.right}"


@dataclass
class Stage:
    #: Reads and makes groups in the form that the server has.
    verbs: Verbs
    gates: GateSet
    kubelets: Kubelets
    log: AuditLog
    #: Numbers that no namespace has had: that of the test before may still be on its way out.
    places: Iterator[int] = field(default_factory=lambda: _PLACES)

    async def granted(self) -> list[Granted]:
        found: list[Granted] = []
        for part, kind in itertools.product(PARTS, (CLUSTER_ROLES, ROLES)):
            namespace = LEASE_NAMESPACE if kind is ROLES else ""
            role = await self.verbs.get(kind, f"echelon-{part}", namespace)
            found += (Granted(part, kind, right) for right in rights_of(role))
        return [one for one in found if one.right.resource not in _UNASKED[self.gates]]

    async def run(self, step: str) -> None:
        if step == START:
            for part in PARTS:
                await self.restart(part)
                await self.kubelets.complete(part, 1)
            return
        place = await new_place(self.verbs, f"{step.replace('_', '-')}-{next(self.places)}")
        try:
            await STEPS[step](place)
        finally:
            await place.clear()

    async def restart(self, part: str) -> None:
        """As if it was the first there ever was: there is no lease."""
        for replica in self.kubelets.running(part):
            replica.send(signal.SIGKILL)
            await replica.program.process.wait()
        for lease in (await self.verbs.list(LEASES, LEASE_NAMESPACE)).items:
            name = lease["metadata"]["name"]
            if name.startswith(f"echelon-{part}"):
                await self.verbs.delete(LEASES, name, LEASE_NAMESPACE)

    # -- rights that are taken away ----------------------------------------------------------------------

    async def refused_without(self, granted: Granted, step: str) -> bool:
        """Whether something is refused when a step runs without a right."""
        name = f"echelon-{granted.part}"
        role = await self.verbs.get(granted.kind, name, granted.namespace)
        await self._set_rules(granted, without(role, granted.right))
        self.log.more()
        if step == START:
            await self.restart(granted.part)
        running = asyncio.create_task(_quietly(self.run(step)) if step != START else asyncio.sleep(0))
        try:
            return await self._refusal(granted)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self._set_rules(granted, role)
            if step != START:
                await self.kubelets.complete(granted.part, 1)

    async def done_late_at_the_start(self, granted: Granted, step: str) -> bool:
        """What a busy machine does late at the start seems to be done first by the step after it."""
        return step == next(iter(STEPS)) and await self.refused_without(granted, START)

    async def _refusal(self, granted: Granted) -> bool:
        deadline = time.monotonic() + _REFUSED_SECONDS
        while time.monotonic() < deadline:
            if any(_shows(one, granted) for one in self.log.more()):
                return True
            await asyncio.sleep(0.2)
        return False

    async def _set_rules(self, granted: Granted, role: Object) -> None:
        name = f"echelon-{granted.part}"
        now = await self.verbs.get(granted.kind, name, granted.namespace)
        await self.verbs.update(granted.kind, {**now, "rules": role["rules"]}, granted.namespace)


def _shows(one: Asked, granted: Granted) -> bool:
    """Whether a request was refused for want of this right."""
    if one.account != granted.account:
        return False
    if granted.right.resource == "resourceclaims/binding":
        return one.resource == "resourceclaims/status" and one.code == 422
    return one.code == 403 and (granted.right.resource in _ADMISSION or one.right == granted.right)


async def _quietly(step: Awaitable[None]) -> None:
    with suppress(ApiError, AssertionError, TimeoutError):
        await step


def used_by(asked: list[Asked]) -> set[tuple[str, Right]]:
    return {(one.account, one.right) for one in asked if one.resource}


@pytest.fixture(scope="module")
def audited_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "audited", gates=request.param) as plane:
        yield plane


@pytest.fixture
async def stage(audited_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Stage]:
    async with client_of(audited_plane.kubeconfig) as verbs:
        with suppress(ApiError):
            await furnish(verbs)
        code, said = await run(audited_plane, "install", "--no-wait", "--replicas", "1")
        assert code == 0, said
        with suppress(ApiError):
            await furnish_runtimes(verbs)
        async with kubelets_for(verbs, audited_plane, tmp_path, "worker-1") as kubelets:
            log = AuditLog(audited_plane.audit_log)
            for part in PARTS:
                await kubelets.complete(part, 1)
            log.more()
            speaker = speaking(verbs, await group_support(verbs, trial=True))
            yield Stage(speaker, audited_plane.gates, kubelets, log)


async def all_steps(stage: Stage) -> tuple[dict[tuple[str, Right], str], list[str]]:
    """Which step uses which right first, and what was refused or not done."""
    users: dict[tuple[str, Right], str] = {}
    refused: list[str] = []
    for step in (START, *STEPS):
        try:
            await stage.run(step)
        except (ApiError, AssertionError, TimeoutError) as error:
            refused.append(f"{step}: {error}")
        asked = stage.log.more()
        for one in used_by(asked):
            users.setdefault(one, step)
        refused += [f"{step}: {one.account} may not {one.verb} {one.resource}" for one in asked if one.code == 403]
    return users, refused


async def findings(stage: Stage, users: dict[tuple[str, Right], str]) -> list[str]:
    granted = await stage.granted()
    return [
        str(one) for one in granted if (one.account, one.right) not in users and one.right.resource not in _ADMISSION
    ]


@pytest.mark.parametrize("audited_plane", [one for one in gate_sets() if one.values[0] in _UNASKED], indirect=True)
@pytest.mark.timeout(1200)
async def test_the_roles_are_enough_and_nothing_in_them_is_unused(stage: Stage) -> None:
    users, refused = await all_steps(stage)
    problems = [*refused, *(f"nothing uses {one}" for one in await findings(stage, users))]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("audited_plane", _UNASKED, indirect=True, ids=str)
@pytest.mark.cluster_long
@pytest.mark.timeout(7200)
async def test_without_any_single_right_something_is_refused(stage: Stage) -> None:
    users, failed = await all_steps(stage)
    assert not failed, "\n".join(failed)
    begin = time.monotonic()
    granted = await stage.granted()

    def step_of(one: Granted) -> str:
        return users.get((one.account, one.right)) or _ADMISSION.get(one.right.resource, "")

    tried, unnoticed = 0, list[str]()
    # Those that are used at the start come last, since each of them is a start.
    for one in sorted(granted, key=lambda one: (step_of(one) == START, one.part)):
        step = step_of(one)
        if step and (await stage.refused_without(one, step) or await stage.done_late_at_the_start(one, step)):
            tried += 1
        else:
            unnoticed.append(f"{one} (step {step or 'none'})")
    print(f"{tried} of {len(granted)} rights, taken away one by one, were missed, in {time.monotonic() - begin:.0f} s")
    assert not unnoticed, "\n".join(unnoticed)
