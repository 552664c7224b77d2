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
