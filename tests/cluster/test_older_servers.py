"""`echelon install` on real servers of older releases, as they come: no gate set, nothing switched on or off.

`tools/controlplane/build 1.32` builds the oldest on which Echelon works; 1.31 is there to be refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, EVENTS, JOB_SETS, JOBS, OWN_POD_GROUPS, TRAIN_JOBS, Object
from echelon.api.verbs import Patch, PatchType, Verbs
from echelon.client.http import HttpVerbs
from echelon.deploy.cluster_facts import OLDEST_SERVER
from echelon.deploy.options import InstallOptions
from tests.admission.cases import recorded
from tests.admission.judge import refused_by_definition
from tests.admission.real_server import TAKEN, RealServer

from . import audit
from .controlplane import ControlPlane, GateSet, control_plane, home, missing, version_of
from .gangs import count_bound
from .installed_programs import kubelet_for
from .installing import REFUSED, everything, refusals, run
from .job_objects import jobset, our_runtime, plain_job, train_job
from .logins import client_of
from .shipped_roles import NAMESPACE
from .test_any_cluster import (
    RUNTIME,
    WORK,
    a_work_place,
    alive,
    gang_of_two,
    groups_in,
    remove_work,
    submit_labelled,
)
from .waiting import eventually

pytestmark = pytest.mark.cluster_long
OLDEST = ".".join(map(str, OLDEST_SERVER))
TOO_OLD = "1.31"
#: The group of whoever installs, in tests.
ADMINISTRATORS = "system:masters"
#: Kinds that a program asks for and can do without, by group: devices, and levels of topology that neighbours list.
DEVICES = {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"}
CAN_LACK = {"resource.k8s.io": DEVICES, "kueue.x-k8s.io": {"topologies"}, "kai.scheduler": {"topologies"}}
#: What a release does not serve of resource.k8s.io/v1.
LACKING = {"1.32": DEVICES, "1.34": {"devicetaintrules"}}


def _skip_unless_built(release: str) -> None:
    if absent := missing(release):
        built = f"`tools/controlplane/build {release}` builds it where Go is present"
        pytest.skip(f"NO CONTROL PLANE {release} in {home(release)}, {', '.join(absent)} missing: {built}")


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    release: str = request.param
    _skip_unless_built(release)
    with control_plane(
        tmp_path_factory.mktemp("older"),
        strict=True,
        gates=GateSet.DEFAULT,
        audit=audit.policy(NAMESPACE, ADMINISTRATORS),
        release=release,
        manager=release != TOO_OLD,
    ) as running:
        yield running


async def there(plane: ControlPlane) -> set[str]:
    return await everything(plane, mutating=False)


@pytest.mark.parametrize("plane", [OLDEST, "1.34"], indirect=True)
async def test_an_older_server_takes_the_installation_and_its_programs_do_their_work(
    plane: ControlPlane, tmp_path: Path
) -> None:
    log = audit.AuditLog(plane.audit_log)
    async with client_of(plane.kubeconfig) as verbs:
        await a_work_place(verbs)
        before, refused = await there(plane), await refusals(plane)
        await _the_doctor_says_what_fits(plane)
        async with kubelet_for(verbs, plane, tmp_path) as programs:
            log.more()
            await _it_is_installed_without_what_the_server_lacks(plane)
            meanwhile = log.more()
            assert _refused_writes(meanwhile) == []
            await _gangs_of_all_kinds_are_placed(verbs)
            await _what_is_invalid_is_told_and_not_acted_on(verbs)
            code, said = await run(plane, "install")
            assert code == 0, said
            assert re.search(r"^\d+ unchanged$", said, re.MULTILINE), said
            code, said = await run(plane, "doctor")
            assert code == 0, said
            alive(programs)
            assert not [one.said() for one in programs.values() if REFUSED.search(one.said())]
            assert await refusals(plane) == refused, "somebody was refused something"
            _programs_asked_for_nothing_that_they_need_and_is_not_there([*meanwhile, *log.more()], plane.release)
            await remove_work(verbs)
        # The programs have ended: a kubelet ends them before their pods are gone, for which `uninstall` waits.
        code, said = await run(plane, "uninstall", "--timeout", "60")
        assert code == 0, said
        assert await there(plane) == before, said


async def _the_doctor_says_what_fits(plane: ControlPlane) -> None:
    code, said = await run(plane, "doctor")
    assert code == 0, said
    assert f"v{version_of(plane.release)} (oldest that works: {OLDEST})" in said
    assert "scheduling.echelon.dev, because the server does not serve workloads in" in said
    assert "the server does not serve MutatingAdmissionPolicy" in said
    assert "no ValidatingAdmissionPolicy, which can end a server before 1.36" in said
    devices = "resource.k8s.io/v1 is not served"
    assert (devices in said) == (LACKING[plane.release] == DEVICES), said


async def _it_is_installed_without_what_the_server_lacks(plane: ControlPlane) -> None:
    code, said = await run(plane, "install")
    assert code == 0, said
    assert "note      the server does not serve MutatingAdmissionPolicy: " in said
    assert "note      no ValidatingAdmissionPolicy, which can end a server before 1.36" in said
    assert f"pod template with {POD_GROUP}" in said
    assert "AdmissionPolicy/" not in said
    assert "ready     Deployment/echelon-controllers" in said


def _refused_writes(asked: list[audit.Asked]) -> list[audit.Asked]:
    """Controllers of the server have the same rights and conflict among themselves, which is not what is looked for."""
    writes = [one for one in asked if one.verb in ("create", "patch", "update", "delete")]
    assert writes
    return [one for one in writes if one.code >= 400 and one.code != 409]


async def _gangs_of_all_kinds_are_placed(verbs: HttpVerbs) -> None:
    await verbs.create(CLUSTER_TRAINING_RUNTIMES, our_runtime(RUNTIME))
    await submit_labelled(verbs, "mine", 3)
    await verbs.create(JOB_SETS, gang_of_two("js"), WORK)
    trained = train_job("tj", RUNTIME, resourcesPerNode={"requests": {"cpu": "1"}})
    await verbs.create(TRAIN_JOBS, trained, WORK)
    await verbs.create(JOBS, annotated_job("labelled", 2, {POD_GROUP: "labelled"}), WORK)
    await verbs.create(JOBS, annotated_job("large", 40, {POD_GROUP: "large"}), WORK)
    await verbs.create(JOBS, annotated_job("bare", 2, {}), WORK)
    for prefix, count in {"mine-": 3, "js-": 4, "tj-": 2, "labelled-": 2}.items():
        await eventually(functools.partial(count_bound, verbs, WORK, prefix), count)
    assert len(await groups_in(verbs, OWN_POD_GROUPS)) == 5
    await eventually(lambda: _is_told_to_wait(verbs, "large"))
    assert await count_bound(verbs, WORK, "large-") == 0
    # No policy labels a Job here, so it says itself which group its pods join; one that does not is told.
    await eventually(lambda: _events_of(verbs, "bare", "GroupLabelMissing"), 1)


def annotated_job(name: str, pods: int, labels: dict[str, str]) -> Object:
    job = plain_job(name, pods, **{JOB_SCHEDULING: '{"schedulingPolicy": {"gang": {}}}'})
    job["spec"]["template"]["metadata"] = {"labels": labels}
    return job


async def _is_told_to_wait(verbs: Verbs, group: str) -> bool:
    found = [one for one in (await verbs.list(OWN_POD_GROUPS, WORK)).items if meta.name(one) == group]
    known = meta.find_condition(found[0], "PodGroupInitiallyScheduled") if found else None
    return known is not None and known["status"] == "False"


async def _events_of(verbs: Verbs, name: str, reason: str) -> int:
    events = (await verbs.list(EVENTS, WORK)).items
    return len([one for one in events if one["involvedObject"]["name"] == name and one["reason"] == reason])


async def _what_is_invalid_is_told_and_not_acted_on(verbs: Verbs) -> None:
    """Rules of the definition refuse it; what they cannot say is the controller's."""
    with pytest.raises(ApiError, match=r"spec\.network") as caught:
        await verbs.patch(JOB_SETS, "js", Patch(PatchType.MERGE, {"spec": {"network": {"subdomain": "other"}}}), WORK)
    assert caught.value.code == 422
    await verbs.create(JOB_SETS, jobset("wrong", coordinator={"replicatedJob": "workers", "jobIndex": 7}), WORK)
    await eventually(lambda: _events_of(verbs, "wrong", "InvalidSpec"), 1)
    assert not [one for one in (await verbs.list(JOBS, WORK)).items if meta.name(one).startswith("wrong")]


def _programs_asked_for_nothing_that_they_need_and_is_not_there(asked: list[audit.Asked], release: str) -> None:
    ours = [one for one in asked if one.account in ("echelon-scheduler", "echelon-controllers")]
    assert {one.account for one in ours} == {"echelon-scheduler", "echelon-controllers"}
    assert not [one for one in ours if one.forbidden or one.code in (400, 401, 403, 405, 406, 415, 422)]
    lists = [one for one in ours if one.code == 404 and one.verb in ("list", "watch")]
    needed = [one for one in lists if one.resource not in CAN_LACK.get(one.group, ())]
    assert needed == []
    assert {one.resource for one in lists if one.group == "resource.k8s.io"} == LACKING[release]


@pytest.mark.parametrize("plane", [OLDEST, "1.34"], indirect=True)
async def test_definitions_refuse_and_take_on_an_older_server_what_they_do_on_the_newest(
    plane: ControlPlane, tmp_path: Path
) -> None:
    cases = recorded(tmp_path)
    async with client_of(plane.kubeconfig) as verbs:
        server = RealServer(verbs, InstallOptions(validating_policies=False, mutating_policies=False))
        await server.prepare(cases.writes, ())
        verdicts = [await server.judge(case) for case in cases.writes]
    known = [one for one in verdicts if one.case.problems and refused_by_definition(one.case)]
    good = [one for one in verdicts if not one.case.problems]
    print(f"{plane.release}: {sum(one.by != TAKEN for one in known)} of {len(known)} refused by definitions")
    print(f"{plane.release}: {sum(one.by == TAKEN for one in good)} of {len(good)} right writes taken")
    assert len(known) > 80
    assert len(good) > 70
    assert [(one.case.test, one.case.problems) for one in known if one.by == TAKEN] == []
    assert [(one.case.test, one.said) for one in good if one.by != TAKEN] == []


@pytest.mark.parametrize("plane", [TOO_OLD], indirect=True)
async def test_a_server_that_is_too_old_is_refused_by_one_line_and_nothing_is_changed(plane: ControlPlane) -> None:
    log = audit.AuditLog(plane.audit_log)
    before = await there(plane)
    log.more()
    code, said = await run(plane, "install")
    assert code == 2
    (line,) = [one for one in said.splitlines() if not one.startswith("installing Echelon")]
    assert f"the server is v{version_of(TOO_OLD)}, and Echelon needs {OLDEST} or newer" in line
    code, said = await run(plane, "doctor")
    assert code == 1
    assert f"v{version_of(TOO_OLD)} is older than {OLDEST}" in said
    reviews = ("selfsubjectaccessreviews", "subjectaccessreviews")
    written = [one for one in log.more() if one.account == "admin" and one.verb not in ("get", "list", "watch")]
    assert [one for one in written if one.resource not in reviews] == []
    assert await there(plane) == before
