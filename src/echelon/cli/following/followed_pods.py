"""What `echelon run --local` tells beside the story: pods that begin to run, containers that fail, what they write.

    pods (informers) ─┐                ┌─► lines: running, restarts, failed, log
    logs of all pods ─┴─► FollowedPods ───┼─► groups: phases, restarts and the last line of each (live, and at the end)
                                       └─► what failed first, with the end of its log

A group is a unit of the story: a Job, else a pod group, else a pod.
"""

from __future__ import annotations

import signal
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rich.console import RenderableType
from rich.text import Text

from ...api.objects import meta
from ...api.objects.vocabulary import RESTART_ATTEMPT
from ...api.running_pods import LogLine, LogTails
from ...api.scheme import PODS, Object
from ...client.informer import Caches
from .group_table import GroupTable
from .story import unit_of

#: Lines of a container's log that are kept for the case that it fails.
_KEPT_LINES = 12
#: Containers whose last lines are kept.
_KEPT_LOGS = 2_000
#: The last line of a group is told this often at most.
_SECONDS_BETWEEN_LOGS = 5.0
#: Pods of a group that begin to run within this time are one line.
_TOGETHER_SECONDS = 1.0
#: In place of the phase of a pod that ran until the run was over.
_STOPPED = "Stopped"
_PHASE_STYLES = {
    "Succeeded": "green",
    "Running": "cyan",
    _STOPPED: "yellow",
    "Pending": "yellow",
    "Failed": "bold red",
}
#: Why a container that was never started waits without end, unless somebody changes something.
_HOPELESS = ("InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True)
class Failure:
    """A container that ended with an error."""

    pod: str
    container: str
    exit_code: int
    reason: str
    message: str
    #: The run of its JobSet that it was part of.
    round: int
    #: The last lines that it wrote.
    log: tuple[str, ...]

    @property
    def why(self) -> str:
        return _ended_with(self.exit_code, self.reason)


@dataclass(frozen=True)
class Group:
    """What is shown of a group; the names are those of the JSON output."""

    name: str
    phases: dict[str, int]
    #: Of its containers, and of the JobSet that it is part of.
    restarts: int
    lastLine: str  # noqa: N815


class FollowedPods:
    """Follows the pods of this machine from its creation on."""

    def __init__(
        self,
        caches: Caches,
        nodes: frozenset[str],
        tails: LogTails,
        now: Callable[[], float],
        say: Callable[[str, str, str], None],
    ) -> None:
        self._pods = caches.of(PODS)
        self._nodes = nodes
        self._tails = tails
        self._now = now
        self._say = say
        self._began: dict[str, tuple[float, int]] = {}
        self._ended: set[str] = set()
        self._failed: list[tuple[Object, Object]] = []
        self._unit_of_pod: dict[str, str] = {}
        self._last_lines: dict[str, str] = {}
        self._told_logs: dict[str, tuple[float, str]] = {}
        self._ends_of_logs: OrderedDict[tuple[str, str, int], deque[str]] = OrderedDict()
        #: The groups when the run was over; what happens afterwards is not told.
        self._final: list[Group] | None = None
        self._pods.add_handler(self._changed)

    # -- listening ---------------------------------------------------------------------------------------------

    def _changed(self, old: Object | None, pod: Object | None) -> None:
        known = pod or old
        assert known is not None
        if known["spec"].get("nodeName") not in self._nodes:
            return
        unit = self._unit_of_pod[meta.uid(known)] = unit_of(known)
        if pod is None or self._final is not None:
            return
        if _phase(pod) == "Running" and (old is None or _phase(old) != "Running"):
            since, count = self._began.get(unit, (self._now(), 0))
            self._began[unit] = since, count + 1
        for status in _container_statuses(pod):
            for state in (status.get("lastState") or {}, status.get("state") or {}):
                if "terminated" in state:
                    self._container_ended(pod, status, state["terminated"])

    def _container_ended(self, pod: Object, status: Object, end: Object) -> None:
        identity = str(end.get("containerID"))
        if identity in self._ended:
            return
        self._ended.add(identity)
        if not end.get("exitCode") or meta.deleting(pod):
            return  # whoever deletes a pod ends its containers
        self._failed.append((pod, end))
        over = _phase(pod) == "Failed"
        text = f"container {status['name']}: {_ended_with(end['exitCode'], end.get('reason', ''))}"
        text += f"; {why}" if (why := _not_started(end)) else ""
        self._say("failed" if over else "restarts", f"Pod/{meta.name(pod)}", text)

    # -- telling -----------------------------------------------------------------------------------------------

    def new_lines(self, *, last: bool = False) -> list[LogLine]:
        """What containers wrote since the last call."""
        lines = self._tails.new_lines(last=last)
        for line in lines:
            self._last_lines[self._unit_of_pod.get(line.pod_uid, line.pod)] = line.text
            key = line.pod_uid, line.container, line.attempt
            if key not in self._ends_of_logs:
                self._ends_of_logs[key] = deque(maxlen=_KEPT_LINES)
                while len(self._ends_of_logs) > _KEPT_LOGS:
                    self._ends_of_logs.popitem(last=False)
            self._ends_of_logs[key].append(line.text)
        return lines

    def tell_running(self) -> None:
        """A line for each group whose pods began to run."""
        starting = {unit_of(pod) for pod in self._here() if _phase(pod) == "Pending"}
        running = {unit_of(pod) for pod in self._here() if _phase(pod) == "Running"}
        for unit, (since, count) in list(self._began.items()):
            if unit not in starting or self._now() - since > _TOGETHER_SECONDS:
                del self._began[unit]
                if unit in running:
                    self._say("running", unit, "1 pod" if count == 1 else f"{count} pods")

    def tell_logs(self) -> None:
        """The last line of each group, once in a while."""
        for unit, text in self._last_lines.items():
            at, told = self._told_logs.get(unit, (-_SECONDS_BETWEEN_LOGS, ""))
            if text != told and self._now() - at >= _SECONDS_BETWEEN_LOGS:
                self._told_logs[unit] = self._now(), text
                self._say("log", unit, shown(text).plain)

    def running(self) -> int:
        return sum(_phase(pod) in ("Pending", "Running") for pod in self._here())

    def first_failures(self) -> list[Failure]:
        """Of every failed pod the container that failed first, those of the last round only; the earliest first."""
        found: dict[str, Failure] = {}
        for pod, end in self._failed:
            _, container, attempt = str(end["containerID"]).removeprefix("process://").rsplit("/", 2)
            log = self._ends_of_logs.get((meta.uid(pod), container, int(attempt)), ())
            code, reason, why = end["exitCode"], end.get("reason", ""), _not_started(end)
            failure = Failure(meta.name(pod), container, code, reason, why, _round(pod), tuple(log))
            found.setdefault(meta.uid(pod), failure)
        latest = max((failure.round for failure in found.values()), default=0)
        return [failure for failure in found.values() if failure.round == latest]

    def bars(self) -> RenderableType:
        """Phases, restarts and the last line of each group."""
        rows = []
        for group in self.groups():
            line = shown(group.lastLine)
            line.stylize("dim")
            restarts = Text(str(group.restarts) if group.restarts else "")
            rows.append((Text(group.name), _phases(group.phases), restarts, line))
        return GroupTable(rows)

    def freeze(self) -> None:
        """The run is over: whatever still runs is ended, and that is no news."""
        self._began.clear()
        self._final = self.groups()

    def end(self) -> None:
        """What still ran when the run was over has been stopped."""
        self._final = [replace(group, phases=_stopped(group.phases)) for group in self.groups()]

    def groups(self) -> list[Group]:
        """In order of their first pods."""
        if self._final is not None:
            return [replace(group, lastLine=self._last_lines.get(group.name, "")) for group in self._final]
        pods: dict[str, list[Object]] = {}
        for pod in sorted(self._here(), key=_age):
            pods.setdefault(unit_of(pod), []).append(pod)
        return [
            Group(
                unit,
                dict(Counter(map(_phase, its))),
                sum(map(_restarts, its)) + max(map(_round, its)),
                self._last_lines.get(unit, ""),
            )
            for unit, its in pods.items()
        ]

    def _here(self) -> Iterable[Object]:
        return (pod for pod in self._pods.all() if pod["spec"].get("nodeName") in self._nodes)


def hopeless(pod: Object) -> str:
    """Why a pod that is bound to a node of this machine cannot start; "" if it may."""
    for status in _container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _HOPELESS:
            return f"{waiting['reason']}: {waiting.get('message', '')}"
    return ""


def shown(text: str) -> Text:
    """A line of a log as a terminal shows it: colours, and what overwrote what."""
    return Text.from_ansi(text.rstrip("\r").rpartition("\r")[2])


def _ended_with(code: int, reason: str) -> str:
    number = code - 128
    name = signal.Signals(number).name if number in list(signal.Signals) else ""
    words = [f"exit code {code}", *([f"({name})"] if name else [])]
    return " ".join([*words, *([reason] if reason not in ("", "Error", "StartError") else [])])


def _not_started(end: Object) -> str:
    """Why a container that has ended never ran; "" if it did."""
    return str(end.get("message") or "") if end.get("reason") == "StartError" else ""


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _stopped(phases: Mapping[str, int]) -> dict[str, int]:
    return {_STOPPED if phase == "Running" else phase: count for phase, count in phases.items()}


def _container_statuses(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _restarts(pod: Object) -> int:
    return sum(int(status.get("restartCount", 0)) for status in _container_statuses(pod))


def _round(pod: Object) -> int:
    return int(meta.labels(pod).get(RESTART_ATTEMPT, "0"))


def _age(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"].get("creationTimestamp", "")), meta.name(pod)


def _phases(counts: Mapping[str, int]) -> Text:
    told = [(f"{counts[phase]} {phase.lower()}", style) for phase, style in _PHASE_STYLES.items() if phase in counts]
    return Text(" · ").join(Text(text, style) for text, style in told)
