"""API errors: `ApiError` in the process, `metav1.Status` over HTTP, `FieldError` for one invalid field.

    ApiError
      code    HTTP status
      reason  the machine-readable reason (NotFound, AlreadyExists, Conflict, Invalid, …)

Messages are those of kube-apiserver wherever it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .scheme import Object, Resource


@dataclass(frozen=True)
class FieldError:
    """One invalid field: the reason, the field path and the message."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def said(error: Exception) -> str:
    """What an error says; its kind, if it says nothing, as one that time ran out."""
    return str(error) or type(error).__name__


def _shown(value: Any) -> str:
    """A value as messages quote it: as JSON."""
    return msgspec.json.encode(value).decode()


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, f"Invalid value: {_shown(value)}: {detail}")


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    listed = ", ".join(f'"{one}"' for one in allowed)
    return FieldError("FieldValueNotSupported", path, f"Unsupported value: {_shown(value)}: supported values: {listed}")


def forbidden_field(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, f"Forbidden: {detail}")


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {_shown(value)}")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {items}")


def immutable(path: str, value: Any) -> FieldError:
    return invalid(path, value, "field is immutable")


#: Reasons of requests that never got to an object: their Status has no `details`, others may have empty ones.
_WITHOUT_DETAILS = frozenset(
    ("BadRequest", "Unauthorized", "NotAcceptable", "UnsupportedMediaType", "RequestEntityTooLarge", "Expired")
)


@dataclass
class ApiError(Exception):
    """A request that failed; see the module docstring."""

    code: int
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    #: `metadata` of the Status; an expired list carries the token to continue with.
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> Object:
        """The Status that a client receives."""
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details or self.reason not in _WITHOUT_DETAILS:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body

    @staticmethod
    def from_status(body: Mapping[str, Any], code: int) -> ApiError:
        """The error of a Status received from a server."""
        return ApiError(
            int(body.get("code") or code),
            str(body.get("reason") or ""),
            str(body.get("message") or f"the server responded with status {code}"),
            body.get("details") or {},
        )


def _about(resource: Resource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _about(resource, name))


def already_exists(resource: Resource, name: str, *, terminating: bool = False) -> ApiError:
    prefix = "object is being deleted: " if terminating else ""
    return ApiError(
        409, "AlreadyExists", f'{prefix}{resource.qualified} "{name}" already exists', _about(resource, name)
    )


def conflict(resource: Resource, name: str, detail: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {detail}'
    return ApiError(409, "Conflict", message, _about(resource, name))


def stale(resource: Resource, name: str) -> ApiError:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> ApiError:
    """409 of an apply: the other manager and the field, for each conflict."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {owner}: {path}"
    else:
        lines = []
        for owner in sorted({owner for owner, _ in conflicts}):
            lines.append(f"conflicts with {owner}:")
            lines += [f"- {path}" for other, path in conflicts if other == owner]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, {"causes": causes})


def forbidden(resource: Resource, name: str, detail: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {detail}', _about(resource, name))


#: An object of 100,000 empty entries has more problems than anyone reads.
_MOST_PROBLEMS = 200


def invalid_object(resource: Resource, name: str, problems: Iterable[FieldError]) -> ApiError:
    """422 with every problem at once, up to a limit."""
    listed = list(problems)
    if len(listed) > _MOST_PROBLEMS:
        left = FieldError("FieldValueInvalid", listed[-1].field, f"and {len(listed) - _MOST_PROBLEMS} more problems")
        listed = [*listed[:_MOST_PROBLEMS], left]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    text = str(listed[0]) if len(listed) == 1 else "[" + ", ".join(map(str, listed)) + "]"
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [{"reason": p.reason, "message": p.message, "field": p.field} for p in listed]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def method_not_supported(resource: Resource, message: str) -> ApiError:
    """405 for a kind that does not allow a method now."""
    return ApiError(405, "MethodNotAllowed", message, _about(resource, ""))


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)
