"""Which pod and container a stream is about, with the errors of a real server."""

from __future__ import annotations

from collections.abc import Sequence

from ....api import errors
from ....api.objects import meta
from ....api.running_pods import RunningPod, RunningPods
from ....api.scheme import Object


def container_of(pod: Object, named: str) -> str:
    """The container that a request names, or the only one of the pod."""
    spec, name = pod["spec"], meta.name(pod)
    regular, init = _names(spec, "containers"), _names(spec, "initContainers")
    others = [*init, *_names(spec, "ephemeralContainers")]
    if named:
        if named not in (*regular, *others):
            raise errors.bad_request(f"container {named} is not valid for pod {name}")
        return named
    if len(regular) == 1:
        return regular[0]
    choice = f"a container name must be specified for pod {name}, choose one of: [{' '.join(regular)}]"
    if init:
        choice += f" or one of the init containers: [{' '.join(init)}]"
    raise errors.bad_request(choice)


def running_pod(pods: RunningPods | None, pod: Object, action: str) -> RunningPod:
    """The processes of a pod; 400 for a pod that has none, saying why."""
    found = pods.find(meta.uid(pod)) if pods is not None else None
    if found is not None:
        return found
    name = meta.name(pod)
    if not pod["spec"].get("nodeName"):
        raise errors.bad_request(f'cannot {action} pod "{name}": it has not been scheduled to a node')
    if pods is None or is_simulated(pod):
        raise errors.bad_request(
            f'cannot {action} pod "{name}": its containers are simulated and run no process; '
            "nodes that run processes are started with --nodes process"
        )
    raise errors.bad_request(f'cannot {action} pod "{name}": it has not been started')


def why_no_log(pod: Object, container: str) -> str:
    """Why a container has no log, as a kubelet says it."""
    name, waiting = meta.name(pod), _waiting(pod, container)
    if waiting:
        return f'container "{container}" in pod "{name}" is waiting to start: {waiting.get("reason", "Waiting")}'
    return f'container "{container}" in pod "{name}" is not available'


def is_waiting(pod: Object, container: str) -> bool:
    """Whether a container waits to be started, for the first time or again."""
    return bool(_waiting(pod, container))


def _waiting(pod: Object, container: str) -> Object:
    states = (status.get("state") or {} for status in _statuses(pod) if status.get("name") == container)
    return next((state["waiting"] for state in states if state.get("waiting")), {})


def is_simulated(pod: Object) -> bool:
    """Whether containers of a pod that has no process are said to run or to have run."""
    return any({"running", "terminated"} & set(status.get("state") or ()) for status in _statuses(pod))


def _statuses(pod: Object) -> Sequence[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _names(spec: Object, field: str) -> list[str]:
    return [container["name"] for container in spec.get(field) or ()]
