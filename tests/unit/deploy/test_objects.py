"""The objects of an installation: labelled, without privileges, with the rights that the programs use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from echelon.api.group_kinds import CHOICES
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import INSTALLATION
from echelon.api.scheme import DEPLOYMENTS, OWN_GROUP_KINDS, Object
from echelon.api.verbs import Verbs
from echelon.base.program_options import AUTO, CONTROLLERS_PROGRAM, GROUP_FORMS, SCHEDULER_PROGRAM
from echelon.cli import main
from echelon.client.informer import Caches
from echelon.controllers.registry import CLUSTER_CONTROLLERS
from echelon.deploy.objects.access_rights import Rule, access_objects, rules_of
from echelon.deploy.objects.installation import objects, resource_of
from echelon.deploy.objects.monitoring import OPERATOR_GROUP
from echelon.deploy.objects.programs import arguments
from echelon.deploy.options import OWN_CONTROLLERS, PARTS, InstallOptions
from echelon.runtime import cluster_mode
from echelon.runtime.clocks import LoopClock
from echelon.runtime.operations.live_configuration import LiveConfiguration

OPTIONS = InstallOptions(monitoring=True)
DOCS = Path(__file__).parents[3] / "docs"
METRICS_PAGE = DOCS / "reference" / "metrics.md"
RUNBOOKS = DOCS / "runbooks"


def of_kind(kind: str, options: InstallOptions = OPTIONS) -> list[Object]:
    return [obj for obj in objects(options) if obj["kind"] == kind]


def test_equal_options_give_equal_objects_with_names_of_their_own() -> None:
    made = objects(OPTIONS)
    assert made == objects(InstallOptions(monitoring=True))
    keys = [(resource_of(obj), meta.namespace(obj), meta.name(obj)) for obj in made]
    assert len(set(keys)) == len(keys)


def test_everything_carries_the_label_by_which_it_is_removed() -> None:
    for obj in objects(InstallOptions(namespace="train")):
        assert meta.labels(obj)[INSTALLATION] == "train", obj["kind"]


def test_what_others_need_is_made_before_them() -> None:
    kinds = [obj["kind"] for obj in objects(OPTIONS)]
    assert kinds[0] == "Namespace"
    last = {kind: len(kinds) - 1 - kinds[::-1].index(kind) for kind in kinds}
    first = {kind: kinds.index(kind) for kind in kinds}
    assert last["CustomResourceDefinition"] < first["ServiceAccount"]
    assert last["RoleBinding"] < first["Deployment"]


def test_a_part_alone_comes_without_the_other() -> None:
    scheduler = objects(InstallOptions(parts=("scheduler",), groups="native"))
    assert not [obj for obj in scheduler if "controllers" in meta.name(obj)]
    assert not [obj for obj in scheduler if obj["kind"] == "CustomResourceDefinition"]
    controllers = objects(InstallOptions(parts=("controllers",)))
    assert not [obj for obj in controllers if "scheduler" in meta.name(obj)]


@pytest.mark.parametrize("groups", ["", *CHOICES])
def test_kinds_of_groups_come_where_the_server_lacks_them(groups: str) -> None:
    options = InstallOptions(parts=("scheduler",), groups=groups)
    kinds = [meta.name(obj) for obj in of_kind("CustomResourceDefinition", options)]
    own = [f"{one}.scheduling.echelon.dev" for one in ("workloads", "podgroups", "compositepodgroups")]
    assert kinds == ([] if groups == "native" else own)
    (deployment,) = of_kind("Deployment", options)
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert ("--groups" in arguments) == bool(groups)


def test_kinds_of_others_are_not_among_the_objects() -> None:
    foreign = InstallOptions(foreign_definitions=frozenset(("jobsets.jobset.x-k8s.io",)))
    names = [meta.name(obj) for obj in of_kind("CustomResourceDefinition", foreign)]
    assert "trainjobs.trainer.kubeflow.org" in names
    assert "jobsets.jobset.x-k8s.io" not in names


def test_the_operators_kinds_come_only_when_asked_for() -> None:
    assert not [obj for obj in objects(InstallOptions()) if OPERATOR_GROUP in obj["apiVersion"]]
    assert len([obj for obj in objects(OPTIONS) if OPERATOR_GROUP in obj["apiVersion"]]) == 3


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=meta.name)
def test_pods_have_no_privileges_and_two_replicas(deployment: Object) -> None:
    assert resource_of(deployment) == DEPLOYMENTS
    spec = deployment["spec"]
    pod, container = spec["template"]["spec"], spec["template"]["spec"]["containers"][0]
    assert spec["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert {probe for probe in container if probe.endswith("Probe")} == {
        "livenessProbe", "readinessProbe", "startupProbe",
    }  # fmt: skip


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=meta.name)
def test_the_command_takes_the_arguments_of_the_deployment(deployment: Object) -> None:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["echelon"]
    context = main.make_context("echelon", list(container["args"]))
    part, rest = context._protected_args[0], context.args
    parsed = main.commands[part].make_context(part, list(rest), parent=context)
    assert parsed.params["metrics_port"] == container["ports"][0]["containerPort"]
    assert parsed.params["leader_elect"] is True


def test_our_controllers_are_those_that_a_cluster_lacks() -> None:
    assert OWN_CONTROLLERS == CLUSTER_CONTROLLERS


def test_the_forms_of_groups_that_can_be_chosen_are_all_there_are() -> None:
    assert (AUTO, *CHOICES) == GROUP_FORMS


def readable(rules: tuple[Rule, ...]) -> set[tuple[str, str]]:
    return {(rule.group, one) for rule in rules if {"list", "watch"} <= set(rule.verbs) for one in rule.resources}


def cached(make: cluster_mode.MakeComponents) -> set[tuple[str, str]]:
    clock, registry = LoopClock(), CollectorRegistry()
    verbs = Verbs.__new__(Verbs)  # type: ignore[type-abstract]
    caches = Caches(verbs, clock, registry)
    make(verbs, caches, clock, registry)
    return {(resource.group, resource.plural) for resource in caches.resources}


def in_forms(found: set[tuple[str, str]], groups: str) -> set[tuple[str, str]]:
    """What is cached, with groups in the forms in which they are read."""
    native = {(one.group, one.plural) for one in OWN_GROUP_KINDS}
    forms = groups.split(",") if groups else ["native", "own"]
    grouped = {
        ("scheduling.k8s.io" if form == "native" else "scheduling.echelon.dev", plural)
        for form in forms
        for _, plural in found & native
    }
    return found - native | grouped


@pytest.mark.parametrize("groups", ["", *CHOICES])
async def test_the_scheduler_may_read_what_it_caches_and_nothing_else(groups: str) -> None:
    found = cached(cluster_mode.scheduler(LiveConfiguration(SCHEDULER_PROGRAM, {})))
    assert readable(rules_of("scheduler", InstallOptions(groups=groups))) == in_forms(found, groups)


@pytest.mark.parametrize("groups", ["", *CHOICES])
@pytest.mark.parametrize("name", OWN_CONTROLLERS)
async def test_a_controller_may_read_what_it_caches_and_nothing_else(name: str, groups: str) -> None:
    allowed = readable(rules_of("controllers", InstallOptions(controllers=(name,), groups=groups)))
    # Kinds of other schedulers, and the definitions they come with, are followed as soon as it leads.
    later = {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("scheduling.x-k8s.io", "podgroups"),
        ("scheduling.volcano.sh", "podgroups"),
    }
    found = cached(cluster_mode.controllers(LiveConfiguration(CONTROLLERS_PROGRAM, {"only": (name,)})))
    assert allowed - later == in_forms(found, groups)
    assert bool(allowed & later) == (name == "trainjob")


def test_no_rule_has_wildcards_and_no_resource_stands_in_two() -> None:
    for part in PARTS:
        seen = [(rule.group, one) for rule in rules_of(part, OPTIONS) for one in rule.resources]
        assert len(seen) == len(set(seen))
        assert not [rule for rule in rules_of(part, OPTIONS) if "*" in (rule.group, *rule.resources, *rule.verbs)]


@pytest.mark.parametrize("part", PARTS)
def test_a_lease_keeps_its_name_whatever_is_chosen_and_may_be_changed_by_it_only(part: str) -> None:
    """Replicas of before and after an upgrade elect one leader, and those of before keep their right to lead."""
    chosen = InstallOptions(scheduler_names=("echelon", "mine"), controllers=("trainjob", "jobset"))
    for options in (OPTIONS, chosen):
        (role,) = [one for one in access_objects(part, options) if one["kind"] == "Role"]
        assert [rule.get("resourceNames") for rule in role["rules"]] == [None, [f"echelon-{part}"]]
        told = arguments(part, options)
        assert told[told.index("--lease") + 1] == f"echelon-{part}"


def expressions() -> Iterator[str]:
    for rule in of_kind("PrometheusRule"):
        yield from (one["expr"] for one in rule["spec"]["groups"][0]["rules"])
    for config_map in of_kind("ConfigMap"):
        yield from re.findall(r'"expr": "(.*)"', config_map["data"].get("echelon.json", ""))


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    page = METRICS_PAGE.read_text()
    names = {name for text in expressions() for name in re.findall(r"\b(?:echelon|scheduler|process|leader)_\w+", text)}
    assert len(names) > 12
    for name in names:
        known = name.removesuffix("_bucket")
        assert f"`{known}`" in page or known.startswith("process_"), name


def alerts() -> list[Object]:
    return [alert for rule in of_kind("PrometheusRule") for alert in rule["spec"]["groups"][0]["rules"]]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")}
    assert {alert["alert"] for alert in alerts()} == pages
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"docs/runbooks/{alert['alert']}.md"
        text = (RUNBOOKS / f"{alert['alert']}.md").read_text()
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert headings == [f"# {alert['alert']}", "## Symptom", "## Check", "## Fix"]


def test_alerts_of_a_part_that_is_not_installed_are_left_out() -> None:
    only = InstallOptions(monitoring=True, parts=("controllers",))
    [rule] = of_kind("PrometheusRule", only)
    names = {alert["alert"] for alert in rule["spec"]["groups"][0]["rules"]}
    assert names == {"EchelonControllersDown", "EchelonNoLeader", "EchelonObjectsSetAside", "EchelonConfigRefused"}
