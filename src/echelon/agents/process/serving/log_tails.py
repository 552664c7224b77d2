"""`api.running_pods.LogTails`: everything that the containers of this machine write, as one stream of lines.

    logs on disk ─► unread bytes by file ─► lines ─► merged by time, up to a moment ago ─► LogLine

A reader calls `new_lines` again and again.  Files are known by the time of their first line, so a log may be rotated
meanwhile; before the files of a pod are removed, `keep` reads what is left of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ....api.running_pods import LogLine
from ..local_pods import LocalPod, LocalPods
from .log_pieces import opened_pieces

#: The length of a time with nanoseconds.
_TIME_BYTES = 30
#: What is read of one file at a time.
_MOST_BYTES = 1 << 20
#: Of a log that nobody wants as a whole, this much of its end.
_END_BYTES = 64 * 1024
#: A line is written this long after its time at most, so whatever is older is in its place.
_SETTLED_SECONDS = 0.05
#: The beginnings of a line without an end are put together up to this length.
_LONGEST = 256 * 1024


class FileLogTails:
    def __init__(self, pods: LocalPods, *, complete: bool) -> None:
        self._pods = pods
        #: Whether every line counts; else only the newest ones.
        self._complete = complete
        #: Pod → of each file that it has, by container and first time, how much has been read.
        self._read: dict[str, dict[tuple[str, bytes], int]] = {}
        #: Pod → its state file when its logs were read to the end.
        self._finished: dict[str, int] = {}
        self._beginnings: dict[tuple[str, str, int, str], str] = {}
        self._held: list[LogLine] = []

    def new_lines(self, *, last: bool = False) -> list[LogLine]:
        settled = _stamp(time.time_ns() - int(_SETTLED_SECONDS * 1e9))
        for pod in self._pods.all():
            # Of a log that is read in several turns the next lines are as old as the last ones.
            settled = min(settled, self._read_pod(pod, everything=last) or settled)
        if last:
            self._held += [
                LogLine(settled, uid, self._name(uid), container, attempt, output, text)
                for (uid, container, attempt, output), text in self._beginnings.items()
                if text
            ]
            self._beginnings.clear()
        self._held.sort(key=lambda line: line.time)
        ready = [line for line in self._held if last or line.time <= settled]
        self._held = self._held[len(ready) :]
        return ready

    def keep(self, uid: str) -> None:
        """Read what is left of a pod whose files are about to go."""
        pod = self._pods.of(uid)
        if pod is not None:
            self._finished.pop(uid, None)
            self._read_pod(pod, everything=True)

    def _name(self, uid: str) -> str:
        pod = self._pods.of(uid)
        return pod.name if pod is not None else uid

    def _read_pod(self, pod: LocalPod, *, everything: bool = False) -> str:
        """The time up to which all lines of the pod are known; "" if there is nothing more to read."""
        uid = pod.directory.uid
        # Looked at first: what was written before the pod ended is then read below.
        state = _changed_at(pod.directory.path / "state.json")
        if self._finished.get(uid) == state:
            return ""
        over = bool((pod.directory.read("state.json") or {}).get("stopped"))
        before, self._read[uid] = self._read.get(uid, {}), {}
        unread: list[str] = []
        for container, attempt in _attempts(pod.directory.path / "logs"):
            rest = ""
            for piece in opened_pieces(pod.directory.log(container, attempt)):
                with piece:
                    if rest:
                        continue  # what is newer waits for its turn
                    rest = self._read_piece(pod, container, attempt, piece.fileno(), before)
                    while rest and everything:
                        rest = self._read_piece(pod, container, attempt, piece.fileno(), self._read[uid])
            if rest:
                unread.append(rest)
                self._read[uid] = before | self._read[uid]
        if over and not unread:
            self._finished[uid] = state
        return min(unread, default="")

    def _read_piece(
        self, pod: LocalPod, container: str, attempt: int, file: int, before: Mapping[tuple[str, bytes], int]
    ) -> str:
        """The time of the last line that was read, if there is more to read; else ""."""
        identity = container, os.pread(file, _TIME_BYTES, 0)
        if len(identity[1]) < _TIME_BYTES:
            return ""  # not known by its first line yet, even if that is written right now
        start, size = before.get(identity, 0), os.fstat(file).st_size
        skipped = not self._complete and size - start > 2 * _END_BYTES
        if skipped:
            start = size - _END_BYTES
        data = os.pread(file, _MOST_BYTES, start)
        end = data.rfind(b"\n") + 1
        self._read[pod.directory.uid][identity] = start + end
        lines = data[:end].split(b"\n")[:-1]
        for line in lines[1:] if skipped else lines:
            self._take(pod, container, attempt, line.decode(errors="replace"))
        more = bool(end) and len(data) == _MOST_BYTES
        return lines[-1].partition(b" ")[0].decode(errors="replace") if more else ""

    def _take(self, pod: LocalPod, container: str, attempt: int, line: str) -> None:
        """A line as it is on disk: `TIME OUTPUT F text`, or P for a part of a line."""
        try:
            at, output, kind, text = line.split(" ", 3)
        except ValueError:
            return
        key = pod.directory.uid, container, attempt, output
        text = self._beginnings.pop(key, "") + text
        if kind == "P" and len(text) < _LONGEST:
            self._beginnings[key] = text
        else:
            self._held.append(LogLine(at, pod.directory.uid, pod.name, container, attempt, output, text))


def _attempts(logs: Path) -> Iterator[tuple[str, int]]:
    """Containers and their attempts of which there are logs, oldest first."""
    try:
        containers = sorted(os.listdir(logs))
    except OSError:
        return
    for container in containers:
        numbers = {name.partition(".")[0] for name in os.listdir(logs / container)}
        yield from ((container, number) for number in sorted(int(one) for one in numbers if one.isdecimal()))


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _stamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09}Z"
