"""Answers access reviews: may this user do that, what may it do, who is it.

Reviews are created and answered, never stored.  TokenReview needs the authenticator and is answered by the server.
"""

from __future__ import annotations

from typing import Any

from ..errors import ApiError, FieldError, bad_request, invalid, invalid_object
from ..scheme import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    Object,
    Resource,
)
from .attributes import Attributes, Authorizer, User


def answer(resource: Resource, review: Object, namespace: str, user: User, authorizer: Authorizer) -> Object:
    """The review with its status; `namespace` is that of the path."""
    if resource is SELF_SUBJECT_REVIEWS:
        return {**review, "status": {"userInfo": user.info()}}
    if resource is SELF_SUBJECT_RULES_REVIEWS:
        return {**review, "status": _rules(review, user, authorizer)}
    if resource is not SELF_SUBJECT_ACCESS_REVIEWS:
        user = _subject(resource, review, namespace)
    attributes = _attributes(resource, review, user)
    decision = authorizer.decide(attributes)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**review, "status": status}


def _rules(review: Object, user: User, authorizer: Authorizer) -> Object:
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules = authorizer.rules(user, namespace)
    fields = ("verbs", "apiGroups", "resources", "resourceNames")
    return {
        "resourceRules": [{f: rule[f] for f in fields if f in rule} for rule in rules if rule.get("resources")],
        "nonResourceRules": [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in rules
            if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }


def _subject(resource: Resource, review: Object, namespace: str) -> User:
    """The user that a SubjectAccessReview asks about."""
    spec = review.get("spec") or {}
    problems: list[FieldError] = []
    if not spec.get("user") and not spec.get("groups"):
        problems.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    if resource is LOCAL_SUBJECT_ACCESS_REVIEWS:
        wanted = spec.get("resourceAttributes") or {}
        if spec.get("nonResourceAttributes"):
            detail = "disallowed on this kind of request"
            problems.append(invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail))
        if wanted and wanted.get("namespace", "") != namespace:
            detail = "must match metadata.namespace"
            problems.append(invalid("spec.resourceAttributes.namespace", wanted.get("namespace", ""), detail))
    if problems:
        raise invalid_object(resource, "", problems)
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _attributes(resource: Resource, review: Object, user: User) -> Attributes:
    spec: dict[str, Any] = review.get("spec") or {}
    wanted, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (wanted is None) == (path is None):
        raise _one_of_both(resource, wanted)
    if path is not None:
        return Attributes(user, path.get("verb", ""), path=path.get("path", "") or "/")
    wanted = wanted or {}
    return Attributes(
        user,
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _one_of_both(resource: Resource, wanted: Any) -> ApiError:
    if wanted is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return invalid_object(resource, "", [invalid("spec.resourceAttributes", None, detail)])
    detail = "cannot be specified in combination with resourceAttributes"
    return invalid_object(resource, "", [invalid("spec.nonResourceAttributes", wanted, detail)])
