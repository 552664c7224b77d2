"""Evictions under a PodDisruptionBudget, through the pipeline, with its status kept true."""

from __future__ import annotations

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import POD_DISRUPTION_BUDGETS, PODS
from echelon.controllers.disruption_budgets import DisruptionController
from tests.controller_plane import ControllerPlane, in_virtual_time


def test_an_eviction_is_granted_while_the_budget_lasts() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        for index in range(3):
            await plane.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"p{index}", "namespace": "default", "labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
                }
            )
        await plane.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}},
            }
        )

        async def one_may_go() -> bool:
            budget = await plane.get(POD_DISRUPTION_BUDGETS, "b")
            return (budget.get("status") or {}).get("disruptionsAllowed") == 1

        await plane.until(one_may_go)
        await plane.api.evict("default", "p0")
        with pytest.raises(ApiError, match="disruption budget") as refusal:
            await plane.api.evict("default", "p1")
        assert refusal.value.code == 429

        async def two_left() -> bool:
            return await plane.names(PODS) == ["p1", "p2"]

        await plane.until(two_left)

    in_virtual_time(scenario, controllers=lambda caches: [DisruptionController(caches)])


def test_a_budget_counts_the_replicas_that_a_controller_wants() -> None:
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }

    async def scenario(plane: ControllerPlane) -> None:
        owner = await plane.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": "r", "namespace": "default"},
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template},
            }
        )
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": owner["metadata"]["uid"]}
        for index in range(2):
            metadata = {
                "name": f"p{index}",
                "namespace": "default",
                "labels": {"app": "a"},
                "ownerReferences": [{**reference, "controller": True}],
            }
            await plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        await plane.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}},
            }
        )

        async def both_are_healthy() -> bool:
            budget = await plane.get(POD_DISRUPTION_BUDGETS, "b")
            return (budget.get("status") or {}).get("currentHealthy") == 2

        await plane.until(both_are_healthy)
        status = (await plane.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
        assert (status["expectedPods"], status["disruptionsAllowed"]) == (3, 0)

    in_virtual_time(scenario, controllers=lambda caches: [DisruptionController(caches)])
