"""Admission policies and our own rules agree on objects that nobody thought of."""

from __future__ import annotations

import random
from copy import deepcopy

import pytest

from echelon.api import rules
from echelon.api.admission import admit_create, admit_update
from echelon.api.errors import ApiError
from echelon.api.schema import kind_schema
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, RESOURCES
from echelon.deploy.admission.admission_policies import policy_objects
from echelon.deploy.admission.jobset import MOST_PAIRED
from echelon.deploy.options import InstallOptions
from tests.admission.cases import Recorded, Write, recorded
from tests.admission.documented import is_taken
from tests.admission.judge import refusals
from tests.admission.splicing import Splicer
from tests.unit.api.rules.builders import Cluster

from .hierarchies import LONG

POLICIES = policy_objects(InstallOptions(groups="native"))
KINDS = {one.qualified: one for one in RESOURCES}
WRITES = 2400 if LONG else 150


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("recorded"))


def problems(case: Write) -> list[str]:
    """What our own server says of a write that its schema takes."""
    resource, new, old = case.resource, deepcopy(case.new), case.old
    found = rules.validate_create(resource, new) if old is None else rules.validate_update(resource, new, old)
    if found or resource == JOB_SETS:
        return [str(one) for one in found]
    beside = Cluster(*((KINDS[kind], one) for kind, one in case.beside))
    try:
        if old is None:
            admit_create(resource, new, beside)
        else:
            admit_update(resource, new, old, beside)
    except ApiError as error:
        return [error.message]
    return []


def differs_as_the_page_says(case: Write) -> bool:
    """Long lists, runtimes on a built-in template, and runtimes that break a rule from before and do not change."""
    spec, old = case.new.get("spec") or {}, (case.old or {}).get("spec")
    if case.resource == CLUSTER_TRAINING_RUNTIMES:
        return spec == old or not ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs")
    return len(spec.get("replicatedJobs") or ()) > MOST_PAIRED


@pytest.mark.parametrize("kind", ["jobsets", "trainjobs", "clustertrainingruntimes"])
def test_policies_refuse_what_our_rules_refuse_and_nothing_else(cases: Recorded, kind: str) -> None:
    splicer = Splicer([one for one in cases.writes if one.resource.plural == kind], random.Random(7))
    refused = taken = 0
    while refused + taken < WRITES:
        case = splicer.write()
        if case is None or kind_schema.check(case.resource, case.new) or differs_as_the_page_says(case):
            continue
        ours = problems(case)
        theirs = refusals(POLICIES, case.resource, case.new, case.old, case.beside)
        refused, taken = refused + bool(ours), taken + (not ours)
        known = Write(case.test, case.kind, case.new, case.old, ours)
        assert bool(theirs) == bool(ours) or (ours and is_taken(known)), (ours, theirs, case.new, case.old)
    assert min(refused, taken) > WRITES / 8
