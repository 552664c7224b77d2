"""The built-in ClusterTrainingRuntimes: package data, one file each in data/runtimes.

Every runtime has a twin whose name ends with `-gang`: the same, and its trainer starts whole or not at all.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml

from ..scheme import Object
from .subtree import items, mapping

#: The framework of a runtime's mlPolicy -> the built-in runtime that it is like.
_LIKE = {
    "torch": "torch-distributed",
    "mpi": "deepspeed-distributed",
    "jax": "jax-distributed",
    "xgboost": "xgboost-distributed",
    "flux": "flux-distributed",
}
_PLAIN = "plain-cpu"


def builtin_runtimes() -> list[Object]:
    """All built-in runtimes, by file name, each followed by its twin."""
    return [one for runtime in _from_files().values() for one in (runtime, _twin(runtime))]


def likeness(runtime: Object) -> str:
    """The built-in runtime whose template a runtime takes that has none of its own; "" if it has one."""
    if items(runtime, "spec", "template", "spec", "replicatedJobs"):
        return ""
    policy = mapping(runtime, "spec", "mlPolicy")
    return next((name for framework, name in _LIKE.items() if framework in policy), _PLAIN)


def template_of(runtime: Object) -> Object:
    """The JobSet template of a runtime: its own, else that of the built-in runtime of its framework."""
    own, like = mapping(runtime, "spec", "template"), likeness(runtime)
    if not like:
        return own
    spec = {**mapping(_from_files()[like], "spec", "template", "spec"), **mapping(own, "spec")}
    spec["replicatedJobs"] = _from_files()[like]["spec"]["template"]["spec"]["replicatedJobs"]
    return {**own, "spec": spec}


@cache
def _from_files() -> dict[str, Object]:
    folder = resources.files("echelon.api").joinpath("data", "runtimes")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return {one.name.removesuffix(".yaml"): yaml.safe_load(one.read_text(encoding="utf-8")) for one in files}


def _twin(runtime: Object) -> Object:
    metadata = {**runtime["metadata"], "name": f"{runtime['metadata']['name']}-gang"}
    return {**runtime, "metadata": metadata, "spec": {"podGroupPolicy": {"workload": {}}, **runtime["spec"]}}
