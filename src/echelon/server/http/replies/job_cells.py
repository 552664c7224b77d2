"""Table cells of Jobs."""

from __future__ import annotations

from ....api.objects import meta
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


def _template_containers(job: Object) -> list[Object]:
    template = (job.get("spec") or {}).get("template") or {}
    return list((template.get("spec") or {}).get("containers") or ())


def job_containers(job: Object, _now: float) -> str:
    return ",".join(container["name"] for container in _template_containers(job))


def job_images(job: Object, _now: float) -> str:
    return ",".join(container.get("image", "") for container in _template_containers(job))


def job_selector(job: Object, _now: float) -> str:
    selector = (job.get("spec") or {}).get("selector") or {}
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    terms += [_expression(expression) for expression in selector.get("matchExpressions") or ()]
    return ",".join(terms) or "<none>"


def _expression(expression: Object) -> str:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(expression.get('values') or ())})"
