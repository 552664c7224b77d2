"""The built-in training runtimes are complete and pass the rules that any runtime must pass."""

from __future__ import annotations

import pytest

from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.schema import kind_schema
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, Object

RUNTIMES = {meta.name(runtime): runtime for runtime in builtin_runtimes()}


def test_what_there_is() -> None:
    assert [name for name in RUNTIMES if not name.endswith("-gang")] == [
        "deepspeed-distributed",
        "flux-distributed",
        "jax-distributed",
        "mlx-distributed",
        "plain-cpu",
        "torch-distributed",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
        "xgboost-distributed",
    ]


@pytest.mark.conformance("TJ-1")
@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_a_built_in_runtime_is_valid(runtime: Object) -> None:
    decoded = kind_schema.decode(CLUSTER_TRAINING_RUNTIMES, runtime)
    assert decoded.unknown == []
    assert kind_schema.check(CLUSTER_TRAINING_RUNTIMES, decoded.obj) == []
    assert "trainer.kubeflow.org/framework" in meta.labels(runtime)


def test_every_runtime_has_a_twin_that_differs_only_by_the_gang() -> None:
    for name, runtime in RUNTIMES.items():
        if not name.endswith("-gang"):
            spec = dict(RUNTIMES[f"{name}-gang"]["spec"])
            assert spec.pop("podGroupPolicy") == {"workload": {}}
            assert spec == runtime["spec"]
