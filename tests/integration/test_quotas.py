"""Quotas and limit ranges through the pipeline: never exceeded, released in time, exact after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.scheme import Object, Resource
from echelon.api.verbs import DeleteOptions, Patch, PatchType, WriteOptions
from echelon.base.rng import Rng
from echelon.runtime.clocks import RealClock
from echelon.server.objects.object_cache import ObjectCache, header_of
from echelon.server.objects.quota_ledger import QuotaLedger
from echelon.server.pipeline import Pipeline
from echelon.store.interface import RevisionMismatch, Store
from echelon.store.sqlite import open_sqlite

NS = "default"


@pytest.fixture
async def served(store: Store) -> AsyncIterator[Pipeline]:
    """A pipeline with its background work."""
    made = Pipeline(store, RealClock(), Rng(1))
    await made.bootstrap()
    work = asyncio.create_task(made.run())
    yield made
    work.cancel()


def quota(name: str = "q", scopes: list[str] | None = None, selector: Object | None = None, **hard: str) -> Object:
    spec: Object = {"hard": {key.replace("__", "/").replace("_", "."): amount for key, amount in hard.items()}}
    spec |= {"scopes": scopes} if scopes else {}
    spec |= {"scopeSelector": {"matchExpressions": [selector]}} if selector else {}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, resources: Object | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": resources or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def config(name: str) -> Object:
    return {"metadata": {"name": name}}


async def used(pipeline: Pipeline, name: str = "q", **expected: str) -> Object:
    """The status of a quota, once `used` is as expected."""
    wanted = {key.replace("__", "/").replace("_", "."): amount for key, amount in expected.items()}
    async with asyncio.timeout(60):
        while True:
            found: Object = (await pipeline.get(scheme.RESOURCE_QUOTAS, name, NS)).get("status") or {}
            if found.get("used") == wanted:
                return found
            await asyncio.sleep(0.01)


async def refused(pipeline: Pipeline, resource: Resource, obj: Object) -> str:
    with pytest.raises(ApiError) as caught:
        await pipeline.create(resource, obj, NS)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    return caught.value.message


async def test_the_status_says_what_is_allowed_and_used(served: Pipeline) -> None:
    await served.create(scheme.CONFIG_MAPS, config("before"), NS)
    devices = {"gold_deviceclass_resource_k8s_io__devices": "0"}
    await served.create(scheme.RESOURCE_QUOTAS, quota(configmaps="3", pods="1", a_b__c="1", **devices), NS)
    status = await used(served, configmaps="1", pods="0", **devices)
    assert status["hard"] == {
        "configmaps": "3", "pods": "1", "a.b/c": "1", "gold.deviceclass.resource.k8s.io/devices": "0",
    }  # fmt: skip
    await served.create(scheme.CONFIG_MAPS, config("after"), NS)
    await used(served, configmaps="2", pods="0", **devices)
    await served.delete(scheme.CONFIG_MAPS, "before", NS)
    await used(served, configmaps="1", pods="0", **devices)


async def test_a_refusal_says_what_was_asked_used_and_allowed(pipeline: Pipeline) -> None:
    await pipeline.create(scheme.RESOURCE_QUOTAS, quota(pods="5", requests_cpu="1"), NS)
    await pipeline.create(scheme.PODS, pod("a", {"requests": {"cpu": "600m"}}), NS)
    assert await refused(pipeline, scheme.PODS, pod("b", {"requests": {"cpu": "500m"}})) == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    )
    assert await refused(pipeline, scheme.PODS, pod("b")) == (
        'pods "b" is forbidden: failed quota: q: must specify requests.cpu for: c'
    )


async def test_concurrent_creations_never_exceed_a_quota(tmp_path: Path) -> None:
    """On a store whose commits take time, so that creations overlap; the quota itself comes in their midst."""
    store = open_sqlite(tmp_path, header_of)
    pipeline = Pipeline(store, RealClock(), Rng(1))
    await pipeline.bootstrap()

    async def attempt(number: int) -> bool:
        try:
            await pipeline.create(scheme.CONFIG_MAPS, config(f"c{number}"), NS)
        except ApiError as error:
            if error.code != 403:
                raise
            return False
        return True

    early = [asyncio.create_task(attempt(number)) for number in range(10)]
    await asyncio.sleep(0)
    made = asyncio.create_task(pipeline.create(scheme.RESOURCE_QUOTAS, quota(configmaps="30"), NS))
    await asyncio.sleep(0)
    late = [asyncio.create_task(attempt(number)) for number in range(10, 20)]
    await asyncio.gather(made, *early, *late)
    later = await asyncio.gather(*(attempt(number) for number in range(20, 80)))
    assert sum(later) == 10
    assert len((await pipeline.list(scheme.CONFIG_MAPS, NS)).items) == 30
    await store.close()


@pytest.mark.parametrize(("failed", "count"), [(False, "1"), (True, "0")])
async def test_a_write_that_is_under_way_while_its_quota_comes_is_counted(
    store: Store, failed: bool, count: str
) -> None:
    trees = ObjectCache()
    ledger = QuotaLedger(store, trees)
    made: Object = {**quota(configmaps="5"), "metadata": {"name": "q", "namespace": NS, "uid": "u"}}
    key = scheme.RESOURCE_QUOTAS.key("q", NS)
    # Accepted at a revision that is not durable yet.
    under_way = {"metadata": {"name": "c", "namespace": NS, "resourceVersion": "999"}}
    change = ledger.counted(scheme.CONFIG_MAPS, scheme.CONFIG_MAPS.key("c", NS), None, under_way, under_way)
    with suppress(RevisionMismatch), ExitStack() as writing:
        with ledger.counted(scheme.RESOURCE_QUOTAS, key, None, made, made):
            writing.enter_context(change)
            await store.put(key, lambda _: msgspec.json.encode(made), 0)
        assert ledger.used(NS, "q") == {"configmaps": "1"}
        if failed:
            raise RevisionMismatch("c", 1)
    assert ledger.used(NS, "q") == {"configmaps": count}


async def test_a_creation_that_fails_uses_nothing(pipeline: Pipeline) -> None:
    await pipeline.create(scheme.RESOURCE_QUOTAS, quota(configmaps="2"), NS)
    await pipeline.create(scheme.CONFIG_MAPS, config("a"), NS)
    for _ in range(5):
        with pytest.raises(ApiError) as caught:
            await pipeline.create(scheme.CONFIG_MAPS, config("a"), NS)
        assert caught.value.reason == "AlreadyExists"
    await pipeline.create(scheme.CONFIG_MAPS, config("x"), NS, WriteOptions(dry_run=True))
    await pipeline.create(scheme.CONFIG_MAPS, config("b"), NS)
    await refused(pipeline, scheme.CONFIG_MAPS, config("c"))
    with pytest.raises(ApiError) as caught:
        await pipeline.create(scheme.CONFIG_MAPS, config("c"), NS, WriteOptions(dry_run=True))
    assert caught.value.code == 403


async def test_a_pod_that_ended_is_still_an_object_but_uses_nothing(served: Pipeline) -> None:
    hard = quota(pods="1", count__pods="5", limits_memory="1Gi")
    await served.create(scheme.RESOURCE_QUOTAS, hard, NS)
    await served.create(scheme.PODS, pod("a", {"limits": {"memory": "1Gi"}}), NS)
    await used(served, pods="1", count__pods="1", limits_memory="1Gi")
    ended = Patch(PatchType.MERGE, {"status": {"phase": "Succeeded"}})
    await served.patch(scheme.PODS, "a", ended, NS, "status")
    await used(served, pods="0", count__pods="1", limits_memory="0")
    await served.create(scheme.PODS, pod("b", {"limits": {"memory": "1Gi"}}), NS)
    await served.delete(scheme.PODS, "a", NS, DeleteOptions(grace_period_seconds=0))
    await used(served, pods="1", count__pods="1", limits_memory="1Gi")


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("Terminating", {"activeDeadlineSeconds": 5}, {}),
        ("NotTerminating", {}, {"activeDeadlineSeconds": 5}),
        ("BestEffort", {}, {"resources": {"requests": {"cpu": "1"}}}),
        ("NotBestEffort", {"resources": {"requests": {"cpu": "1"}}}, {}),
        ("PriorityClass", {"priorityClassName": "system-node-critical"}, {}),
    ],
)
async def test_a_scope_counts_only_its_own_pods(served: Pipeline, scope: str, inside: Object, outside: Object) -> None:
    await served.create(scheme.RESOURCE_QUOTAS, quota(scopes=[scope], pods="1"), NS)
    await served.create(scheme.PODS, pod("in", **inside), NS)
    await served.create(scheme.PODS, pod("out", **outside), NS)
    await used(served, pods="1")
    assert "exceeded quota: q" in await refused(served, scheme.PODS, pod("more", **inside))


async def test_a_scope_selector_chooses_priority_classes(served: Pipeline) -> None:
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    await served.create(scheme.RESOURCE_QUOTAS, quota(selector=selector, pods="1"), NS)
    await served.create(scheme.PODS, pod("other", priorityClassName="system-cluster-critical"), NS)
    await served.create(scheme.PODS, pod("a", priorityClassName="system-node-critical"), NS)
    await used(served, pods="1")
    await refused(served, scheme.PODS, pod("b", priorityClassName="system-node-critical"))


async def test_a_pod_that_enters_a_scope_is_counted_then(served: Pipeline) -> None:
    await served.create(scheme.RESOURCE_QUOTAS, quota(scopes=["Terminating"], pods="1"), NS)
    for name in ("a", "b"):
        await served.create(scheme.PODS, pod(name), NS)
    deadline = Patch(PatchType.MERGE, {"spec": {"activeDeadlineSeconds": 5}})
    await served.patch(scheme.PODS, "a", deadline, NS)
    await used(served, pods="1")
    with pytest.raises(ApiError) as caught:
        await served.patch(scheme.PODS, "b", deadline, NS)
    assert caught.value.code == 403


async def test_services_and_claims_count_what_they_ask_for(served: Pipeline) -> None:
    hard = {"services": "3", "services_nodeports": "2", "services_loadbalancers": "0", "requests_storage": "3Gi"}
    await served.create(scheme.RESOURCE_QUOTAS, quota(**hard), NS)
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    await served.create(scheme.SERVICES, {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}, NS)
    balancer = {"metadata": {"name": "t"}, "spec": {"type": "LoadBalancer", "ports": ports[:1]}}
    assert "services.loadbalancers=1,services.nodeports=1" in await refused(served, scheme.SERVICES, balancer)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    await served.create(scheme.VOLUME_CLAIMS, {"metadata": {"name": "c"}, "spec": claim}, NS)
    assert "requested: requests.storage=2Gi, used: requests.storage=2Gi" in await refused(
        served, scheme.VOLUME_CLAIMS, {"metadata": {"name": "d"}, "spec": claim}
    )
    await used(served, services="1", services_nodeports="2", services_loadbalancers="0", requests_storage="2Gi")


async def test_a_changed_quota_counts_anew_and_a_deleted_one_no_more(served: Pipeline) -> None:
    await served.create(scheme.CONFIG_MAPS, config("a"), NS)
    await served.create(scheme.RESOURCE_QUOTAS, quota(configmaps="1"), NS)
    await refused(served, scheme.CONFIG_MAPS, config("b"))
    wider = Patch(PatchType.MERGE, {"spec": {"hard": {"configmaps": "2", "count/secrets": "7"}}})
    await served.patch(scheme.RESOURCE_QUOTAS, "q", wider, NS)
    await served.create(scheme.CONFIG_MAPS, config("b"), NS)
    await used(served, configmaps="2", count__secrets="0")
    await served.delete(scheme.RESOURCE_QUOTAS, "q", NS)
    await served.create(scheme.CONFIG_MAPS, config("c"), NS)


async def test_a_status_that_somebody_wrote_is_put_right(served: Pipeline) -> None:
    await served.create(scheme.RESOURCE_QUOTAS, quota(pods="1"), NS)
    await used(served, pods="0")
    wrong = Patch(PatchType.MERGE, {"status": {"hard": {"pods": "9"}, "used": {"pods": "8"}}})
    written = await served.patch(scheme.RESOURCE_QUOTAS, "q", wrong, NS, "status")
    assert written["status"]["hard"] == {"pods": "9"}
    assert (await used(served, pods="0"))["hard"] == {"pods": "1"}


async def test_quotas_are_counted_exactly_after_a_restart(tmp_path: Path) -> None:
    for allowed in (True, False):
        store = open_sqlite(tmp_path, header_of)
        pipeline = Pipeline(store, RealClock(), Rng(int(allowed)))
        await pipeline.bootstrap()
        if allowed:
            await pipeline.create(scheme.RESOURCE_QUOTAS, quota(configmaps="2"), NS)
            await pipeline.create(scheme.CONFIG_MAPS, config("a"), NS)
        else:
            await pipeline.create(scheme.CONFIG_MAPS, config("b"), NS)
            assert "used: configmaps=2" in await refused(pipeline, scheme.CONFIG_MAPS, config("c"))
        await store.close()


# -- limit ranges ------------------------------------------------------------------------------------------------

LIMITS: Object = {
    "metadata": {"name": "l"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "min": {"cpu": "100m"},
                "max": {"cpu": "2", "memory": "1Gi"},
                "default": {"cpu": "500m"},
                "defaultRequest": {"cpu": "200m"},
                "maxLimitRequestRatio": {"cpu": "4"},
            },
            {"type": "Pod", "max": {"cpu": "1"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ]
    },
}


async def test_a_limit_range_completes_containers_and_says_so(pipeline: Pipeline) -> None:
    await pipeline.create(scheme.LIMIT_RANGES, LIMITS, NS)
    made = await pipeline.create(scheme.PODS, pod("a", {"requests": {"memory": "1Mi"}}), NS)
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "1Mi", "cpu": "200m"},
        "limits": {"cpu": "500m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu, memory limit for "
        "container c"
    }
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        ({"requests": {"cpu": "200m"}, "limits": {"cpu": "3"}}, "maximum cpu usage per Container is 2, but limit is 3"),
        (
            {"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}},
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}},
            "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000",
        ),
        ({"limits": {"cpu": "1500m"}}, "maximum cpu usage per Pod is 1, but limit is 1500m"),
        (
            {"requests": {"cpu": "0"}, "limits": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 4, but no request is specified or request is 0",
        ),
    ],
)
async def test_a_pod_outside_the_limits_is_refused(pipeline: Pipeline, resources: Object, why: str) -> None:
    await pipeline.create(scheme.LIMIT_RANGES, LIMITS, NS)
    assert why in await refused(pipeline, scheme.PODS, pod("a", resources))


async def test_a_pod_that_is_invalid_anyway_is_told_so_first(pipeline: Pipeline) -> None:
    await pipeline.create(scheme.LIMIT_RANGES, LIMITS, NS)
    with pytest.raises(ApiError) as caught:
        await pipeline.create(scheme.PODS, pod("a", {"requests": {"cpu": "3"}}), NS)
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("amount", "why"),
    [
        ("500Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ],
)
async def test_a_claim_outside_the_limits_is_refused(pipeline: Pipeline, amount: str, why: str) -> None:
    await pipeline.create(scheme.LIMIT_RANGES, LIMITS, NS)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}
    told = await refused(pipeline, scheme.VOLUME_CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    assert told == f'persistentvolumeclaims "c" is forbidden: {why}'


async def test_limits_do_not_touch_pods_that_are_there(pipeline: Pipeline) -> None:
    await pipeline.create(scheme.PODS, pod("a"), NS)
    await pipeline.create(scheme.LIMIT_RANGES, LIMITS, NS)
    labelled = await pipeline.patch(scheme.PODS, "a", Patch(PatchType.MERGE, {"metadata": {"labels": {"x": "y"}}}), NS)
    assert labelled["spec"]["containers"][0]["resources"] == {}
