"""Pods and records of containers for the decisions of process nodes."""

from __future__ import annotations

from typing import Any

from echelon.agents.process.rules.attempts import Attempt, Attempts
from echelon.agents.process.rules.pod_plan import PodFacts
from echelon.api.scheme import Object

NOW = 1_000_000.0


def pod(*containers: str, init: tuple[Object, ...] = (), policy: str = "Always", **spec: Any) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": {"b": "2", "a": 'x"y'}},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": name, "image": "i"} for name in containers or ("c",)],
            "initContainers": list(init),
            "nodeName": "n",
            **spec,
        },
        "status": {},
    }


def ran(name: str, code: int | None = None, number: int = 0, ago: float = 0.0, **more: Any) -> Attempt:
    """An attempt that runs, or ended with a code some seconds ago."""
    finished = 0.0 if code is None else NOW - ago
    return Attempt(name, number, NOW - ago - 1, finished, code, **more)


def facts(*attempts: Attempt, **more: Any) -> PodFacts:
    known: dict[str, tuple[Attempt, ...]] = {}
    for attempt in attempts:
        known[attempt.container] = (*known.get(attempt.container, ()), attempt)
    return PodFacts(Attempts(known), NOW, **more)
