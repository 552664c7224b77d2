"""Query strings and delete bodies as the option records of `api.verbs`, with a real server's refusals.

A client library sends these by machine, so mistakes are rare and answered exactly: 400 where a value cannot
be read, 422 on `ListOptions` and its kin where values contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...api import errors, selectors
from ...api.errors import ApiError, FieldError
from ...api.scheme import Object, Resource
from ...api.verbs import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from .request import Request

_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_LONGEST_MANAGER = 128


def _refused(kind: str, problems: list[FieldError]) -> ApiError:
    return errors.invalid_object(Resource("meta.k8s.io", "v1", kind.lower(), kind), "", problems)


def _integer(request: Request, name: str) -> int | None:
    text = request.parameter(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})') from None


def list_options(request: Request, resource: Resource) -> ListOptions:
    options = ListOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        limit=max(0, _integer(request, "limit") or 0),
        continue_token=request.parameter("continue"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
    )
    _check_selectors(resource, options.label_selector, options.field_selector)
    problems = _match_problems(options)
    if "sendInitialEvents" in request.query:
        problems.append(errors.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if problems:
        raise _refused("ListOptions", problems)
    if options.continue_token and options.resource_version not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return options


def _match_problems(options: ListOptions) -> list[FieldError]:
    match, path = options.resource_version_match, "resourceVersionMatch"
    if not match:
        return []
    if match not in ("Exact", "NotOlderThan"):
        return [errors.not_supported(path, match, ("Exact", "NotOlderThan", ""))]
    problems = []
    if not options.resource_version:
        problems.append(errors.forbidden_field(path, f"{path} is forbidden unless resourceVersion is provided"))
    if options.continue_token:
        problems.append(errors.forbidden_field(path, f"{path} is forbidden when continue is provided"))
    if match == "Exact" and options.resource_version == "0":
        detail = f'{path} "Exact" is forbidden for resourceVersion "0"'
        problems.append(errors.forbidden_field(path, detail))
    return problems


def watch_options(request: Request, resource: Resource, default_timeout: float) -> WatchOptions:
    timeout = _integer(request, "timeoutSeconds")
    options = WatchOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
        allow_bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None,
        timeout_seconds=float(timeout) if timeout else default_timeout,
    )
    _check_selectors(resource, options.label_selector, options.field_selector)
    version = options.resource_version
    if version and not version.isdigit():
        raise errors.bad_request(f'Invalid value: "{version}": resourceVersion must be a number')
    problems = _initial_events_problems(options)
    if problems:
        raise _refused("ListOptions", problems)
    return options


def _initial_events_problems(options: WatchOptions) -> list[FieldError]:
    match, path = options.resource_version_match, "resourceVersionMatch"
    problems = []
    if options.send_initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(errors.forbidden_field(path, detail))
    if match and options.send_initial_events is None:
        detail = f"{path} is forbidden for watch unless sendInitialEvents is provided"
        problems.append(errors.forbidden_field(path, detail))
    if match and match != "NotOlderThan":
        problems.append(errors.not_supported(path, match, ("NotOlderThan",)))
    return problems


def _check_selectors(resource: Resource, label_selector: str, field_selector: str) -> None:
    """400 for a selector that cannot be read, before a stream is begun that could not say so any more."""
    selectors.LabelSelector.parse(label_selector)
    selectors.FieldSelector.parse(field_selector, resource)


def write_options(request: Request, kind: str, warn: Callable[[str], None]) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions, for refusals."""
    validation = request.parameter("fieldValidation")
    problems = _dry_run_problems(request.query.get("dryRun", []))
    if validation not in _FIELD_VALIDATIONS:
        problems.append(errors.not_supported("fieldValidation", validation, _FIELD_VALIDATIONS))
    if problems:
        raise _refused(kind, problems)
    manager = request.parameter("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    return WriteOptions(
        dry_run="dryRun" in request.query,
        field_validation=validation or "Warn",  # type: ignore[arg-type]  # checked above
        field_manager=manager[:_LONGEST_MANAGER],
        warn=warn,
    )


def _dry_run_problems(values: list[Any]) -> list[FieldError]:
    return [errors.not_supported("dryRun", value, ("All",)) for value in values if value != "All"]


def delete_options(request: Request, body: Object | None) -> tuple[DeleteOptions, bool | None]:
    """The options of a DELETE, from its body or, if it has none, from the query; and `orphanDependents` as given."""
    given = body if body else _delete_query(request)
    dry_run = list(given.get("dryRun") or request.query.get("dryRun", []))
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    problems = _dry_run_problems(dry_run)
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(errors.invalid("propagationPolicy", policy, detail))
    elif policy is not None and policy not in _PROPAGATIONS:
        problems.append(errors.not_supported("propagationPolicy", policy, _PROPAGATIONS))
    if problems:
        raise _refused("DeleteOptions", problems)
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = given.get("preconditions") or {}
    options = DeleteOptions(
        propagation=policy,
        grace_period_seconds=given.get("gracePeriodSeconds"),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        dry_run=bool(dry_run),
    )
    return options, orphan


def _delete_query(request: Request) -> Object:
    given: Object = {}
    if request.parameter("propagationPolicy"):
        given["propagationPolicy"] = request.parameter("propagationPolicy")
    grace = _integer(request, "gracePeriodSeconds")
    if grace is not None:
        given["gracePeriodSeconds"] = grace
    if "orphanDependents" in request.query:
        given["orphanDependents"] = request.flag("orphanDependents")
    return given
