"""`POST trainjobs/{name}/status`: a training says how far it is.

Unlike all other requests it is let in by a token for this very path, which the pods of the TrainJob have and which
opens nothing else.  A report replaces the one before it; what it leaves out is gone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ....api.access.attributes import SERVICE_ACCOUNT_PREFIX, User
from ....api.errors import ApiError
from ....api.scheme import TRAIN_JOBS, Object
from ....api.verbs import Patch, PatchType, WriteOptions
from ....api.views.trainjob_views import report_audience
from ..replies.encode import json_response
from ..requests.gate import Caller, Gate
from ..requests.request import Request, Response
from ..requests.routes import Target
from .call import Call

_MOST_BYTES = 1 << 16
_FIELD = "trainerStatus"
_MANAGER = "trainer-status"
_KNOWN = ("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime")


def is_report(request: Request, target: Target | None) -> bool:
    return (
        request.method == "POST"
        and target is not None
        and target.resource is TRAIN_JOBS
        and target.subresource == "status"
    )


def reporter(gate: Gate, request: Request, target: Target) -> Caller:
    """The service account of a pod that may report for this TrainJob; 403 for everyone else."""
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer" and token and not any(map(str.isspace, token)):
        authenticator = gate.authenticator
        found = authenticator.service_accounts.verify(token, authenticator.now())
        for_this = report_audience(target.namespace, target.name)
        if found is not None and for_this in found.audiences and _namespace(found.user) == target.namespace:
            return Caller(found.user, found.user)
    raise ApiError(403, "Forbidden", "Forbidden")


def _namespace(user: User) -> str:
    return user.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")[0]


async def report(call: Call) -> Response:
    sent = await _read(call.request)
    status = sent.get(_FIELD)
    if status is None:
        return json_response({})
    said = {field: status[field] for field in _KNOWN if status.get(field) is not None}
    target = call.target
    body = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": target.name, "namespace": target.namespace},
        "status": {_FIELD: said},
    }
    try:
        await call.verbs.get(TRAIN_JOBS, target.name, target.namespace)
        options = WriteOptions(field_manager=_MANAGER, force=True)
        await call.verbs.patch(
            TRAIN_JOBS, target.name, Patch(PatchType.APPLY, body), target.namespace, "status", options
        )
    except ApiError as error:
        raise _told(error) from None
    return json_response({_FIELD: said})


async def _read(request: Request) -> Object:
    try:
        data = await request.body(_MOST_BYTES)
    except ApiError as error:
        if error.code != 413:
            raise
        raise ApiError(413, "RequestEntityTooLarge", "Payload too large") from None
    try:
        sent: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _invalid("Invalid payload") from None
    if not isinstance(sent, dict) or not isinstance(sent.get(_FIELD), dict | None):
        raise _invalid("Invalid payload")
    return sent


def _told(error: ApiError) -> ApiError:
    if error.code == 404:
        return ApiError(404, "NotFound", "Train job not found")
    return _invalid(error.message) if error.code in (400, 422) else error


def _invalid(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)
