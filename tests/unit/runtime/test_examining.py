"""What `echelon doctor` looks for on a cluster, as the installation says that it was made."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import DEPLOYMENTS, Object
from echelon.api.verbs import ObjectList
from echelon.deploy.admission.kinds import POLICY_KINDS
from echelon.deploy.cluster_facts import ClusterFacts
from echelon.deploy.objects.installation import objects
from echelon.deploy.objects.programs import policies_left_out
from echelon.deploy.options import InstallOptions
from echelon.runtime.install.examining import _missing_policies

FACTS = ClusterFacts("v1.37.1", frozenset((one.api_version, one.plural) for one in POLICY_KINDS))


class WithoutPolicies:
    async def list(self, *args: Any, **kwargs: Any) -> ObjectList:
        return ObjectList([], "1")


def deployments(options: InstallOptions) -> list[Object]:
    return [one for one in objects(options) if one["kind"] == DEPLOYMENTS.kind]


async def missing(found: list[Object]) -> set[str]:
    names = await _missing_policies(WithoutPolicies(), FACTS, found)  # type: ignore[arg-type]
    return {name.partition("/")[0] for name in names}


@pytest.mark.parametrize(
    ("options", "left_out", "kinds"),
    [
        (InstallOptions(), [], {one.kind for one in POLICY_KINDS}),
        (
            InstallOptions(validating_policies=False, mutating_policies=False),
            ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"],
            set[str](),
        ),
        (
            InstallOptions(mutating_policies=False),
            ["MutatingAdmissionPolicy"],
            {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
        ),
    ],
    ids=["all", "none", "some"],
)
async def test_policies_that_an_installation_was_made_without_are_not_missed(
    options: InstallOptions, left_out: list[str], kinds: set[str]
) -> None:
    found = deployments(options)
    assert [list(policies_left_out(one)) for one in found] == [left_out, left_out]
    assert await missing(found) == kinds


async def test_an_installation_that_says_nothing_of_policies_has_them_all() -> None:
    found = deployments(InstallOptions())
    for one in found:
        del one["metadata"]["annotations"]
    assert await missing(found) == {one.kind for one in POLICY_KINDS}
