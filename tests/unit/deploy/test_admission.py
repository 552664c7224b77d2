"""Admission policies say what our own rules say: every case of the tests of rules, evaluated in process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from echelon.api.objects import meta
from echelon.api.rules import jobset_update, trainer
from echelon.api.schema import expressions as expression_language
from echelon.api.schema.crd_rules import CRD_RULES
from echelon.api.scheme import JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES, Object, Resource
from echelon.deploy.admission.admission_policies import policy_objects
from echelon.deploy.options import InstallOptions
from tests.admission.cases import Write, recorded
from tests.admission.documented import is_taken, taken_all_the_same
from tests.admission.judge import compiled, refusals, refused_by_definition

POLICIES = policy_objects(InstallOptions())


def names(options: InstallOptions) -> set[str]:
    return {meta.name(one) for one in policy_objects(options)}


def expressions() -> Iterator[str]:
    for one in POLICIES:
        for part in ("variables", "validations"):
            yield from (each["expression"] for each in one["spec"].get(part) or ())


def test_every_expression_of_a_validating_policy_compiles() -> None:
    found = list(expressions())
    assert len(found) > 300
    for one in found:
        compiled(one)


def test_rules_of_definitions_compile_and_are_about_the_fields_of_our_rules() -> None:
    frozen: dict[Resource, set[str]] = {}
    for kind, found in CRD_RULES.items():
        for rule in found.values():
            assert expression_language.result_type(rule["rule"]) == "BOOL"
        frozen[kind] = {path for path, rule in found.items() if "oldSelf" in rule["rule"]}
    assert frozen[JOB_SETS] == {f"spec.{field}" for field in (*jobset_update.IMMUTABLE, "managedBy")}
    assert frozen[TRAIN_JOBS] == {f"spec.{field}" for field in trainer.IMMUTABLE}
    assert frozen[TRAINING_RUNTIMES] == {f"spec.template.spec.{field}" for field in trainer.IMMUTABLE_TEMPLATE}
    for path, members in (("spec.mlPolicy", trainer.FRAMEWORKS), ("spec.podGroupPolicy", trainer.GANG_SOURCES)):
        assert CRD_RULES[TRAINING_RUNTIMES][path]["message"] == f"only one of {', '.join(members)} may be set"


def test_every_policy_is_bound_and_every_binding_has_its_policy_before_it() -> None:
    seen: set[str] = set()
    for one in POLICIES:
        if one["kind"].endswith("Binding"):
            assert one["spec"]["policyName"] in seen
        else:
            seen.add(meta.name(one))
    assert len(POLICIES) == 2 * len(seen)


def test_kinds_whose_controllers_are_not_run_are_left_alone() -> None:
    native = InstallOptions(controllers=("jobset",), groups="native")
    assert names(native) == {
        "jobset-defaults.echelon.dev",
        "jobset-create.echelon.dev",
        "jobset-change.echelon.dev",
    }
    assert not [one for one in names(InstallOptions(controllers=("trainjob",))) if one.startswith("jobset")]
    assert names(InstallOptions(parts=("scheduler",), groups="native")) == set()


def test_groups_of_our_own_have_policies_where_their_kinds_are_installed() -> None:
    assert names(InstallOptions(parts=("scheduler",))) == {
        "group-create.echelon.dev",
        "workload-create.echelon.dev",
        "workload-change.echelon.dev",
    }


def test_rules_apply_to_kinds_of_others_too() -> None:
    foreign = InstallOptions(foreign_definitions=frozenset(("jobsets.jobset.x-k8s.io",)))
    assert names(foreign) == names(InstallOptions())


def test_what_a_server_does_not_serve_is_left_out() -> None:
    own, native = (names(InstallOptions(validating_policies=False, groups=one)) for one in ("own", "native"))
    assert native == {"jobset-defaults.echelon.dev", "job-groups.echelon.dev", "job-group-pods.echelon.dev"}
    assert own - native == {"job-group-labels.echelon.dev", "pod-group-labels.echelon.dev"}
    assert "jobset-defaults.echelon.dev" not in names(InstallOptions(mutating_policies=False))


def test_pods_and_jobs_of_others_are_looked_at_when_they_are_made_and_never_again() -> None:
    about = [(one, rule) for one in POLICIES for rule in _resource_rules(one) if rule["apiGroups"] in ([""], ["batch"])]
    assert {meta.name(one) for one, _ in about} == {
        "job-groups.echelon.dev",
        "job-group-pods.echelon.dev",
        "job-group-labels.echelon.dev",
        "pod-group-labels.echelon.dev",
    }
    assert all(rule["operations"] == ["CREATE"] for _, rule in about)
    assert all(one["spec"]["failurePolicy"] == "Ignore" for one, _ in about), "nobody's pods depend on Echelon"


def _resource_rules(policy: Object) -> list[Object]:
    return list(policy["spec"].get("matchConstraints", {}).get("resourceRules") or ())


@dataclass(frozen=True)
class Judged:
    case: Write
    by_definition: bool
    #: What policies say.
    said: list[str]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    """Every case of the tests of rules; policies are not asked about what a definition refuses."""
    return [_judged(one) for one in recorded(tmp_path_factory.mktemp("recorded")).writes]


def _judged(case: Write) -> Judged:
    if refused_by_definition(case):
        return Judged(case, True, [])
    return Judged(case, False, refusals(POLICIES, case.resource, case.new, case.old, case.beside))


def test_what_our_rules_refuse_is_refused_unless_the_page_says_otherwise(judged: list[Judged]) -> None:
    bad = [one for one in judged if one.case.problems]
    assert len(bad) > 300
    wrong = [one for one in bad if (one.by_definition or bool(one.said)) == is_taken(one.case)]
    assert [(one.case.test, one.case.problems) for one in wrong] == []


def test_every_row_of_the_page_about_what_is_taken_has_a_case(judged: list[Judged]) -> None:
    parts = taken_all_the_same()
    assert parts
    for part in parts:
        assert any(part in problem for one in judged for problem in one.case.problems), part


def test_what_our_rules_accept_is_accepted(judged: list[Judged]) -> None:
    good = [one for one in judged if not one.case.problems]
    assert len(good) > 120
    assert [(one.case.test, one.said) for one in good if one.by_definition or one.said] == []


def field(problem: str) -> str:
    """The path that a message begins with, without indexes."""
    problem = problem.partition("denied the request: ")[2].lstrip("[") or problem
    return re.sub(r"\[\d*\]", "[]", re.match(r"(?:[^:\[]|\[[^\]]*\])*", problem)[0])  # type: ignore[index]


def test_a_policy_names_the_field_that_our_own_message_is_about(judged: list[Judged]) -> None:
    other = []
    for one in judged:
        if one.case.problems and one.said and not one.by_definition:
            ours, theirs = set(map(field, one.case.problems)), set(map(field, one.said))
            if not any(path.startswith(said) for path in ours for said in theirs):
                other.append((one.case.test, ours, theirs))
    assert other == []
