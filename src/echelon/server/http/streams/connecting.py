"""`GET pods/NAME/{exec,attach,portforward}` with a WebSocket: agree on a protocol, then hand over to it."""

from __future__ import annotations

from collections.abc import Iterable

from ....api import errors
from ....api.errors import ApiError
from ....api.running_pods import RunningPod
from ....api.scheme import PODS, Object
from ..handlers.call import Call
from ..replies.encode import error_response
from ..requests.request import Response
from . import channels, port_forward
from .pod_targets import container_of, running_pod
from .spdy_tunnel import PROTOCOL, Tunnel
from .web_socket import WebSocket

#: The subresources of pods that are streams in both directions.
STREAMS = ("exec", "attach", "portforward")


async def connect(call: Call, socket: WebSocket) -> None:
    """Serve one stream from its beginning to its end; what cannot be served is answered before it begins."""
    try:
        pod = await call.verbs.get(PODS, call.target.name, call.target.namespace)
        if call.target.subresource == "portforward":
            await _forward(call, running_pod(call.pods, pod, "forward ports of"), socket)
        else:
            await _run(call, pod, socket)
    except ApiError as error:
        await socket.refuse(error_response(error))


async def plainly(call: Call) -> Response:
    """The same without a WebSocket: 400.

    Clients come back here after a WebSocket was refused, so the answer is what they tell their user.
    """
    pod = await call.verbs.get(PODS, call.target.name, call.target.namespace)
    container_of(pod, call.request.parameter("container"))
    running_pod(call.pods, pod, call.target.subresource)
    raise errors.bad_request(f"{call.target.subresource} needs a WebSocket connection")


async def _run(call: Call, pod: Object, socket: WebSocket) -> None:
    request, action = call.request, call.target.subresource
    container = container_of(pod, request.parameter("container"))
    running = running_pod(call.pods, pod, f"{action} into" if action == "exec" else "attach to")
    terminal, stdin = request.flag("tty"), request.flag("stdin")
    protocol = _agreed(socket, channels.PROTOCOLS)
    if action == "exec":
        argv = list(request.query.get("command", ()))
        if not any(argv):
            raise errors.bad_request("you must specify at least one command for the container")
        session = await running.execute(container, argv, terminal=terminal, stdin=stdin)
    else:
        session = await running.attach(container, stdin=stdin)
    await socket.accept(protocol)
    # A terminal has one output, whatever the request says.
    await channels.serve(socket, session, stdout=terminal or request.flag("stdout"), stderr=request.flag("stderr"))


async def _forward(call: Call, pod: RunningPod, socket: WebSocket) -> None:
    if PROTOCOL in socket.offered:
        await socket.accept(PROTOCOL)
        await Tunnel(socket, pod).serve()
        return
    ports = _ports(call)
    await socket.accept(_agreed(socket, port_forward.PROTOCOLS))
    await port_forward.serve(socket, pod, ports)


def _ports(call: Call) -> list[int]:
    texts = [text for value in call.request.query.get("ports", ()) for text in value.split(",")]
    if not texts or not all(text.isdigit() and 0 < int(text) < 65536 for text in texts):
        raise errors.bad_request(f'query parameter "ports" of pod {call.target.name} must be numbers from 1 to 65535')
    return list(map(int, texts))


def _agreed(socket: WebSocket, spoken: Iterable[str]) -> str:
    for protocol in spoken:
        if protocol in socket.offered:
            return protocol
    raise errors.bad_request(f"unable to negotiate protocol: client supports {list(socket.offered)}")
