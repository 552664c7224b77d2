"""What `echelon doctor` says about a cluster, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from echelon.api.cluster.topology_levels import LabelledNode
from echelon.api.group_kinds import GroupSupport
from echelon.api.objects.vocabulary import RACK, ZONE
from echelon.api.scheme import OWN_GROUP_KINDS, RESOURCE_CLAIMS
from echelon.base.version import __version__
from echelon.deploy.admission.kinds import POLICY_KINDS
from echelon.deploy.checks.evidence import Evidence, MissingRight, ProgramState
from echelon.deploy.checks.findings import Finding, examine
from echelon.deploy.cluster_facts import CUSTOM_KINDS, ClusterFacts, Definition

SERVED = frozenset((one.api_version, one.plural) for one in POLICY_KINDS)
NATIVE = GroupSupport(frozenset(OWN_GROUP_KINDS))
OURS = {
    name: Definition(name, "echelon-system", frozenset((kind.version,)), "echelon")
    for name, kind in CUSTOM_KINDS.items()
}
SOUND = ProgramState("echelon-scheduler", 2, 2, "echelon-scheduler", "pod-1")
CONTROLLING = ProgramState("echelon-controllers", 2, 2, "echelon-controllers", "pod-2")


def evidence(version: str = "v1.37.1", facts: dict[str, Any] | None = None, **given: Any) -> Evidence:
    known = {
        "groups": NATIVE,
        "served": SERVED,
        "definitions": OURS,
        "installations": {"echelon-system": __version__},
        **(facts or {}),
    }
    return Evidence(
        ClusterFacts(version, **known),
        **{"skew_seconds": 0.2, "programs": (SOUND,), "served_names": ("echelon",), **given},
    )


def found(given: Evidence, subject: str, level: str = "problem") -> list[Finding]:
    return [one for one in examine(given, ("echelon",)) if one.subject == subject and one.level == level]


def test_a_sound_installation_has_no_problem() -> None:
    assert [one for one in examine(evidence(), ("echelon",)) if one.level == "problem"] == []


def test_every_problem_has_a_remedy() -> None:
    bad = evidence(
        "v1.30.0",
        {"groups": GroupSupport(), "definitions": {}, "installations": {"a": "", "b": __version__}},
        missing_rights=(MissingRight("echelon-scheduler", "list", "nodes"),),
        programs=(
            ProgramState("echelon-scheduler", 2, 0, "echelon-scheduler", ""),
            ProgramState("echelon-controllers", 2, 0, "echelon-controllers", ""),
        ),
    )
    problems = [one for one in examine(bad, ("echelon",)) if one.level == "problem"]
    assert len(problems) >= 8
    assert all(one.remedy for one in problems)


def test_an_old_server_is_a_problem_with_the_oldest_that_works() -> None:
    (one,) = found(evidence("v1.31.2"), "server")
    assert "v1.31.2 is older than 1.32" in one.text


def test_groups_of_our_own_are_a_note_with_the_gates_and_a_problem_if_they_are_missing() -> None:
    (one,) = [
        one
        for one in found(evidence(facts={"groups": GroupSupport(own=True)}), "groups", "note")
        if "scheduling.echelon.dev" in one.text
    ]
    assert "because the server does not serve workloads in scheduling.k8s.io/v1beta1" in one.text
    assert "GenericWorkload" in one.remedy
    (missing,) = found(evidence(facts={"groups": GroupSupport()}), "groups")
    assert missing.remedy == "run `echelon install`"


def test_a_server_that_has_got_native_groups_since_is_told_to_upgrade() -> None:
    installed = replace(SOUND, groups="own")
    since = GroupSupport(frozenset(OWN_GROUP_KINDS), own=True)
    texts = [one.text for one in found(evidence(facts={"groups": since}, programs=(installed,)), "groups", "note")]
    assert "the programs were installed for own groups, and now it would be native,own" in texts


def test_policies_that_are_missing_or_not_served_are_told() -> None:
    both = evidence(programs=(SOUND, CONTROLLING))
    assert [one.text for one in found(both, "admission", "ok")] == ["the policies of this version are there"]
    assert found(evidence(), "admission", "ok") == []  # those of controllers that do not run were not looked for
    (one,) = found(evidence(missing_policies=("ValidatingAdmissionPolicy/x",)), "admission")
    assert one.text.startswith("missing: ValidatingAdmissionPolicy/x;")
    old = evidence(facts={"served": frozenset()})
    notes = found(old, "admission", "note")
    assert len(notes) == 2
    assert notes[1].text.endswith("have to label their pod template with echelon.dev/pod-group")


def test_policies_that_were_left_out_are_a_note_and_not_missed() -> None:
    without = evidence(programs=(SOUND, CONTROLLING), policies_left_out=("ValidatingAdmissionPolicy",))
    assert [*found(without, "admission"), *found(without, "admission", "ok")] == []
    (one,) = found(without, "admission", "note")
    assert one.text.startswith("the installation was made without ValidatingAdmissionPolicy: invalid objects are taken")
    assert "without --no-policies" in one.remedy


def test_kinds_of_controllers_are_not_missed_where_the_scheduler_was_installed_alone() -> None:
    alone = evidence(facts={"definitions": {}})
    assert found(alone, "kinds") == []
    assert {one.remedy for one in found(alone, "kinds", "note")} == {"nothing, while only the scheduler is installed"}
    assert len(found(evidence(facts={"definitions": {}}, programs=(SOUND, CONTROLLING)), "kinds")) == len(CUSTOM_KINDS)
    gone = evidence(facts={"definitions": {}}, missing_programs=("echelon-controllers",))
    assert len(found(gone, "kinds")) == len(CUSTOM_KINDS)


def test_the_names_that_the_installed_scheduler_serves_are_known_without_asking() -> None:
    waiting = {"echelon": (3, 2), "mine": (4, 4), "typo": (1, 1)}
    given = evidence(scheduler_names=waiting, served_names=("mine",))
    (one,) = found(given, "neighbours")
    assert one.text == "3 pods name scheduler echelon, 2 of them are not bound"
    assert one.remedy == "nobody serves this name: run `echelon install` with it as --scheduler-name"
    (other,) = found(given, "neighbours", "note")
    assert "is there a scheduler typo?" in other.remedy
    assert [one.text for one in found(given, "neighbours", "ok")] == [
        "4 pods name scheduler mine, 4 of them are not bound"
    ]


def test_policies_on_a_server_that_they_can_end_are_a_problem() -> None:
    there = ("ValidatingAdmissionPolicy/jobset-create.echelon.dev",)
    (one,) = found(evidence("v1.35.2", unsafe_policies=there), "admission")
    assert "a server before 1.36 can end of policies" in one.text
    assert there[0] in one.text
    assert "echelon upgrade" in one.remedy


def test_policies_that_can_end_the_server_are_neither_missed_nor_said_to_be_there() -> None:
    at_risk = evidence("v1.35.7", programs=(SOUND, CONTROLLING))
    assert found(at_risk, "admission", "ok") == []
    texts = [one.text for one in found(at_risk, "admission", "note")]
    assert any(one.startswith("no ValidatingAdmissionPolicy, which can end a server before 1.36") for one in texts)


def test_a_server_without_claims_of_devices_is_a_note() -> None:
    (one,) = found(evidence(facts={"served": frozenset()}), "devices", "note")
    assert one.text.startswith("resource.k8s.io/v1 is not served")
    served = frozenset(((RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.plural),))
    assert found(evidence(facts={"served": served}), "devices", "note") == []


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
    (many,) = found(evidence(missing_rights=missing * 3), "rights")
    assert many.text.endswith("may not list nodes, patch events, list nodes and 3 more")


def test_a_program_without_a_leader_is_a_problem() -> None:
    alone = ProgramState("echelon-scheduler", 2, 2, "echelon-scheduler", "")
    (one,) = found(evidence(programs=(alone,)), "installation")
    assert "nobody holds lease echelon-scheduler" in one.text
    assert one.remedy.endswith("; kubectl logs deployment/echelon-scheduler -n echelon-system")


def test_half_an_installation_and_a_second_one_are_problems() -> None:
    texts = [one.text for one in found(evidence(facts={"installations": {"a": "", "b": __version__}}), "installation")]
    assert texts[0] == "there are several, in a, b"
    assert texts[1].startswith("half an installation in a")


def test_a_deployment_that_somebody_has_deleted_is_half_an_installation() -> None:
    (one,) = found(evidence(missing_programs=("echelon-controllers",)), "installation")
    assert one.text.startswith("half an installation: Deployment echelon-controllers is not there")
    assert "echelon install" in one.remedy


def test_a_part_that_an_upgrade_has_not_reached_is_a_problem() -> None:
    parts = (replace(SOUND, version="0.2.0"), replace(CONTROLLING, version="0.1.9"))
    given = evidence(facts={"installations": {"echelon-system": "0.2.0"}}, programs=parts)
    (one,) = found(given, "installation")
    assert one.text == "half an upgrade: Deployment echelon-controllers is of 0.1.9, and the installation of 0.2.0"


def test_an_installation_that_is_newer_than_the_command_is_not_upgraded_with_it() -> None:
    (one,) = found(evidence(facts={"installations": {"echelon-system": "99.0.0"}}), "installation", "note")
    assert one.remedy == "use the command of 99.0.0"
    (one,) = found(evidence(facts={"installations": {"echelon-system": "0.0.1"}}), "installation", "note")
    assert one.remedy == "run `echelon upgrade`"


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
    (one,) = found(
        evidence(scheduler_names=waiting, programs=(), served_names=(), facts={"installations": {}}), "neighbours"
    )
    assert one.text == "3 pods name scheduler echelon, 2 of them are not bound"
    (other,) = found(evidence(scheduler_names=waiting), "neighbours", "note")
    assert "is there a scheduler typo?" in other.remedy


def test_neighbours_are_found_by_their_lease_or_their_kinds_with_a_page_to_read() -> None:
    kueue = Definition("clusterqueues.kueue.x-k8s.io", "", frozenset(("v1beta1",)), "kueue")
    leaders = {"kube-scheduler": "master-0", "descheduler": "d-1", "somebody": "else"}
    notes = found(evidence(facts={"definitions": {**OURS, kueue.name: kueue}}, leaders=leaders), "neighbours", "note")
    assert [one.text for one in notes] == [
        "Kueue is here (its kinds are served: clusterqueues.kueue.x-k8s.io)",
        "descheduler is here (d-1 leads)",
        "kube-scheduler is here (master-0 leads)",
    ]
    for one in notes:
        page = one.remedy.rpartition(" ")[2]
        assert (Path(__file__).parents[3] / page).is_file(), page


def test_levels_that_are_configured_the_wrong_way_round_are_noted_with_a_remedy() -> None:
    nodes = tuple(LabelledNode(f"n{n}", {"hall": f"h{n // 4}", "row": f"r{n // 2}"}) for n in range(8))
    notes = found(
        evidence(nodes=nodes, configured_levels=("row", "hall", "kubernetes.io/hostname")), "topology", "note"
    )
    assert [(one.text.partition(",")[0], one.remedy) for one in notes] == [
        ("row is listed as wider than hall", "list the levels from wide to narrow")
    ]
