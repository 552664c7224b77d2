"""Policies on a kind that somebody else has defined, without our rules and defaults, and on what was stored before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from echelon.api.errors import ApiError
from echelon.api.schema import crd_rules
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, JOB_SETS, NAMESPACES, Object
from echelon.api.verbs import Patch, PatchType, WriteOptions
from echelon.client.http import HttpVerbs
from echelon.deploy.admission.admission_policies import policy_objects
from echelon.deploy.objects.installation import resource_of
from echelon.deploy.options import InstallOptions
from tests.unit.api.rules.builders import replicated

from .controlplane import ControlPlane
from .logins import client_of
from .own_planes import own_plane
from .waiting import eventually

pytestmark = pytest.mark.cluster
SPACE = "work"
DRY = WriteOptions(dry_run=True)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "upstream", manager=False, strict=False) as running:
        yield running


@pytest.fixture
async def verbs(plane: ControlPlane) -> AsyncIterator[HttpVerbs]:
    async with client_of(plane.kubeconfig) as client:
        yield client


def jobset(name: str, **spec: object) -> Object:
    """With less than our own server would store."""
    sent = {"network": {"subdomain": "s"}, "failurePolicy": {"rules": []}, "replicatedJobs": [replicated("a")]}
    return {"metadata": {"name": name}, "spec": {**sent, **spec}}


async def test_what_was_stored_before_the_policies_can_be_changed_and_new_objects_are_complete(
    verbs: HttpVerbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crd_rules, "complete", lambda resource, root: None)
    (theirs,) = (one for one in custom_resource_definitions() if one["metadata"]["name"] == JOB_SETS.qualified)
    await verbs.create(CUSTOM_RESOURCE_DEFINITIONS, theirs)
    await verbs.create(NAMESPACES, {"metadata": {"name": SPACE}})

    async def answers(obj: Object, options: WriteOptions = DRY) -> int:
        try:
            await verbs.create(JOB_SETS, obj, SPACE, options)
        except ApiError as error:
            return error.code
        return 200

    await eventually(lambda: answers(jobset("before"), WriteOptions()), 200)
    assert (
        "completionMode"
        not in (await verbs.get(JOB_SETS, "before", SPACE))["spec"]["replicatedJobs"][0]["template"]["spec"]
    )
    foreign = InstallOptions(foreign_definitions=frozenset((JOB_SETS.qualified,)), controllers=("jobset",))
    for one in policy_objects(foreign):
        applied = Patch(PatchType.APPLY, one)
        await verbs.patch(
            resource_of(one), one["metadata"]["name"], applied, options=WriteOptions(field_manager="test")
        )
    await eventually(lambda: answers(jobset("bad", managedBy="nobody")), 422)
    await eventually(lambda: answers(jobset("good")), 200)

    for change in ({"suspend": True}, {"suspend": False}, {"ttlSecondsAfterFinished": 5}):
        await verbs.patch(JOB_SETS, "before", Patch(PatchType.MERGE, {"spec": change}), SPACE)
    with pytest.raises(ApiError, match=r"spec\.network: Value is immutable"):
        await verbs.patch(JOB_SETS, "before", Patch(PatchType.MERGE, {"spec": {"network": {"subdomain": "t"}}}), SPACE)

    made = await verbs.create(JOB_SETS, jobset("after"), SPACE)
    assert made["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": "s"}
    assert made["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    again = jobset("after", ttlSecondsAfterFinished=7)
    again["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    assert (await verbs.update(JOB_SETS, again, SPACE))["spec"] == {**made["spec"], "ttlSecondsAfterFinished": 7}
