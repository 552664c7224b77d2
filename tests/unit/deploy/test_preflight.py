"""What an installation on a known cluster is, and when there cannot be one."""

from __future__ import annotations

import pytest

from echelon.base.version import __version__
from echelon.deploy.cluster_facts import GROUP_KINDS, ClusterFacts, Definition
from echelon.deploy.objects.monitoring import SERVICE_MONITORS
from echelon.deploy.options import InstallOptions
from echelon.deploy.preflight import InstallRefused, Settled, check_version, settle

SERVED = frozenset((one.api_version, one.plural) for one in GROUP_KINDS)
JOBSETS = "jobsets.jobset.x-k8s.io"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"


def facts(git_version: str = "v1.37.1", **given: object) -> ClusterFacts:
    return ClusterFacts(git_version, **{"served": SERVED, **given})  # type: ignore[arg-type]


def settled(known: ClusterFacts, options: InstallOptions = InstallOptions(), **given: object) -> Settled:
    return settle(options, known, **{"chosen": None, "monitoring": None, **given})  # type: ignore[arg-type]


def foreign(name: str, *versions: str) -> dict[str, Definition]:
    return {name: Definition(name, "", frozenset(versions), "jobset")}


def test_an_empty_cluster_gets_everything_but_what_it_does_not_serve() -> None:
    found = settled(facts())
    assert found.options == InstallOptions()
    assert found.notes == ("the cluster has no Prometheus operator: no ServiceMonitor, no PrometheusRule",)


@pytest.mark.parametrize("version", ["v1.36.9", "v1.29.0+k3s1", "", "nonsense"])
def test_an_old_server_is_refused_with_the_oldest_that_works(version: str) -> None:
    with pytest.raises(InstallRefused, match=r"needs 1\.37 or newer"):
        settled(facts(version))


def test_a_server_without_composite_groups_is_told_how_to_be_started() -> None:
    served = frozenset(one for one in SERVED if one[1] != "compositepodgroups")
    with pytest.raises(InstallRefused) as refused:
        settled(facts(served=served))
    message = str(refused.value)
    assert "does not serve compositepodgroups in scheduling.k8s.io/v1alpha3" in message
    assert "--runtime-config=scheduling.k8s.io/v1alpha3=true" in message
    assert "CompositePodGroup" in message


def test_kinds_of_upstream_jobset_are_used_and_its_controller_left_to_it() -> None:
    found = settled(facts(definitions=foreign(JOBSETS, "v1alpha2")))
    assert found.options.foreign_definitions == {JOBSETS}
    assert found.options.controllers == ("trainjob",)
    assert any("is jobset's: it is used and left alone" in note for note in found.notes)
    assert any("not run" in note and "jobset, stage-quota" in note for note in found.notes)


def test_controllers_that_are_asked_for_run_whoever_installed_the_kind() -> None:
    found = settled(facts(definitions=foreign(JOBSETS, "v1alpha2")), chosen=("jobset", "trainjob"))
    assert found.options.controllers == ("jobset", "trainjob")
    assert found.options.foreign_definitions == {JOBSETS}


def test_without_any_controller_to_run_the_scheduler_comes_alone() -> None:
    both = foreign(JOBSETS, "v1alpha2") | foreign(TRAIN_JOBS, "v1alpha1")
    assert settled(facts(definitions=both)).options.parts == ("scheduler",)
    with pytest.raises(InstallRefused, match="nothing to install"):
        settled(facts(definitions=both), InstallOptions(parts=("controllers",)))


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
