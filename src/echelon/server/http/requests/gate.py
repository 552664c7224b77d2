"""What every request passes before its handler: origin, authentication, authorization.

check_origin   403 for a foreign Host and for requests of web pages, see `web_origin`
caller         the user of the credentials; 401 if they are wrong, `system:anonymous` if there are none
authorize      403 if the user may not do it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....api.access.attributes import ANONYMOUS, Attributes, Authorizer, User, forbidden
from ....api.errors import ApiError
from ...identity.authenticator import Authenticator
from . import web_origin
from .impersonation import impersonated
from .request import Request
from .routes import Target

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAME_FIELD = "metadata.name="


@dataclass(frozen=True)
class Caller:
    #: Whose credentials were sent.
    sender: User
    #: Who the request is made as: the sender, or the user it impersonates.
    user: User


class Gate:
    """Checks origin, credentials and permission of a request."""

    def __init__(self, names: Iterable[str], authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._names = frozenset(name.lower() for name in names)
        self.authenticator = authenticator
        self.authorizer = authorizer

    def check_origin(self, request: Request) -> None:
        web_origin.check_origin(request, self._names)

    def caller(self, request: Request) -> Caller:
        """Who sends the request, and the user that the sender acts as."""
        sender = self._sender(request)
        user, needed = impersonated(sender, request.headers)
        for attributes in needed:
            self._require(attributes)
        return Caller(sender, user)

    def _sender(self, request: Request) -> User:
        authorization = request.headers.get("authorization", "")
        if not authorization:
            return self._certified(request)
        scheme, _, token = authorization.partition(" ")
        user = self.authenticator.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def _certified(self, request: Request) -> User:
        if request.certificate is None:
            return ANONYMOUS
        user = self.authenticator.by_certificate(request.certificate)
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def authorize(self, user: User, request: Request, target: Target | None) -> None:
        self._require(attributes_of(user, request, target))

    def _require(self, attributes: Attributes) -> None:
        decision = self.authorizer.decide(attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)


def is_watch(request: Request, target: Target) -> bool:
    """A collection with `watch`, or the legacy path; `watch` on a named object is ignored."""
    return request.method == "GET" and (target.watch or (not target.name and request.flag("watch")))


def attributes_of(user: User, request: Request, target: Target | None) -> Attributes:
    """What a request does, as roles name it."""
    verb = _VERBS.get(request.method, request.method.lower())
    if target is None:
        return Attributes(user, verb, path=request.path)
    resource, name = target.resource, target.name
    if not name and verb in ("get", "delete"):
        verb = ("watch" if is_watch(request, target) else "list") if verb == "get" else "deletecollection"
        name = _single_name(request)
    # As upstream: a namespace is in itself, so that a role in it can allow to read it.
    namespace = target.namespace or (target.name if resource.plural == "namespaces" and not resource.group else "")
    return Attributes(user, verb, resource.group, resource.plural, target.subresource, namespace, name)


def _single_name(request: Request) -> str:
    """The name that a list or watch is restricted to by its field selector, or ""."""
    for term in request.parameter("fieldSelector").replace("==", "=").split(","):
        if term.startswith(_NAME_FIELD):
            return term.removeprefix(_NAME_FIELD)
    return ""
