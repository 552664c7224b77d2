"""The EndpointSlice controller: fills EndpointSlices of every Service that selects pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.vocabulary import JOBSET_NAME
from ..api.scheme import ENDPOINT_SLICES, PODS, SERVICES, Object
from ..client.informer import Caches, by_jobset, by_namespace
from ..decide.endpoint_slices import MANAGED_BY, MANAGER, SERVICE_NAME, reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, own_key

_NAMESPACE, _JOBSET, _SELECTED, _SERVICE = "namespace", "jobset", "selected", "service"
#: Pods of a job come and go together.
_BATCH_SECONDS = 0.1


def _first_term(service: Object) -> Iterable[str]:
    """One term of the selector, under which a pod that it selects is sure to find the Service."""
    selector = (service.get("spec") or {}).get("selector") or {}
    return (f"{meta.namespace(service)}/{key}={selector[key]}" for key in sorted(selector)[:1])


def _service_of(one: Object) -> Iterable[str]:
    labels = meta.labels(one)
    if labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
        return (f"{meta.namespace(one)}/{labels[SERVICE_NAME]}",)
    return ()


class EndpointSliceController:
    name = "endpointslice"

    def __init__(self, caches: Caches) -> None:
        self._services = caches.of(SERVICES, {_SELECTED: _first_term})
        self._pods = caches.of(PODS, {_NAMESPACE: by_namespace, _JOBSET: by_jobset})
        self._slices = caches.of(ENDPOINT_SLICES, {_SERVICE: _service_of})

    def sources(self) -> Sequence[Source]:
        return (
            Source(SERVICES, own_key),
            Source(PODS, self._selecting, _BATCH_SECONDS),
            Source(ENDPOINT_SLICES, _service_of),
        )

    def decide(self, key: str, now: float) -> Plan:
        service = self._services.get(key)
        if service is None or meta.deleting(service):
            return NOTHING
        spec = service["spec"]
        selector = spec.get("selector") or {}
        if not selector or spec.get("type") == "ExternalName":
            return NOTHING
        pods = [pod for pod in self._candidates(service, selector) if _matches(selector, pod)]
        return reconcile(service, pods, self._slices.find(_SERVICE, key))

    def _candidates(self, service: Object, selector: dict[str, str]) -> list[Object]:
        """Services of JobSets are many, in a namespace with many pods."""
        namespace = meta.namespace(service)
        if JOBSET_NAME in selector:
            return self._pods.find(_JOBSET, f"{namespace}/{selector[JOBSET_NAME]}")
        return self._pods.find(_NAMESPACE, namespace)

    def _selecting(self, pod: Object) -> Iterable[str]:
        """A change of a pod concerns the Services that select it."""
        if not pod["spec"].get("nodeName"):
            return
        namespace = meta.namespace(pod)
        for key, value in meta.labels(pod).items():
            for service in self._services.find(_SELECTED, f"{namespace}/{key}={value}"):
                if _matches(service["spec"]["selector"], pod):
                    yield meta.key(service)


def _matches(selector: dict[str, str], pod: Object) -> bool:
    labels = meta.labels(pod)
    return all(labels.get(key) == value for key, value in selector.items())
