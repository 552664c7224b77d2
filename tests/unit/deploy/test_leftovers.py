"""What an earlier installation has left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, ROLES, Object
from echelon.deploy.admission.kinds import MUTATING_POLICIES, POLICY_KINDS
from echelon.deploy.leftovers import left_over, left_over_leases
from echelon.deploy.objects.installation import objects, resource_of
from echelon.deploy.options import PARTS, InstallOptions

WHOLE = InstallOptions(monitoring=True)
NO_POLICIES = replace(WHOLE, validating_policies=False, mutating_policies=False)


def made(options: InstallOptions) -> list[Object]:
    kept = (CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES)
    return [one for one in objects(options) if resource_of(one) not in kept]


def names(found: list[Object]) -> set[str]:
    return {f"{one['kind']}/{meta.name(one)}" for one in found}


@pytest.mark.parametrize("parts", [PARTS, ("scheduler",), ("controllers",)])
@pytest.mark.parametrize("later", [WHOLE, NO_POLICIES], ids=["policies", "no policies"])
def test_nothing_is_left_of_the_same_installation_and_of_its_other_part(
    parts: tuple[str, ...], later: InstallOptions
) -> None:
    assert left_over(made(later), replace(later, parts=parts)) == []


@pytest.mark.parametrize("parts", [PARTS, ("scheduler",), ("controllers",)])
def test_policies_that_the_server_does_not_take_are_left_whatever_is_installed(parts: tuple[str, ...]) -> None:
    there = made(WHOLE)
    found = left_over(there, replace(NO_POLICIES, parts=parts))
    assert found == [one for one in there if resource_of(one) in POLICY_KINDS]
    assert len(found) > 10


def test_what_belongs_to_controllers_that_run_no_more_is_left() -> None:
    found = names(left_over(made(WHOLE), replace(WHOLE, controllers=("trainjob", "job-groups"))))
    assert f"{MUTATING_POLICIES.kind}/jobset-defaults.echelon.dev" in found
    assert not any("trainjob" in name or "Deployment" in name for name in found)
    assert "PrometheusRule/echelon" in names(left_over(made(WHOLE), replace(WHOLE, monitoring=False)))


def test_leases_of_other_names_are_left_and_those_of_the_other_part_are_not() -> None:
    roles = [one for one in made(WHOLE) if resource_of(one) == ROLES]
    assert left_over_leases(roles, WHOLE) == []
    for role in roles:
        role["rules"][1]["resourceNames"] = [f"{meta.name(role)}-other"]
    assert left_over_leases(roles, WHOLE) == ["echelon-controllers-other", "echelon-scheduler-other"]
    assert left_over_leases(roles, replace(WHOLE, parts=("scheduler",))) == ["echelon-scheduler-other"]
