"""The text of `/metrics`: requests by verb, resource and code, open watches, and the metrics of other components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class RequestMetrics:
    """Counters of the API server; `more` returns the metrics of other components."""

    def __init__(self, open_watches: Callable[[], int], more: Callable[[], bytes]) -> None:
        self._open_watches = open_watches
        self._more = more
        self._requests: Counter[tuple[str, str, str, int]] = Counter()

    def count(self, verb: str, group: str, resource: str, code: int) -> None:
        self._requests[(verb, group, resource, code)] += 1

    def text(self) -> bytes:
        """Prometheus text format, with the metric names of kube-apiserver."""
        lines = [
            "# HELP apiserver_request_total Requests answered, by verb, kind and code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, group, resource, code), count in sorted(self._requests.items()):
            labels = f'code="{code}",group="{group}",resource="{resource}",verb="{verb}"'
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        lines += [
            "# HELP apiserver_longrunning_requests Watches that are open now.",
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {self._open_watches()}',
        ]
        return "\n".join(lines).encode() + b"\n" + self._more()
