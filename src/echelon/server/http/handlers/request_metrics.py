"""The server's part of `/metrics`, in Prometheus text format and with the names, labels and buckets of kube-apiserver.

Counting costs a few microseconds per request: labels are a tuple, numbers are plain, and text is made when it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ....base.histogram import Histogram
from ..requests.gate import is_watch
from ..requests.in_flight import InFlight
from ..requests.request import Request
from ..requests.routes import Target

_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
_APPLY = "application/apply-patch"
_VERBS = {"GET": "GET", "HEAD": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE"}
#: Subresources that connect to a container; their requests have a verb of their own.
_CONNECTED = ("log", "exec", "portforward", "attach", "proxy")
#: Paths below which the rest is not a label: it would be another one for every client that guesses.
_ROOTS = ("/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3", "/apis", "/api")


class RequestLabels(NamedTuple):
    """The labels of a request; of a path that names no resource only the verb and `subresource`, which is the path."""

    verb: str
    dry_run: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    component: str

    def without_dry_run(self) -> dict[str, str]:
        return {label: value for label, value in self._asdict().items() if label != "dry_run"}


def labels_of(request: Request, target: Target | None) -> RequestLabels:
    method = request.method
    if target is None:
        path = next((root for root in _ROOTS if request.path.startswith(root)), "")
        return RequestLabels(_VERBS.get(method, "other"), "", "", "", "", path, "", "")
    resource = target.resource
    scope = "resource" if target.name or method == "POST" else "namespace" if target.namespace else "cluster"
    dry_run = ("All" if request.parameter("dryRun") == "All" else "invalid") if "dryRun" in request.query else ""
    verb = _verb(request, target, scope)
    return RequestLabels(
        verb, dry_run, resource.group, resource.version, resource.plural, target.subresource, scope, "apiserver"
    )


def _verb(request: Request, target: Target, scope: str) -> str:
    method = request.method
    if target.subresource in _CONNECTED:
        return "CONNECT"
    if method == "GET" and scope != "resource":
        return "WATCH" if is_watch(request, target) else "LIST"
    if method == "GET" and target.watch:
        return "WATCH"
    if method == "DELETE" and scope != "resource":
        return "DELETECOLLECTION"
    if method == "PATCH" and request.headers.get("content-type", "").startswith(_APPLY):
        return "APPLY"
    return _VERBS.get(method, "other")


@cache
def _texts(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The bounds of buckets as they are written, and that of the last one."""
    return (*(f"{bound:g}" for bound in bounds), "+Inf")


def _histogram(histogram: Histogram, name: str, labels: Mapping[str, str]) -> Iterator[str]:
    up_to = list(accumulate(histogram.counts))
    # The labels around `le` are the same in all buckets, and there are tens of thousands of these lines.
    ordered = sorted(labels.items())
    before = "".join(f'{label}="{text}",' for label, text in ordered if label < "le")
    after = "".join(f',{label}="{text}"' for label, text in ordered if label > "le")
    for bound, count in zip(_texts(histogram.bounds), up_to, strict=True):
        yield f'{name}_bucket{{{before}le="{bound}"{after}}} {count}'
    yield _line(f"{name}_sum", labels, histogram.total)
    yield _line(f"{name}_count", labels, up_to[-1])


class _Series:
    """What is counted of requests with equal labels."""

    __slots__ = ("codes", "seconds", "sizes")

    def __init__(self, *, reading: bool) -> None:
        self.codes: Counter[int] = Counter()
        self.seconds = Histogram(_SECONDS)
        #: As upstream, only of requests that read.
        self.sizes = Histogram(_BYTES) if reading else None


class RequestMetrics:
    """Counters of the API server; `more` returns the metrics of other components."""

    def __init__(self, reading: InFlight, writing: InFlight, more: Callable[[], bytes]) -> None:
        self._in_flight = {"readOnly": reading, "mutating": writing}
        self._more = more
        self._series: dict[RequestLabels, _Series] = {}
        #: Open watches and events sent, by labels of the watch.
        self.watches: Counter[RequestLabels] = Counter()
        self.events: Counter[tuple[str, str, str]] = Counter()

    def count(self, labels: RequestLabels, code: int, seconds: float, size: int) -> None:
        """Count a request that was answered, after its reply was sent."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(reading=labels.verb in ("GET", "LIST"))
        series.codes[code] += 1
        series.seconds.observe(seconds)
        if series.sizes is not None:
            series.sizes.observe(size)

    def text(self) -> bytes:
        return "\n".join(self._lines()).encode() + b"\n" + self._more()

    def _lines(self) -> Iterator[str]:
        every = sorted(self._series.items())
        yield from _head("apiserver_request_total", "counter", "Requests answered, by code.")
        for labels, series in every:
            for code, count in sorted(series.codes.items()):
                yield _line("apiserver_request_total", {**labels._asdict(), "code": str(code)}, count)
        name = "apiserver_request_duration_seconds"
        yield from _head(name, "histogram", "Time from the head of a request until its reply is sent.")
        for labels, series in every:
            yield from _histogram(series.seconds, name, labels._asdict())
        yield from _head("apiserver_response_sizes", "histogram", "Bytes of replies to requests that read.")
        for labels, series in every:
            if series.sizes is not None:
                yield from _histogram(series.sizes, "apiserver_response_sizes", labels.without_dry_run())
        yield from self._current()

    def _current(self) -> Iterator[str]:
        yield from _head("apiserver_longrunning_requests", "gauge", "Watches that are open now.")
        for labels, count in sorted(self.watches.items()):
            yield _line("apiserver_longrunning_requests", labels.without_dry_run(), count)
        yield from _head("apiserver_watch_events_total", "counter", "Events sent to watches.")
        for (group, version, resource), count in sorted(self.events.items()):
            labels_ = {"group": group, "version": version, "resource": resource}
            yield _line("apiserver_watch_events_total", labels_, count)
        yield from _head("apiserver_current_inflight_requests", "gauge", "Requests that are worked on now.")
        for kind, flight in self._in_flight.items():
            yield _line("apiserver_current_inflight_requests", {"request_kind": kind}, flight.held - flight.waiting)
        yield from _head("apiserver_current_inqueue_requests", "gauge", "Requests that wait for their turn.")
        for kind, flight in self._in_flight.items():
            yield _line("apiserver_current_inqueue_requests", {"request_kind": kind}, flight.waiting)


def _head(name: str, type_: str, help_: str) -> tuple[str, str]:
    return f"# HELP {name} {help_}", f"# TYPE {name} {type_}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{text}"' for label, text in sorted(labels.items()))
    return f"{name}{{{shown}}} {value:.12g}"
