"""What `echelon doctor` says about a cluster, and what to do about it."""

from __future__ import annotations

from typing import Any

from echelon.api.objects.vocabulary import RACK, ZONE
from echelon.base.version import __version__
from echelon.deploy.checks.evidence import Evidence, MissingRight, ProgramState
from echelon.deploy.checks.findings import Finding, examine
from echelon.deploy.cluster_facts import CUSTOM_KINDS, GROUP_KINDS, ClusterFacts, Definition
from echelon.deploy.node_levels import LabelledNode

SERVED = frozenset((one.api_version, one.plural) for one in GROUP_KINDS)
OURS = {
    name: Definition(name, "echelon-system", frozenset((kind.version,)), "echelon")
    for name, kind in CUSTOM_KINDS.items()
}
SOUND = ProgramState("echelon-scheduler", 2, 2, "echelon-scheduler", "pod-1")


def evidence(version: str = "v1.37.1", facts: dict[str, Any] | None = None, **given: Any) -> Evidence:
    known = {"served": SERVED, "definitions": OURS, "installations": {"echelon-system": __version__}, **(facts or {})}
    return Evidence(ClusterFacts(version, **known), **{"skew_seconds": 0.2, "programs": (SOUND,), **given})


def found(given: Evidence, subject: str, level: str = "problem") -> list[Finding]:
    return [one for one in examine(given, ("echelon",)) if one.subject == subject and one.level == level]


def test_a_sound_installation_has_no_problem() -> None:
    assert [one for one in examine(evidence(), ("echelon",)) if one.level == "problem"] == []


def test_every_problem_has_a_remedy() -> None:
    bad = evidence(
        "v1.30.0",
        {"served": frozenset(), "definitions": {}, "installations": {"a": "", "b": __version__}},
        missing_rights=(MissingRight("echelon-scheduler", "list", "nodes"),),
        programs=(ProgramState("echelon-scheduler", 2, 0, "echelon-scheduler", ""),),
    )
    problems = [one for one in examine(bad, ("echelon",)) if one.level == "problem"]
    assert len(problems) >= 8
    assert all(one.remedy for one in problems)


def test_an_old_server_is_a_problem_with_the_oldest_that_works() -> None:
    (one,) = found(evidence("v1.36.2"), "server")
    assert "v1.36.2 is older than 1.37" in one.text


def test_each_group_that_is_not_served_is_named_with_its_gates() -> None:
    problems = found(evidence(facts={"served": frozenset()}), "groups")
    assert [one.text.split()[0] for one in problems] == ["workloads", "podgroups", "compositepodgroups"]
    assert "GenericWorkload" in problems[0].remedy


def test_kinds_say_whose_they_are() -> None:
    name = "jobsets.jobset.x-k8s.io"
    foreign = {**OURS, name: Definition(name, "", frozenset(("v1alpha2",)), "jobset")}
    texts = [one.text for one in found(evidence(facts={"definitions": foreign}), "kinds", "ok")]
    assert f"{name} is jobset's: it is used and left alone" in texts
    old = {**OURS, name: Definition(name, "", frozenset(("v1alpha1",)), "jobset")}
    (one,) = found(evidence(facts={"definitions": old}), "kinds")
    assert "serves v1alpha1 and not v1alpha2" in one.text


def test_rights_that_are_missing_are_named_by_account() -> None:
    missing = (MissingRight("echelon-scheduler", "list", "nodes"), MissingRight("echelon-scheduler", "patch", "events"))
    (one,) = found(evidence(missing_rights=missing), "rights")
    assert one.text == "service account echelon-scheduler may not list nodes, patch events"


def test_a_program_without_a_leader_is_a_problem() -> None:
    alone = ProgramState("echelon-scheduler", 2, 2, "echelon-scheduler", "")
    (one,) = found(evidence(programs=(alone,)), "installation")
    assert "nobody holds lease echelon-scheduler" in one.text


def test_half_an_installation_and_a_second_one_are_problems() -> None:
    texts = [one.text for one in found(evidence(facts={"installations": {"a": "", "b": __version__}}), "installation")]
    assert texts[0] == "there are several, in a, b"
    assert texts[1].startswith("half an installation in a")


def test_who_may_not_install_is_told_before_trying() -> None:
    nobody = evidence(facts={"installations": {}, "definitions": {}}, programs=(), own_missing=("create namespaces",))
    (one,) = found(nobody, "installation")
    assert one.text == "you may not create namespaces"


def test_nodes_that_contradict_the_nesting_are_named() -> None:
    places = {"a": ("z1", "r1"), "b": ("z2", "r1"), "c": ("z2", "r2"), "d": ("z2", "r3")}
    nodes = tuple(LabelledNode(name, {ZONE: zone, RACK: rack}) for name, (zone, rack) in places.items())
    notes = found(evidence(nodes=nodes), "topology", "note")
    assert f"{RACK}=r1 is in 2 domains of {ZONE} (z1: a; z2: b)" in [one.text for one in notes]


def test_a_clock_that_is_off_is_told_and_no_problem() -> None:
    assert found(evidence(skew_seconds=-30.0), "clock", "note")[0].text == "the server's clock is 30 s behind"
    assert found(evidence(skew_seconds=2.0), "clock", "ok")


def test_pods_that_wait_for_a_scheduler_that_nobody_runs_are_counted() -> None:
    waiting = {"echelon": (3, 2), "default-scheduler": (10, 0), "typo": (1, 1)}
    (one,) = found(evidence(scheduler_names=waiting, programs=(), facts={"installations": {}}), "neighbours")
    assert one.text == "3 pods name scheduler echelon, 2 of them are not bound"
    (other,) = found(evidence(scheduler_names=waiting), "neighbours", "note")
    assert "is there a scheduler typo?" in other.remedy
