"""Kinds that are created and answered, never stored: access reviews, token reviews, token requests."""

from __future__ import annotations

import uuid

from ....api import errors
from ....api.access import reviews
from ....api.errors import FieldError
from ....api.schema import kind_schema
from ....api.scheme import SERVICE_ACCOUNTS, TOKEN_REQUESTS, Object, Resource
from ....base.instants import to_time
from ...identity.service_account_tokens import BINDABLE, ISSUER
from ..requests.body import read_object
from ..requests.query_options import write_options
from ..requests.request import Response
from .call import Call

_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600, 600, 1 << 32


async def review(call: Call) -> Response:
    """An access review."""
    presentation = call.presentation()
    sent = await _read(call, call.resource)
    answered = reviews.answer(call.resource, sent, call.target.namespace, call.user, call.gate.authorizer)
    return presentation.reply(answered, 201)


async def token_review(call: Call) -> Response:
    """Whose token it is."""
    presentation = call.presentation()
    sent = await _read(call, call.resource)
    spec = sent.get("spec") or {}
    if not spec.get("token"):
        raise errors.bad_request("token is required for TokenReview in authentication")
    found = call.gate.authenticator.review(spec["token"], spec.get("audiences") or (ISSUER,))
    status: Object = {"user": {}, "error": "invalid bearer token"}
    if found is not None:
        status = {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}
    return presentation.reply({**sent, "status": status}, 201)


async def token(call: Call) -> Response:
    """`serviceaccounts/{name}/token`: a new token."""
    presentation, target = call.presentation(), call.target
    account = await call.verbs.get(SERVICE_ACCOUNTS, target.name, target.namespace)
    sent = await _read(call, TOKEN_REQUESTS)
    spec = sent.get("spec") or {}
    seconds = _DEFAULT_SECONDS if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    audiences = spec.get("audiences") or [ISSUER]
    _check(target.name, sent, seconds)
    bound = await _bound(call, spec.get("boundObjectRef"))
    authenticator = call.gate.authenticator
    now = authenticator.now()
    issued = authenticator.service_accounts.issue(account, audiences, now, seconds, bound, str(uuid.uuid4()))
    answered = {
        **sent,
        "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": to_time(now)},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": issued, "expirationTimestamp": to_time(now + seconds)},
    }
    return presentation.reply(answered, 201)


def _check(name: str, sent: Object, seconds: int) -> None:
    given = sent["metadata"].get("name")
    if given and given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    problems: list[FieldError] = []
    where = "spec.expirationSeconds"
    if seconds < _LEAST_SECONDS:
        problems.append(errors.invalid(where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_SECONDS:
        problems.append(errors.too_long(where, _MOST_SECONDS))
    if problems:
        raise errors.invalid_object(TOKEN_REQUESTS, name, problems)


async def _bound(call: Call, reference: Object | None) -> Object | None:
    """The object that the token is bound to; 404 if it does not exist, 409 if it is another one by that name."""
    if reference is None:
        return None
    resource = BINDABLE.get(reference.get("kind", "").lower())
    if resource is None or reference.get("apiVersion") != resource.api_version:
        kind, version = reference.get("kind", ""), reference.get("apiVersion", "")
        raise errors.bad_request(f'cannot bind token to object of type "{version}, Kind={kind}"')
    name = reference.get("name", "")
    found = await call.verbs.get(resource, name, call.target.namespace if resource.namespaced else "")
    if reference.get("uid") and reference["uid"] != found["metadata"]["uid"]:
        raise errors.conflict(
            resource,
            name,
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record",
        )
    return found


async def _read(call: Call, resource: Resource) -> Object:
    write_options(call.request, "CreateOptions", lambda _: None)
    sent = await read_object(call.request, resource)
    decoded = kind_schema.decode(resource, sent).obj
    kind_schema.apply_defaults(resource, decoded)
    return decoded
