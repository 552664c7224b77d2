"""What a CustomResourceDefinition says beyond the schema that our own server uses: CEL rules, and defaults of JobSet.

Our server has both as code, in `api.rules`, and an installation has all rules as policies (`deploy.admission`).  These
few hold without policies too, and upstream's definitions have most of them.  A rule about `oldSelf` is asked where both
values are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..scheme import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES, Resource
from .definitions import Schema

RULES = "x-kubernetes-validations"
Rules = Mapping[str, dict[str, str]]


def _immutable(holder: str, fields: Iterable[str]) -> Rules:
    return {f"{holder}.{field}": {"rule": "self == oldSelf", "message": "field is immutable"} for field in fields}


def _only_one(*members: str) -> dict[str, str]:
    present = ", ".join(f"has(self.{member})" for member in members)
    return {
        "rule": f"[{present}].filter(one, one).size() <= 1",
        "message": f"only one of {', '.join(members)} may be set",
    }


_STORAGE_URI = {
    "rule": "self == '' || self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    "message": "storageUri must be empty or have the form scheme://place, such as hf://org/repository",
}
_JOB_SET: Rules = _immutable(
    "spec",
    (
        "network",
        "successPolicy",
        "failurePolicy",
        "startupPolicy",
        "executionPolicy",
        "volumeClaimPolicies",
        "coordinator",
        "managedBy",
    ),
)
_TRAIN_JOB: Rules = {
    **_immutable("spec", ("runtimeRef", "initializer", "trainer", "activeDeadlineSeconds", "managedBy")),
    "spec.initializer.dataset.storageUri": _STORAGE_URI,
    "spec.initializer.model.storageUri": _STORAGE_URI,
}
_RUNTIME: Rules = {
    "spec.mlPolicy": _only_one("torch", "mpi", "jax", "xgboost", "flux"),
    "spec.podGroupPolicy": _only_one("coscheduling", "volcano", "workload"),
    **_immutable(
        "spec.template.spec", ("failurePolicy", "network", "startupPolicy", "successPolicy", "volumeClaimPolicies")
    ),
}
#: Rules by kind and path.
CRD_RULES: Mapping[Resource, Rules] = {
    JOB_SETS: _JOB_SET,
    TRAIN_JOBS: _TRAIN_JOB,
    TRAINING_RUNTIMES: _RUNTIME,
    CLUSTER_TRAINING_RUNTIMES: _RUNTIME,
}
_JOB_SET_DEFAULTS: Mapping[str, Any] = {
    "spec.network": {},
    "spec.network.enableDNSHostnames": True,
    "spec.network.publishNotReadyAddresses": True,
    "spec.successPolicy": {"operator": "All"},
    "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "spec.replicatedJobs[].template.spec.completionMode": "Indexed",
    "spec.replicatedJobs[].template.spec.template.spec.restartPolicy": "OnFailure",
    "spec.volumeClaimPolicies[].retentionPolicy": {},
}


def complete(resource: Resource, root: Schema) -> None:
    """Add rules and defaults to the schema of a definition, in place."""
    for path, rule in CRD_RULES.get(resource, {}).items():
        _at(root, path)[RULES] = [dict(rule)]
    if resource == JOB_SETS:
        for path, value in _JOB_SET_DEFAULTS.items():
            _at(root, path)["default"] = value


def _at(schema: Schema, path: str) -> Schema:
    for part in path.split("."):
        schema = schema["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema
