"""The ASGI application: routes a request to its handler and sends the reply.

    check origin → authenticate → authorize → in flight → handler (reads, watching, mutations, …) → encode

Handlers use `encoded.EncodedVerbs` only.  An `ApiError` is sent as its Status; other exceptions are logged and sent as
500.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from ...api.access.attributes import ANONYMOUS, User
from ...api.errors import ApiError, method_not_allowed
from ...api.running_pods import RunningPods
from ...api.scheme import METRICS, NAMESPACES, PODS, REVIEWS, SERVICE_ACCOUNTS, TOKEN_REVIEWS, TRAIN_JOBS
from ...api.served_kinds import ServedKinds
from ...base.clock import Clock
from ..objects.encoded import EncodedVerbs
from ..objects.turns import Turns
from .audit import AuditLog
from .handlers import deletes, mutations, nonresource, progress_reports, reads, review_answers, subresources
from .handlers.call import Call
from .handlers.documents import Documents
from .handlers.health import Health
from .handlers.request_metrics import RequestMetrics, labels_of
from .handlers.watching import Watches
from .replies.encode import error_response, text_response, too_many_requests
from .requests import routes
from .requests.content_negotiation import only_protobuf
from .requests.gate import Caller, Gate, attributes_of, is_watch
from .requests.in_flight import InFlight, Place, TooManyRequests
from .requests.query_options import invalid_timeout
from .requests.request import Disconnected, Receive, Reply, Request, Send
from .requests.routes import BINDINGS, PageNotFound, Target
from .streams import connecting, measurements, pod_logs
from .streams.web_socket import WebSocket

_log = logging.getLogger(__name__)
_READING = ("GET", "HEAD")
_Handler = Callable[[Call], Awaitable[Reply]]

_OBJECT: Mapping[str, _Handler] = {
    "GET": reads.get,
    "PUT": mutations.update,
    "PATCH": mutations.patch,
    "DELETE": deletes.delete,
}
_STATUS: Mapping[str, _Handler] = {"GET": reads.get, "PUT": mutations.update, "PATCH": mutations.patch}
_SCALE: Mapping[str, _Handler] = {**_STATUS, "GET": reads.get_scale}
_POD_SUBRESOURCES: Mapping[str, Mapping[str, _Handler]] = {
    "binding": {"POST": subresources.bind},
    "eviction": {"POST": subresources.evict},
    "log": {"GET": pod_logs.log},
    **{name: {"GET": connecting.plainly, "POST": connecting.plainly} for name in connecting.STREAMS},
}


@dataclass(frozen=True)
class FlightLimits:
    """Requests in flight at a time, those that write apart from those that read; 0: no limit."""

    requests_in_flight: int = 400
    mutating_requests_in_flight: int = 200


DEFAULT_LIMITS = FlightLimits()


class Application:
    """The HTTP API over any `EncodedVerbs`."""

    def __init__(
        self,
        verbs: EncodedVerbs,
        kinds: ServedKinds,
        gate: Gate,
        clock: Clock,
        address: str,
        more_metrics: Callable[[], bytes],
        health: Health,
        limits: FlightLimits = DEFAULT_LIMITS,
        audit: AuditLog | None = None,
    ) -> None:
        self._verbs = verbs
        self._kinds = kinds
        self._documents = Documents(kinds)
        self._gate = gate
        self._clock = clock
        self._address = address
        self._audit = audit
        self._health = health
        self._turns = Turns()
        self._reading = InFlight(limits.requests_in_flight)
        self._writing = InFlight(limits.mutating_requests_in_flight)
        self._metrics = RequestMetrics(self._reading, self._writing, more_metrics)
        self._watches = Watches(self._metrics)
        self._running_pods: RunningPods | None = None

    def serve_pods(self, pods: RunningPods) -> None:
        """Answer for the pods of nodes that run processes."""
        self._running_pods = pods
        self._kinds.serve_metrics()

    def close(self) -> None:
        """End all watches, so that the server can stop."""
        self._health.close()
        self._watches.close()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
        if scope["type"] != "http":
            return
        place = Place()
        try:
            await self._serve(Request.from_scope(scope, receive), place, send)
        finally:
            place.leave()

    async def _serve(self, request: Request, place: Place, send: Send) -> None:
        target: Target | None = None
        caller, received, begun = Caller(ANONYMOUS, ANONYMOUS), time.time(), time.perf_counter()
        try:
            target, unroutable = _route(request, self._kinds)
            self._gate.check_origin(request)
            caller = self._let_in(request, target)
            if unroutable is not None:
                raise unroutable
            client = f"{caller.user.name} {request.headers.get('user-agent', '')}"
            await place.take(self._counted(request, target), client)
            reply = await self._answer(request, target, caller.user, client)
        except ApiError as error:
            reply = error_response(error, protobuf=only_protobuf(request.headers.get("accept", "")))
        except PageNotFound:
            reply = text_response("404 page not found\n", 404)
        except TooManyRequests:
            reply = too_many_requests()
        except Disconnected:
            return
        except Exception as error:
            _log.exception("%s %s failed, request %s", request.method, request.path, request.audit_id)
            reply = error_response(_internal(error))
        if self._audit is not None:
            attributes = attributes_of(caller.user, request, target)
            self._audit.write(request, target, attributes, caller.sender, received, reply.code)
        sending = _Sending(send, request.audit_id)
        try:
            await reply.send(sending)
        finally:
            labels = labels_of(request, target)
            self._metrics.count(labels, reply.code, time.perf_counter() - begun, sending.size)

    async def _connect(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """A stream of a pod in both directions; it takes no place among the requests in flight."""
        request = Request.from_scope({**scope, "method": "GET"}, receive)
        socket = WebSocket(receive, send, scope["subprotocols"])
        received, begun, code = time.time(), time.perf_counter(), 101
        caller, target = Caller(ANONYMOUS, ANONYMOUS), None
        try:
            target, unroutable = _route(request, self._kinds)
            self._gate.check_origin(request)
            caller = self._gate.caller(request)
            self._gate.authorize(caller.user, request, target)
            if unroutable is not None or target is None:
                raise unroutable or routes.unknown_resource()
            if target.resource is not PODS or target.subresource not in connecting.STREAMS:
                raise method_not_allowed()
            # As upstream: who opens a stream does more than read.
            self._gate.authorize(caller.user, replace(request, method="POST"), target)
            client = f"{caller.user.name} {request.headers.get('user-agent', '')}"
            await connecting.connect(self._call(request, target, caller.user, client), socket)
        except ApiError as error:
            code = error.code
            await socket.refuse(error_response(error))
        except PageNotFound:
            code = 404
            await socket.refuse(text_response("404 page not found\n", 404))
        finally:
            if self._audit is not None:
                attributes = attributes_of(caller.user, request, target)
                self._audit.write(request, target, attributes, caller.sender, received, code)
            self._metrics.count(labels_of(request, target), code, time.perf_counter() - begun, 0)

    def _let_in(self, request: Request, target: Target | None) -> Caller:
        """Who sends the request, if they may."""
        if target is not None and progress_reports.is_report(request, target):
            return progress_reports.reporter(self._gate, request, target)
        caller = self._gate.caller(request)
        self._gate.authorize(caller.user, request, target)
        return caller

    def _counted(self, request: Request, target: Target | None) -> InFlight | None:
        """Where a request is counted; None for watches and for paths that must answer whatever happens."""
        if target is None:
            return None
        if request.method not in _READING:
            return self._writing
        return None if is_watch(request, target) else self._reading

    async def _answer(self, request: Request, target: Target | None, user: User, client: str) -> Reply:
        if (refused := invalid_timeout(request)) and (target is None or not is_watch(request, target)):
            return refused
        if target is None:
            found = nonresource.answer(request, self._address, self._metrics, self._health, self._documents)
            if found is None:
                raise PageNotFound
            return found
        call = self._call(request, target, user, client)
        handler = _handler(request.method, target)
        if is_watch(request, target):
            return self._watches.begin(call)
        return await handler(call)

    def _call(self, request: Request, target: Target, user: User, client: str) -> Call:
        now = self._clock.now()
        return Call(self._verbs, request, target, now, user, self._gate, self._turns, client, self._running_pods)


class _Sending:
    """Sends the parts of a reply: adds the id of the request to its head and counts the bytes of its body."""

    __slots__ = ("_id", "_send", "size")

    def __init__(self, send: Send, audit_id: str) -> None:
        self._send = send
        self._id = (b"audit-id", audit_id.encode("latin-1"))
        self.size = 0

    def __call__(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"].append(self._id)
        else:
            self.size += len(message["body"])
        return self._send(message)


def _route(request: Request, kinds: ServedKinds) -> tuple[Target | None, Exception | None]:
    """The target of the path, or its error, which is raised after authentication."""
    try:
        return routes.parse(request.path, kinds), None
    except (ApiError, PageNotFound) as problem:
        return None, problem


def _handler(method: str, target: Target) -> _Handler:
    """The handler for a method on a target; 405 if there is none, 404 for an unknown subresource."""
    found = _methods(target).get(method)
    if found is None:
        raise method_not_allowed()
    return found


def _methods(target: Target) -> Mapping[str, _Handler]:
    resource = target.resource
    if resource is BINDINGS:
        return {"POST": subresources.bind} if target.namespace and not target.name else {}
    if resource in REVIEWS:
        answered = review_answers.token_review if resource is TOKEN_REVIEWS else review_answers.review
        return {"POST": answered} if bool(target.namespace) == resource.namespaced and not target.name else {}
    if resource in METRICS:
        return {"GET": measurements.measured} if not target.subresource else {}
    if target.subresource:
        if target.subresource == "status" and resource.has_status:
            return _STATUS if resource is not TRAIN_JOBS else {**_STATUS, "POST": progress_reports.report}
        if target.subresource == "scale" and resource.scale is not None:
            return _SCALE
        if resource is NAMESPACES and target.subresource == "finalize":
            return {"PUT": mutations.update}
        if resource is SERVICE_ACCOUNTS and target.subresource == "token":
            return {"POST": review_answers.token}
        if resource is PODS and target.subresource in _POD_SUBRESOURCES:
            return _POD_SUBRESOURCES[target.subresource]
        raise routes.unknown_resource()
    if target.name:
        return _OBJECT
    methods: dict[str, _Handler] = {"GET": reads.list_}
    if bool(target.namespace) == resource.namespaced:
        methods["POST"] = mutations.create
        if resource is not NAMESPACES:
            methods["DELETE"] = deletes.delete_collection
    return methods


def _internal(error: Exception) -> ApiError:
    text = f"{type(error).__name__}: {error}"
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})
