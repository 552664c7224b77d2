"""Install, look, uninstall through HTTPS on our own server, which brings the custom kinds itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import INSTALLATION
from echelon.api.scheme import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCES,
    ROLES,
    SERVICE_ACCOUNTS,
    Object,
    Resource,
)
from echelon.api.verbs import ListOptions, Patch, PatchType, Verbs, WriteOptions
from echelon.client.http import HttpVerbs
from echelon.deploy.checks.findings import examine
from echelon.deploy.objects.access_rights import access_objects
from echelon.deploy.options import InstallOptions, PodOptions
from echelon.runtime.clocks import RealClock
from echelon.runtime.install.applying import MANAGER, CannotInstall, Installer, NotReady
from echelon.runtime.install.examining import examine_cluster
from echelon.runtime.install.gathering import gather
from echelon.runtime.install.steps import Kubeconfig, Wishes, install, uninstall
from echelon.runtime.server_connection import connected
from echelon.testing.builders import make_node
from echelon.testing.device_builders import make_claim_spec
from tests.https_server import running

from .altered_api import AlteredApi

NAMESPACE = "echelon-system"
ALL = ("jobset", "trainjob", "stage-quota", "job-groups")


class Installed:
    """A server, and what the commands say about it."""

    def __init__(self, target: Kubeconfig, verbs: HttpVerbs) -> None:
        self.target = target
        self.verbs = verbs

    async def install(
        self, *, upgrade: bool = False, wait: float | None = None, force: bool = False, **options: object
    ) -> str:
        said: list[str] = []
        wishes = Wishes(InstallOptions(**options), controllers=ALL, wait=wait, force=force)  # type: ignore[arg-type]
        await install(self.target, wishes, said.append, upgrade=upgrade)
        return "\n".join(said)

    async def uninstall(self, namespace: str = NAMESPACE) -> str:
        said: list[str] = []
        await uninstall(self.target, namespace, said.append, purge=False, wait=0.0)
        return "\n".join(said)

    async def labelled(self) -> list[str]:
        options = ListOptions(label_selector=INSTALLATION)
        listed = [await self.verbs.list(one, options=options) for one in RESOURCES]
        return [f"{obj['kind']}/{meta.name(obj)}" for found in listed for obj in found.items]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Installed]:
    async with running(tmp_path / "server") as (server, _):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        target = Kubeconfig(tmp_path / "kubeconfig", None)
        async with connected(target.kubeconfig, None) as (verbs, _):
            yield Installed(target, verbs)


async def test_a_second_install_changes_nothing_and_uninstall_leaves_nothing(cluster: Installed) -> None:
    said = await cluster.install()
    assert "created   Deployment/echelon-controllers in echelon-system" in said
    assert "jobsets.jobset.x-k8s.io is the API server's: it is used and left alone" in said
    count = len(await cluster.labelled())
    assert f"{count} created" in said
    assert (await cluster.install()).splitlines()[-1] == f"{count} unchanged"
    said = await cluster.uninstall()
    assert f"{count} removed" in said
    # Without a namespace controller the namespace stays, deleting.
    assert await cluster.labelled() == [f"Namespace/{NAMESPACE}"]


async def test_what_somebody_has_deleted_is_made_again(cluster: Installed) -> None:
    await cluster.install()
    await cluster.verbs.delete(CLUSTER_ROLES, "echelon-scheduler")
    assert "created   ClusterRole/echelon-scheduler" in await cluster.install()


async def test_leases_of_the_programs_go_with_them_and_others_stay(cluster: Installed) -> None:
    await cluster.install()
    for name in ("echelon-scheduler", "kube-scheduler"):
        lease = {"metadata": {"name": name}, "spec": {"holderIdentity": "somebody"}}
        await cluster.verbs.create(LEASES, lease, "kube-system")
    await cluster.uninstall()
    assert [meta.name(one) for one in (await cluster.verbs.list(LEASES, "kube-system")).items] == ["kube-scheduler"]


async def test_a_namespace_that_was_there_is_used_and_stays(cluster: Installed) -> None:
    await cluster.verbs.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    assert "was there already" in await cluster.install()
    await cluster.uninstall()
    assert not meta.deleting(await cluster.verbs.get(NAMESPACES, NAMESPACE))
    assert await cluster.labelled() == []


async def test_a_namespace_with_objects_of_others_stays(cluster: Installed) -> None:
    await cluster.install()
    await cluster.verbs.create(CONFIG_MAPS, {"metadata": {"name": "mine"}}, NAMESPACE)
    said = await cluster.uninstall()
    assert f"kept      Namespace/{NAMESPACE}: ConfigMap/mine in it are not of Echelon" in said
    assert await cluster.verbs.get(CONFIG_MAPS, "mine", NAMESPACE)


@pytest.mark.parametrize("kind", [NETWORK_POLICIES, RESOURCE_CLAIM_TEMPLATES, REPLICATION_CONTROLLERS])
async def test_a_namespace_with_anything_that_others_have_written_stays(cluster: Installed, kind: Resource) -> None:
    await cluster.install()
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    specs: dict[Resource, Object] = {
        NETWORK_POLICIES: {"podSelector": {}},
        RESOURCE_CLAIM_TEMPLATES: {"spec": make_claim_spec()},
        REPLICATION_CONTROLLERS: {"replicas": 0, "selector": {"a": "b"}, "template": pods},
    }
    await cluster.verbs.create(kind, {"metadata": {"name": "mine"}, "spec": specs[kind]}, NAMESPACE)
    assert f"kept      Namespace/{NAMESPACE}: {kind.kind}/mine in it are not of Echelon" in await cluster.uninstall()


async def test_a_namespace_with_work_of_others_that_has_no_pods_stays(cluster: Installed) -> None:
    await cluster.install()
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {"suspend": True, "template": {"spec": pod}}
    for name in ("a", "b", "c", "d"):
        await cluster.verbs.create(JOBS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
    said = await cluster.uninstall()
    assert f"kept      Namespace/{NAMESPACE}: Job/a, Job/b, Job/c and 1 more in it are not of Echelon" in said
    assert not meta.deleting(await cluster.verbs.get(NAMESPACES, NAMESPACE))


async def test_a_second_installation_elsewhere_is_refused_and_nothing_is_made(cluster: Installed) -> None:
    await cluster.install()
    with pytest.raises(CannotInstall, match="installed in namespace echelon-system already"):
        await cluster.install(namespace="other")
    with pytest.raises(ApiError):
        await cluster.verbs.get(NAMESPACES, "other")
    with pytest.raises(CannotInstall, match="there is an installation in echelon-system"):
        await cluster.uninstall("other")


async def test_fields_of_others_are_named_and_nothing_is_changed(cluster: Installed) -> None:
    await cluster.install()
    await cluster.verbs.delete(SERVICE_ACCOUNTS, "echelon-scheduler", NAMESPACE)
    patch = Patch(PatchType.MERGE, {"spec": {"replicas": 5}})
    await cluster.verbs.patch(DEPLOYMENTS, "echelon-scheduler", patch, NAMESPACE)
    with pytest.raises(CannotInstall, match=r"nothing was changed.*\.spec\.replicas.*--force-conflicts"):
        await cluster.install()
    with pytest.raises(ApiError):
        await cluster.verbs.get(SERVICE_ACCOUNTS, "echelon-scheduler", NAMESPACE)


async def test_objects_of_others_with_our_names_are_not_adopted(cluster: Installed) -> None:
    await cluster.verbs.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await cluster.verbs.create(SERVICE_ACCOUNTS, {"metadata": {"name": "echelon-scheduler"}}, NAMESPACE)
    with pytest.raises(
        CannotInstall,
        match=r"nothing was changed.*ServiceAccount/echelon-scheduler in echelon-system is not of Echelon: .*--force",
    ):
        await cluster.install()
    assert await cluster.labelled() == []
    await cluster.install(force=True)
    assert "ServiceAccount/echelon-scheduler" in await cluster.labelled()


async def test_what_a_new_namespace_would_not_take_is_found_before_anything_is_made(cluster: Installed) -> None:
    pods = PodOptions(node_selector={"pool": "not a label value"})
    with pytest.raises(CannotInstall, match=r"nothing was changed.*Deployment/echelon-scheduler in .*nodeSelector"):
        await cluster.install(pods=pods)
    assert await cluster.labelled() == []


class GuardedApi(AlteredApi):
    """Takes nothing into kube-system."""

    async def create(self, resource: Resource, obj: Object, namespace: str = "", *rest: Any) -> Object:
        if namespace == "kube-system":
            policy = "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request"
            raise ApiError(422, "Invalid", f'{resource.qualified} "a" is forbidden: {policy}: nothing of others here')
        made: Object = await self._verbs.create(resource, obj, namespace, *rest)
        return made


async def test_a_policy_about_another_namespace_does_not_keep_a_new_one_from_being_made(cluster: Installed) -> None:
    guarded: Verbs = GuardedApi(cluster.verbs)  # type: ignore[assignment]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": NAMESPACE}}
    await Installer(guarded, RealClock(), print).rehearse([account], await gather(cluster.verbs))


async def test_replicas_that_do_not_come_are_told(cluster: Installed) -> None:
    with pytest.raises(
        NotReady,
        match=r"echelon-scheduler in echelon-system is not ready after 0 s: .*kubectl describe .* -n echelon-system$",
    ):
        await cluster.install(wait=0.0)


async def test_a_deployment_whose_pods_are_refused_tells_why(cluster: Installed) -> None:
    await cluster.install()
    said = 'pods "echelon-scheduler-x" is forbidden: insufficient quota to match these scopes'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}
    patch = Patch(PatchType.MERGE, {"status": {"conditions": [condition]}})
    await cluster.verbs.patch(DEPLOYMENTS, "echelon-scheduler", patch, NAMESPACE, "status")
    with pytest.raises(NotReady, match=r"it has no pods: .*insufficient quota to match these scopes"):
        await cluster.install(wait=0.0)


async def test_an_older_installation_is_upgraded_and_not_installed_over(cluster: Installed) -> None:
    with pytest.raises(CannotInstall, match="run `echelon install`"):
        await cluster.install(upgrade=True)
    await cluster.install()
    for name in ("echelon-scheduler", "echelon-controllers"):
        patch = Patch(PatchType.MERGE, {"metadata": {"labels": {"app.kubernetes.io/version": "0.0.1"}}})
        await cluster.verbs.patch(DEPLOYMENTS, name, patch, NAMESPACE)
    with pytest.raises(CannotInstall, match="run `echelon upgrade`"):
        await cluster.install()


async def test_an_installation_is_as_new_as_its_newest_part(cluster: Installed) -> None:
    """An upgrade of one part, or one that was interrupted, leaves two versions."""
    await cluster.install()
    patch = Patch(PatchType.MERGE, {"metadata": {"labels": {"app.kubernetes.io/version": "99.0.0"}}})
    await cluster.verbs.patch(DEPLOYMENTS, "echelon-controllers", patch, NAMESPACE)
    with pytest.raises(CannotInstall, match=r"Echelon 99\.0\.0 is installed .* use the newer command"):
        await cluster.install(upgrade=True)


async def test_doctor_sees_rights_that_were_taken_away_and_nodes_in_the_wrong_place(tmp_path: Path) -> None:
    async with running(tmp_path / "server", authorization="rbac") as (server, _):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with connected(tmp_path / "kubeconfig", None) as (verbs, _):
            cluster = Installed(Kubeconfig(tmp_path / "kubeconfig", None), verbs)
            await cluster.install()
            assert [one for one in await _problems(verbs) if one.startswith("service account")] == []
            role = await verbs.get(CLUSTER_ROLES, "echelon-scheduler")
            fewer = [rule for rule in role["rules"] if "nodes" not in rule["resources"]]
            await verbs.update(CLUSTER_ROLES, {**role, "rules": fewer})
            await verbs.create(NODES, make_node("n1", cpu=1))
            (missing,) = [one for one in await _problems(verbs) if one.startswith("service account")]
            assert missing.startswith(
                "service account echelon-scheduler may not list namespaces, watch namespaces, list"
            )
            assert "may not" in missing
            assert "pods" not in missing


async def _problems(verbs: HttpVerbs) -> list[str]:
    findings = examine(await examine_cluster(verbs, RealClock()), ("echelon",))
    return [one.text for one in findings if one.level == "problem"]


async def _elected_by_another_lease(verbs: HttpVerbs) -> None:
    """As if an earlier version had named it."""
    (role,) = [one for one in access_objects("scheduler", InstallOptions()) if one["kind"] == ROLES.kind]
    role["rules"][1]["resourceNames"] = ["echelon-scheduler-other"]
    options = WriteOptions(field_manager=MANAGER)
    await verbs.patch(ROLES, "echelon-scheduler", Patch(PatchType.APPLY, role), "kube-system", options=options)
    await verbs.create(LEASES, {"metadata": {"name": "echelon-scheduler-other"}, "spec": {}}, "kube-system")


async def test_what_another_installation_left_is_removed_and_told(cluster: Installed) -> None:
    await cluster.install()
    await _elected_by_another_lease(cluster.verbs)
    for name, owner in (("echelon-old", NAMESPACE), ("mine", "another")):
        labels = {INSTALLATION: owner}
        await cluster.verbs.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}}, NAMESPACE)
    said = await cluster.install(dashboard=False)
    gone = ["ConfigMap/echelon-dashboard", "ConfigMap/echelon-old", "Lease/echelon-scheduler-other"]
    removed = [line.split()[1] for line in said.splitlines() if line.startswith("removed")]
    assert sorted(removed) == gone
    assert "ConfigMap/echelon-old in echelon-system: an earlier installation made it, this one does not" in said
    assert said.endswith(", 3 removed")
    assert "ConfigMap/mine" in await cluster.labelled()
    assert not {*gone} & {*await cluster.labelled()}
    assert "removed" not in await cluster.install(dashboard=False)


async def test_the_other_part_of_an_installation_stays(cluster: Installed) -> None:
    await cluster.install()
    await _elected_by_another_lease(cluster.verbs)
    before = await cluster.labelled()
    assert "removed" not in await cluster.install(parts=("controllers",))
    assert await cluster.labelled() == before
    assert await cluster.verbs.get(LEASES, "echelon-scheduler-other", "kube-system")
