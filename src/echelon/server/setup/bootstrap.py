"""Creates the initial objects: namespaces and priority classes of a real cluster, and the Trainer version.

Runs at every start; existing objects are not changed.  Built-in runtimes are passed in as objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api.access.default_roles import default_roles
from ...api.errors import ApiError
from ...api.objects.meta import namespace
from ...api.scheme import PODS, Object, by_kind
from ...api.verbs import WriteOptions
from ...store.interface import Record
from ..objects.object_cache import resource_of
from ..objects.stored_objects import Access
from ..verbs.create import create
from ..verbs.update import is_finished

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kubeflow-system")
_SYSTEM_PRIORITIES = (
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their node."),
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that the cluster cannot do without."),
)
#: The Trainer release whose API is served; its Python client reads it.
_TRAINER_VERSION = "2.3.0"


def _first_objects() -> Iterable[Object]:
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name, value, description in _SYSTEM_PRIORITIES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
    yield from default_roles()
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kubeflow-trainer-public", "namespace": "kubeflow-system"},
        "data": {"kubeflow_trainer_version": _TRAINER_VERSION},
    }


#: What the bytes of a marked object contain, so that not every pod is decoded.
_MARK = b'"deletionTimestamp"'


async def bootstrap(access: Access, objects: Iterable[Object]) -> None:
    """Create missing initial objects and `objects`; complete deletions that a crash interrupted."""
    for obj in (*_first_objects(), *objects):
        resource = by_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ValueError(f"unknown kind {obj['kind']} in {obj['apiVersion']}")
        try:
            await create(access, resource, obj, namespace(obj), WriteOptions())
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    for record in access.store.scan(PODS.prefix):
        if _MARK in record.value:
            await _finish_deletion(access, record)


async def _finish_deletion(access: Access, record: Record) -> None:
    """Remove a pod that was marked with grace period 0 before a crash."""
    tree = access.trees.of_record(record)
    if is_finished(resource_of(record.key), tree):
        await access.remove(tree, record)
