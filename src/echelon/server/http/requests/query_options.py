"""Parses query strings and DeleteOptions bodies into the option records of `api.verbs`.

400 for a value that cannot be parsed, 422 for contradicting options.  Selectors and versions are checked by the verbs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ....api import errors
from ....api.errors import ApiError, FieldError
from ....api.scheme import Resource
from ....api.verbs import DeleteOptions, ListOptions, PatchType, WatchOptions, WriteOptions
from ....base.decimals import read_count
from ...objects import off_loop
from .body_records import DELETE_OPTIONS, DeleteBody, Preconditions, record
from .request import Request, Response

_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_LONGEST_MANAGER = 128


#: A duration as Go reads it.
_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")


def invalid_timeout(request: Request) -> Response | None:
    """400 for a `timeout` that is no duration; how long a request may take is up to the server."""
    given = request.parameter("timeout")
    if not given or _DURATION.fullmatch(given):
        return None
    text = f'invalid timeout specified in the request URL - time: invalid duration "{given}"\n'
    headers = (("x-content-type-options", "nosniff"),)
    return Response(text.encode(), 400, "text/plain; charset=utf-8", headers)


def _refused(kind: str, problems: list[FieldError]) -> ApiError:
    return errors.invalid_object(Resource("meta.k8s.io", "v1", kind.lower(), kind), "", problems)


def integer(request: Request, name: str) -> int | None:
    """A number in the query; 400 for what is none."""
    text = request.parameter(name)
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax ({name})')
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range ({name})')
    return number


def list_options(request: Request) -> ListOptions:
    options = ListOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        limit=max(0, integer(request, "limit") or 0),
        continue_token=request.parameter("continue"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
    )
    if "sendInitialEvents" in request.query:
        problem = errors.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise _refused("ListOptions", [problem])
    return options


def watch_options(request: Request, default_timeout: float) -> WatchOptions:
    timeout = integer(request, "timeoutSeconds")
    return WatchOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
        allow_bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None,
        timeout_seconds=float(timeout) if timeout else default_timeout,
    )


def write_options(
    request: Request,
    kind: str,
    warn: Callable[[str], None],
    created: Callable[[], None] = WriteOptions.created,
    more_problems: Iterable[FieldError] = (),
) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions, for error messages.

    `warn` is called with each warning, `created` if an update or a patch creates the object.
    """
    validation = request.parameter("fieldValidation")
    problems = [*more_problems, *_dry_run_problems(request.query.get("dryRun", [])), *_manager_problems(request)]
    if validation not in _FIELD_VALIDATIONS:
        problems.append(errors.not_supported("fieldValidation", validation, _FIELD_VALIDATIONS))
    if problems:
        raise _refused(kind, problems)
    manager = request.parameter("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    return WriteOptions(
        dry_run="dryRun" in request.query,
        field_validation=validation or "Warn",  # type: ignore[arg-type]  # checked above
        field_manager=manager[:_LONGEST_MANAGER],
        force=kind == "PatchOptions" and request.flag("force"),
        warn=warn,
        created=created,
        large=_is_large(request),
    )


def _is_large(request: Request) -> bool:
    declared = read_count(request.headers.get("content-length", ""))
    return declared is None or declared > off_loop.LARGE


def patch_options(
    request: Request, type_: PatchType, warn: Callable[[str], None], created: Callable[[], None]
) -> WriteOptions:
    """The options of a PATCH; an apply needs a manager, and only an apply can be forced."""
    problems = []
    if type_ is PatchType.APPLY and not request.parameter("fieldManager"):
        problems.append(errors.required("fieldManager", "is required for apply patch"))
    if type_ is not PatchType.APPLY and request.parameter("force"):
        problems.append(errors.forbidden_field("force", "may not be specified for non-apply patch"))
    return write_options(request, "PatchOptions", warn, created, problems)


def _manager_problems(request: Request) -> list[FieldError]:
    given = request.parameter("fieldManager")
    if len(given.encode()) > _LONGEST_MANAGER:
        return [errors.too_long("fieldManager", _LONGEST_MANAGER)]
    for position, character in enumerate(given):
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            return [errors.invalid("fieldManager", given, detail)]
    return []


def _dry_run_problems(values: list[Any]) -> list[FieldError]:
    return [errors.not_supported("dryRun", value, ("All",)) for value in values if value != "All"]


def delete_options(request: Request, body: DeleteBody | None) -> tuple[DeleteOptions, bool | None]:
    """The options of a DELETE, from its body or, if it has none, from the query; and `orphanDependents` as given."""
    given = body or _delete_query(request)
    dry_run = given.dry_run or request.query.get("dryRun", [])
    policy, orphan = given.propagation_policy, given.orphan_dependents
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
    only = given.preconditions or Preconditions()
    options = DeleteOptions(
        propagation=policy,  # type: ignore[arg-type]  # checked above
        grace_period_seconds=given.grace_period_seconds,
        uid=only.uid or "",
        resource_version=only.resource_version or "",
        dry_run=bool(dry_run),
    )
    return options, orphan


def _delete_query(request: Request) -> DeleteBody:
    given = {
        "propagationPolicy": request.parameter("propagationPolicy") or None,
        "gracePeriodSeconds": integer(request, "gracePeriodSeconds"),
        "orphanDependents": request.flag("orphanDependents") if "orphanDependents" in request.query else None,
    }
    return record(given, DeleteBody, DELETE_OPTIONS)
