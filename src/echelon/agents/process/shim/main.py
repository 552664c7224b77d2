"""The shim: one process per pod that starts its containers, keeps their logs and remembers how they ended.

    agent ── lines of JSON over control.sock ──► start, signal, kill, resize, end input, stop
    agent ◄── the state of all containers, after every change; the same is in state.json

It decides nothing: what a kubelet would decide, the agent does.  It outlives the agent, and an agent that comes back
finds it by shim.json.  Where there are namespaces it is the first process of the pod, so the kernel ends every process
of the pod with it.  One shim runs per pod directory: the lock sees to that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from . import kernel, namespaces
from .cgroups import CgroupFolders, make_pod_groups, remove_pod_groups
from .container_process import MARK, ContainerProcess, mount_namespace

#: Exit code: another shim runs for this pod.
ALREADY_RUNNING = 75
_MOST_COMMAND = 16 << 20
_LOOK_SECONDS = 10.0
#: A shim in which nothing runs and which nobody is connected to for so long ends: Echelon is gone for good.
_ALONE_SECONDS = 300.0
#: The same for one whose Echelon nobody will start again: whatever runs in it ends with it.
_TEMPORARY_SECONDS = 10.0
#: Of every container: the current one, and the one before it for `kubectl logs --previous`.
_KEPT_ATTEMPTS = 2
#: On a busy machine it takes a while until what was killed is gone.
_KILL_SECONDS = 10.0
#: Disks give space in blocks; what is written over on a full disk may be longer than before by this.
_BLOCK, _ROOM_TO_GROW = 4096, 2048


def main(arguments: list[str]) -> None:
    """`shim DIRECTORY`: returns when the shim is ready to take commands; it goes on in the background."""
    os.chdir(arguments[0])
    os.umask(0o077)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(ALREADY_RUNNING)
    with open("sandbox.json") as file:
        sandbox = json.load(file)
    ready, tell = os.pipe()
    os.setsid()
    try:
        held = _hold(sandbox)
        groups = make_pod_groups(sandbox)
        namespaces.leave_host(sandbox)
        if os.fork() == 0:
            os.close(ready)
            _run(sandbox, tell, held, groups)
    except OSError as error:
        sys.exit(f"{error.strerror or error}")
    os.close(tell)
    problem = b""
    while piece := os.read(ready, 4096):
        problem += piece
    if problem != b"ready":
        sys.exit(problem.decode(errors="replace") or "the shim ended before it was ready")


def _hold(sandbox: dict[str, Any]) -> list[Any]:
    """What must stay open as long as this pod runs: the connection that keeps the holder of the network alive."""
    if sandbox["tier"] != "net":
        return []
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(os.path.dirname(sandbox["holder_socket"]), os.O_RDONLY | os.O_DIRECTORY)
    # A path through a descriptor, because the path of a socket must be short.
    line.connect(f"/proc/self/fd/{folder}/{os.path.basename(sandbox['holder_socket'])}")
    os.close(folder)
    return [line]


def _run(sandbox: dict[str, Any], tell: int, held: list[Any], groups: CgroupFolders | None) -> None:
    """In the background process, never returns."""
    code = 1
    try:
        shim = Shim(sandbox, held, groups)
        _detach()
        os.write(tell, b"ready")
        os.close(tell)
        shim.serve()
        code = 0
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(tell, (error.strerror or str(error)).encode())
    finally:
        os._exit(code)


def _detach() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open("shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


class Shim:
    def __init__(self, sandbox: dict[str, Any], held: list[Any], groups: CgroupFolders | None) -> None:
        self._sandbox = sandbox
        self._groups = groups
        self._uid: str = sandbox["uid"]
        self._own_processes = sandbox["tier"] != "plain"
        self._held = {line.fileno(): line for line in held}
        self._temporary = bool(sandbox.get("temporary"))
        self._alone_seconds = _TEMPORARY_SECONDS if self._temporary else _ALONE_SECONDS
        self._directory = os.getcwd()
        self._files = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        #: /proc of the machine: the pids in it are those that the agent sees.
        self._host_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        host_pid = int(os.readlink("/proc/self"))
        identity = {"pid": host_pid, "start": kernel.start_of(host_pid), "tier": sandbox["tier"]}
        kernel.set_process_name("echelon-shim")
        namespaces.settle(sandbox)
        if self._own_processes:
            # Its containers see it as process 1, and through it they would see what is hidden from them.
            kernel.hide_process()
        self._running: dict[int, ContainerProcess] = {}
        #: Container → its attempts; only the last two are kept.
        self._attempts: dict[str, list[ContainerProcess]] = {}
        #: Records of attempts in sandboxes before this one.
        self._past: list[dict[str, Any]] = sandbox.get("past", [])
        self._stopping = False
        self._clients: dict[int, _Client] = {}
        self._poll = select.poll()
        for line in held:
            self._poll.register(line, 0)  # tells only its end
        self._listener = self._listen()
        self._wake = self._catch_signals()
        self._write_state()
        self._replace_file("shim.json", identity)

    def _listen(self) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("control.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind("control.sock")
        listener.listen(16)
        self._poll.register(listener, select.POLLIN)
        return listener

    def _catch_signals(self) -> int:
        wake, rung = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(rung, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._poll.register(wake, select.POLLIN)
        return wake

    def _asked_to_stop(self, *_: object) -> None:
        self._stopping = True

    # -- the loop ----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        last_needed = last_look = time.monotonic()
        while not self._stopping:
            for file, _ in self._poll.poll(min(_LOOK_SECONDS, self._alone_seconds) * 1000):
                self._handle(file)
            now = time.monotonic()
            if now - last_look >= _LOOK_SECONDS or os.fstat(self._files).st_nlink == 0:
                last_look = now
                if self._is_forgotten():
                    self._kill_everything()
                    return
            if self._clients or (self._running and not self._temporary):
                last_needed = now
            self._stopping = self._stopping or now - last_needed > self._alone_seconds
        self._end_everything()

    def _is_forgotten(self) -> bool:
        """The directory was removed, if only in part: nobody will ever find this pod again."""
        try:
            os.stat("sandbox.json", dir_fd=self._files)
        except FileNotFoundError:
            return True
        return False

    def _handle(self, file: int) -> None:
        if file == self._wake:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap()
        elif file == self._listener.fileno():
            with contextlib.suppress(OSError):
                accepted, _ = self._listener.accept()
                self._clients[accepted.fileno()] = _Client(accepted)
                self._poll.register(accepted, select.POLLIN)
                self._tell(self._clients[accepted.fileno()])
        elif file in self._clients:
            self._take_commands(self._clients[file])
        elif file in self._held:
            self._network_lost()
        else:
            self._read_output(file)

    def _read_output(self, file: int) -> None:
        for process in self._running.values():
            if process.input is not None and not process.input.closed and file == process.input.watched[0]:
                self._with_input(process, process.input.move)
                return
            if file in process.streams:
                lost = process.log is not None and process.log.lost
                if not process.read(file):
                    self._poll.unregister(file)
                if process.log is not None and process.log.lost and not lost:
                    self._changed()
                return
        with contextlib.suppress(KeyError):
            self._poll.unregister(file)

    def _with_input(self, process: ContainerProcess, act: Callable[[], None]) -> None:
        """Afterwards it may wait for something else."""
        assert process.input is not None
        self._poll.unregister(process.input.watched[0])
        act()
        if not process.input.closed:
            self._poll.register(*process.input.watched)

    def _take_commands(self, client: _Client) -> None:
        lines = client.lines()
        if lines is None:
            self._poll.unregister(client.line)
            del self._clients[client.line.fileno()]
            client.line.close()
            return
        for line in lines:
            try:
                self._obey(json.loads(line))
            except Exception as error:  # of this command; the pod goes on
                print(f"{line[:200]!r}: {error!r}", file=sys.stderr, flush=True)

    def _obey(self, command: dict[str, Any]) -> None:
        what = command["do"]
        if what == "stop":
            self._stopping = True
            return
        latest = self._latest(command["container"])
        if what == "start":
            if latest is None or latest.attempt < command["attempt"]:
                self._start(command)
        elif latest is not None and latest.attempt == command["attempt"] and latest.code is None:
            if what == "kill":
                latest.out_of_memory = bool(command.get("out_of_memory"))
                latest.send(signal.SIGKILL)
            elif what == "signal":
                latest.send(command["signal"])
            elif what == "resize":
                latest.resize(command["width"], command["height"])
            elif what == "end input" and latest.input is not None and not latest.input.closed:
                self._with_input(latest, latest.input.end)
        self._changed()

    def _latest(self, name: str) -> ContainerProcess | None:
        attempts = self._attempts.get(name)
        return attempts[-1] if attempts else None

    def _network_lost(self) -> None:
        """The holder of the network was killed: the pod ends as if its shim had been, and gets a new sandbox."""
        self._kill_and_reap()
        os._exit(1)

    # -- containers --------------------------------------------------------------------------------------------

    def _start(self, request: dict[str, Any]) -> None:
        request["uid"] = self._uid
        process = ContainerProcess(
            request, self._directory, self._host_proc, self._groups, private_mounts=self._own_processes
        )
        self._attempts[process.name] = [*self._attempts.get(process.name, [])[-1:], process]
        process.run()
        if process.pid:
            self._running[process.pid] = process
            for end in process.streams:
                self._poll.register(end, select.POLLIN)
            if process.input is not None:
                self._poll.register(*process.input.watched)

    def _reap(self) -> None:
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            process = self._running.get(pid)
            if process is not None:
                self._ended(process, status)
                changed = True
        if changed:
            self._changed()

    def _ended(self, process: ContainerProcess, status: int) -> None:
        del self._running[process.pid]
        self._kill_rest_of(process)
        for end in process.streams:
            self._poll.unregister(end)
        if process.input is not None and not process.input.closed:
            self._poll.unregister(process.input.watched[0])
        process.ended(status)

    def _kill_rest_of(self, process: ContainerProcess) -> None:
        """Whatever the container has started, also what left its session or its parent."""
        if self._own_processes and not self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all at once, before one of them forks
            _kill_all(_others)
            return
        kill_marked(process.mark + "\0")
        if process.mounts:  # also those that have changed their environment, as by a title of their own
            _kill_all(lambda: [pid for pid in _processes() if mount_namespace(pid) == process.mounts])
        if not self._running:
            kill_descendants()

    def _end_everything(self) -> None:
        self._kill_everything()
        self._changed()

    def _kill_everything(self) -> None:
        self._kill_and_reap()
        if not self._own_processes:
            kill_marked(self._uid + "/")
            kill_descendants()
        remove_pod_groups(self._sandbox)

    def _kill_and_reap(self) -> None:
        for process in self._running.values():
            process.send(signal.SIGKILL)
        if self._own_processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        while self._running:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                break
            if pid in self._running:
                self._ended(self._running[pid], status)

    # -- telling -----------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        known = [*self._past, *(one.record() for attempts in self._attempts.values() for one in attempts)]
        count = {name: sum(one["container"] == name for one in known) for name in {one["container"] for one in known}}
        kept = []
        for record in known:
            if count[record["container"]] <= _KEPT_ATTEMPTS:
                kept.append(record)
            else:
                count[record["container"]] -= 1
        return {
            "stopped": self._stopping and not self._running,
            "attempts": kept,
            "lost_log_bytes": sum(a.log.lost for one in self._attempts.values() for a in one if a.log is not None),
        }

    def _changed(self) -> None:
        self._write_state()
        for client in list(self._clients.values()):
            self._tell(client)

    def _tell(self, client: _Client) -> None:
        with contextlib.suppress(OSError):  # its end is seen when it is read
            client.line.sendall(json.dumps(self._state()).encode() + b"\n")

    def _write_state(self) -> None:
        self._replace_file("state.json", self._state())

    def _replace_file(self, name: str, content: dict[str, Any]) -> None:
        """The old or the new content, whatever happens meanwhile; a full disk must not end the pod.

        Files are larger than they need be: on a full disk the new content is written over the old one.
        """
        text = json.dumps(content).encode()
        room = (len(text) + _ROOM_TO_GROW) // _BLOCK * _BLOCK + _BLOCK
        try:
            draft = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self._files)
            try:
                whole = os.write(draft, text.ljust(room)) == room
            finally:
                os.close(draft)
            if whole:
                os.rename(f"{name}.new", name, src_dir_fd=self._files, dst_dir_fd=self._files)
                return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                print(f"{name}: {error}", file=sys.stderr)
                return
        with contextlib.suppress(OSError):
            self._overwrite(name, text)

    def _overwrite(self, name: str, text: bytes) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{name}.new", dir_fd=self._files)
        file = os.open(name, os.O_WRONLY, dir_fd=self._files)
        try:
            room = os.fstat(file).st_size
            if len(text) <= room:
                os.pwrite(file, text.ljust(room), 0)
        finally:
            os.close(file)


class _Client:
    """A connection of an agent."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self._rest = b""

    def lines(self) -> list[bytes] | None:
        """Complete lines that have come; None at the end."""
        try:
            data = self.line.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        if not data or len(self._rest) > _MOST_COMMAND:
            return None
        *done, self._rest = (self._rest + data).split(b"\n")
        return done


def kill_marked(prefix: str) -> None:
    """Kill every process whose environment has a mark that begins so."""
    wanted = b"\0" + f"{MARK}={prefix}".encode()
    _kill_all(lambda: [pid for pid in _processes() if _is_marked(pid, wanted)])


def kill_descendants(ancestor: int = 0) -> None:
    """Kill every process that comes from this or another shim, which adopts orphans: also those without a mark."""
    _kill_all(lambda: _descendants(ancestor or os.getpid()))


def _kill_all(find: Callable[[], list[int]]) -> None:
    """Until none is found: they may fork meanwhile, but not once they are stopped."""
    pause, deadline = 0.002, time.monotonic() + _KILL_SECONDS
    while (found := find()) and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parents() -> dict[int, int]:
    """Process → its parent, of all that have not ended."""
    parents: dict[int, int] = {}
    for pid in _processes():
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                parents[pid] = int(parent)
    return parents


def _others() -> list[int]:
    """Every process but this one: where it is the first one of a PID namespace, those of its pod."""
    return [pid for pid in _parents() if pid != os.getpid()]


def _descendants(ancestor: int) -> list[int]:
    parents = _parents()
    found, fresh = set[int](), {ancestor}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh}
        found |= fresh
    return sorted(found)


def _is_marked(pid: int, wanted: bytes) -> bool:
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in b"\0" + file.read()
    except OSError:
        return False
