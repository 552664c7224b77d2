"""What an installation on a known cluster is, and when there cannot be one."""

from __future__ import annotations

import pytest

from echelon.api.group_kinds import GroupSupport
from echelon.api.objects import meta
from echelon.api.scheme import COMPOSITE_POD_GROUPS, OWN_GROUP_KINDS
from echelon.base.version import __version__
from echelon.deploy.admission.kinds import MUTATING_POLICIES, POLICY_KINDS
from echelon.deploy.cluster_facts import ClusterFacts, Definition
from echelon.deploy.objects.installation import objects, resource_of
from echelon.deploy.objects.monitoring import SERVICE_MONITORS
from echelon.deploy.options import PARTS, InstallOptions
from echelon.deploy.preflight import InstallRefused, Settled, check_version, settle

SERVED = frozenset((one.api_version, one.plural) for one in POLICY_KINDS)
NATIVE = GroupSupport(frozenset(OWN_GROUP_KINDS))
JOBSETS = "jobsets.jobset.x-k8s.io"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"


def facts(git_version: str = "v1.37.1", **given: object) -> ClusterFacts:
    return ClusterFacts(git_version, **{"groups": NATIVE, "served": SERVED, **given})  # type: ignore[arg-type]


def settled(known: ClusterFacts, options: InstallOptions = InstallOptions(), **given: object) -> Settled:
    return settle(options, known, **{"chosen": None, "monitoring": None, **given})  # type: ignore[arg-type]


def foreign(name: str, *versions: str) -> dict[str, Definition]:
    return {name: Definition(name, "", frozenset(versions), "jobset")}


def test_an_empty_cluster_gets_everything_but_what_it_does_not_serve() -> None:
    found = settled(facts())
    assert found.options == InstallOptions(groups="native")
    assert found.notes == (
        "groups: scheduling.k8s.io",
        "the cluster has no Prometheus operator: no ServiceMonitor, no PrometheusRule",
    )


def test_policies_that_are_not_served_are_left_out_and_that_is_said() -> None:
    found = settled(facts(served=SERVED - {(MUTATING_POLICIES.api_version, MUTATING_POLICIES.plural)}))
    assert (found.options.validating_policies, found.options.mutating_policies) == (True, False)
    assert any("does not serve MutatingAdmissionPolicy: defaults are not stored" in note for note in found.notes)
    assert any("label its own pod template with echelon.dev/pod-group" in note for note in found.notes)
    found = settled(facts(served=frozenset(one for one in SERVED if "admission" not in one[0])))
    assert (found.options.validating_policies, found.options.mutating_policies) == (False, False)
    assert any("told by event InvalidSpec" in note for note in found.notes)
    assert any("label its own pod template" in note for note in found.notes)
    others = settled(facts(served=frozenset()), chosen=("jobset",))
    assert not any("label" in note for note in others.notes), "who makes no groups of Jobs needs no label"


@pytest.mark.parametrize("version", ["v1.32.13", "v1.35.7"])
def test_a_server_that_policies_can_end_gets_none_although_it_serves_them(version: str) -> None:
    found = settled(facts(version))
    assert (found.options.validating_policies, found.options.mutating_policies) == (False, False)
    (note,) = [one for one in found.notes if "no ValidatingAdmissionPolicy, which can end a server" in one]
    assert note.endswith("told by event InvalidSpec")
    assert settled(facts("v1.36.0")).options.validating_policies


@pytest.mark.parametrize("part", PARTS)
def test_no_part_brings_policies_to_a_server_that_they_can_end(part: str) -> None:
    found = settled(facts("v1.34.1", groups=GroupSupport()), InstallOptions(parts=(part,)))
    assert [meta.name(one) for one in objects(found.options) if resource_of(one) in POLICY_KINDS] == []
    assert any("no ValidatingAdmissionPolicy, which can end a server" in note for note in found.notes)


def test_nothing_is_said_of_policies_that_nobody_would_make() -> None:
    found = settled(facts("v1.34.1"), InstallOptions(parts=("scheduler",)))
    assert not [note for note in found.notes if "Policy" in note]


@pytest.mark.parametrize("version", ["v1.31.9", "v1.29.0+k3s1", "", "nonsense"])
def test_an_old_server_is_refused_with_the_oldest_that_works(version: str) -> None:
    with pytest.raises(InstallRefused, match=r"needs 1\.32 or newer"):
        settled(facts(version))


@pytest.mark.parametrize(
    ("support", "choice", "told"),
    [
        (NATIVE, "native", "groups: scheduling.k8s.io"),
        (
            GroupSupport(frozenset(OWN_GROUP_KINDS), own=True),
            "native,own",
            "groups: scheduling.k8s.io; groups of scheduling.echelon.dev are read too",
        ),
        (
            GroupSupport(),
            "own",
            "groups: scheduling.echelon.dev, because the server does not serve workloads in scheduling.k8s.io/v1beta1, "
            "podgroups in scheduling.k8s.io/v1beta1, compositepodgroups in scheduling.k8s.io/v1alpha3",
        ),
        (
            GroupSupport(frozenset(one for one in OWN_GROUP_KINDS if one is not COMPOSITE_POD_GROUPS), own=True),
            "own,native",
            "groups: scheduling.echelon.dev, because the server does not serve compositepodgroups in "
            "scheduling.k8s.io/v1alpha3; groups of scheduling.k8s.io are read too",
        ),
        (
            GroupSupport(frozenset(OWN_GROUP_KINDS), ("spec.schedulingConstraints",)),
            "own,native",
            "groups: scheduling.echelon.dev, because the server drops spec.schedulingConstraints of PodGroups; "
            "groups of scheduling.k8s.io are read too",
        ),
    ],
    ids=["all", "all, and own from before", "none", "no composites", "no topology"],
)
def test_groups_are_native_where_the_server_has_them_and_our_own_elsewhere(
    support: GroupSupport, choice: str, told: str
) -> None:
    found = settled(facts(groups=support))
    assert found.options.groups == choice
    assert found.notes[0] == told


def test_kinds_of_upstream_jobset_are_used_and_its_controller_left_to_it() -> None:
    found = settled(facts(definitions=foreign(JOBSETS, "v1alpha2")))
    assert found.options.foreign_definitions == {JOBSETS}
    assert found.options.controllers == ("trainjob", "job-groups")
    assert any("is jobset's: it is used and left alone" in note for note in found.notes)
    assert any("not run" in note and "jobset, stage-quota" in note for note in found.notes)


def test_controllers_that_are_asked_for_run_whoever_installed_the_kind() -> None:
    found = settled(facts(definitions=foreign(JOBSETS, "v1alpha2")), chosen=("jobset", "trainjob"))
    assert found.options.controllers == ("jobset", "trainjob")
    assert found.options.foreign_definitions == {JOBSETS}


def test_groups_of_jobs_are_made_whoever_has_installed_the_other_kinds() -> None:
    both = foreign(JOBSETS, "v1alpha2") | foreign(TRAIN_JOBS, "v1alpha1")
    assert settled(facts(definitions=both)).options.controllers == ("job-groups",)


def test_a_definition_of_another_version_is_in_the_way() -> None:
    with pytest.raises(InstallRefused, match="serves v1alpha1, and Echelon needs v1alpha2: upgrade what installed it"):
        settled(facts(definitions=foreign(JOBSETS, "v1alpha1")))


def test_definitions_that_outlived_an_installation_are_taken_up_by_the_next() -> None:
    for namespace in ("echelon-system", "train"):
        ours = {JOBSETS: Definition(JOBSETS, namespace, frozenset(("v1alpha2",)))}
        assert settled(facts(definitions=ours)).options.foreign_definitions == frozenset()


def test_a_second_installation_is_refused_and_told_where_the_first_is() -> None:
    with pytest.raises(InstallRefused, match="installed in namespace train already: give --namespace train"):
        settled(facts(installations={"train": __version__}))


def test_without_a_chosen_image_that_of_the_installation_stays_and_that_of_another_version_is_asked_for() -> None:
    image = "registry.example/echelon:0.1.0"
    same = facts(installations={"echelon-system": __version__}, images={"echelon-system": image})
    kept = settled(same, image_chosen=False)
    assert kept.options.image == image
    assert f"image {image} of the installation is kept; --image gives another" in kept.notes
    assert settled(same).options.image == InstallOptions().image
    assert settled(facts(), image_chosen=False).options.image == InstallOptions().image
    older = facts(installations={"echelon-system": "0.0.9"}, images={"echelon-system": image})
    with pytest.raises(InstallRefused, match=f"runs image {image}: give --image with that of {__version__}"):
        settled(older, image_chosen=False)


def test_a_namespace_that_was_there_is_used_and_not_ours() -> None:
    found = settled(facts(namespaces={"echelon-system": ""}))
    assert not found.options.own_namespace
    assert any("stays when Echelon goes" in note for note in found.notes)
    assert settled(facts(namespaces={"echelon-system": "echelon-system"})).options.own_namespace


def test_monitoring_follows_what_the_cluster_serves() -> None:
    operator = SERVED | {(SERVICE_MONITORS.api_version, SERVICE_MONITORS.plural)}
    assert settled(facts(served=operator)).options.monitoring
    assert not settled(facts(served=operator), monitoring=False).options.monitoring
    with pytest.raises(InstallRefused, match="install the Prometheus operator"):
        settled(facts(), monitoring=True)


@pytest.mark.parametrize(
    ("there", "upgrade", "words"),
    [
        (None, False, None),
        (None, True, "run `echelon install`"),
        (__version__, False, None),
        (__version__, True, None),
        ("0.0.9", False, "run `echelon upgrade`"),
        ("0.0.9", True, None),
        ("99.0.0", True, "use the newer command"),
        ("99.0.0", False, "use the newer command"),
        ("", False, None),
    ],
)
def test_versions_go_forward_and_only_by_upgrade(there: str | None, upgrade: bool, words: str | None) -> None:
    known = facts(installations={} if there is None else {"echelon-system": there})
    if words is None:
        check_version(InstallOptions(), known, upgrade=upgrade)
    else:
        with pytest.raises(InstallRefused, match=words):
            check_version(InstallOptions(), known, upgrade=upgrade)
