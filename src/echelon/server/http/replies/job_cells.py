"""Table cells of Jobs, and of the pod template that Jobs and replicated kinds have."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.selectors import selector_text
from ....api.scheme import Object
from ....base import instants
from .durations import duration


def job_status(job: Object, _now: float) -> str:
    if meta.condition_is(job, "Complete"):
        return "Complete"
    if meta.condition_is(job, "Failed"):
        return "Failed"
    if meta.deleting(job):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if meta.condition_is(job, type_):
            return type_
    return "Running"


def completions(job: Object, _now: float) -> str:
    spec = job.get("spec") or {}
    succeeded = (job.get("status") or {}).get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: Object, now: float) -> str:
    """From start to completion or failure; up to now while it runs."""
    status = job.get("status") or {}
    start = status.get("startTime")
    if not start:
        return ""
    failed = meta.find_condition(job, "Failed") or {}
    end = status.get("completionTime") or (failed.get("lastTransitionTime") if failed.get("status") == "True" else None)
    return duration((instants.parse(end) if end else now) - instants.parse(start))


def _template_containers(obj: Object) -> list[Object]:
    template = (obj.get("spec") or {}).get("template") or {}
    return list((template.get("spec") or {}).get("containers") or ())


def template_containers(obj: Object, _now: float) -> str:
    return ",".join(container["name"] for container in _template_containers(obj))


def template_images(obj: Object, _now: float) -> str:
    return ",".join(container.get("image", "") for container in _template_containers(obj))


def pod_selector(obj: Object, _now: float) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    is_map_of_labels = any(isinstance(value, str) for value in selector.values())
    return selector_text({"matchLabels": selector} if is_map_of_labels else selector) or "<none>"


def ready_of_wanted(obj: Object, _now: float) -> str:
    """Ready pods of those wanted."""
    ready = (obj.get("status") or {}).get("readyReplicas") or 0
    return f"{ready}/{(obj.get('spec') or {}).get('replicas') or 0}"
