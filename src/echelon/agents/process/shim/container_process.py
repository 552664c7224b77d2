"""One attempt of a container as a process: how it starts, what its end is, and that nothing of it is left.

start ─► fork ─► own session, mounts, limits ─► exec        output ─► ContainerLog
end   ─► whatever else it started is killed ─► output is read to its end ─► the attempt has its exit code
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import struct
import termios
import time
from typing import Any

from . import kernel, mounts
from .cgroups import CgroupFolders
from .container_input import ContainerInput
from .container_log import ContainerLog

#: In the environment of every process of a container: daemons that left its session are found by it.
MARK = "ECHELON_CONTAINER_ID"
#: As container runtimes report a command that could not be started.
START_ERROR_CODE = 128
_CHUNK = 1 << 16


class ContainerProcess:
    """`request` is what the agent sent, see `records.StartContainer`."""

    def __init__(
        self,
        request: dict[str, Any],
        pod: str,
        host_proc: int,
        pod_groups: CgroupFolders | None,
        *,
        private_mounts: bool,
    ) -> None:
        self.name: str = request["container"]
        self.attempt: int = request["attempt"]
        self.pid = 0
        self.host_pid = 0
        self.host_start = 0
        self.started = 0.0
        self.finished = 0.0
        self.code: int | None = None
        self.signal = 0
        self.error = ""
        self.out_of_memory = False
        #: Open ends of pipes, or the terminal, that this process reads, by stream.
        self.streams: dict[int, str] = {}
        #: For a container with `stdin: true`.
        self.input: ContainerInput | None = None
        self.log: ContainerLog | None = None
        #: Its mount namespace, which whatever it starts has too; 0 where it has none of its own.
        self.mounts = 0
        self._request = request
        self._pod = pod
        self._host_proc = host_proc
        self._private_mounts = private_mounts
        #: Where its limits take effect.
        self._groups = pod_groups.below(f"{self.name}.{self.attempt}") if pod_groups is not None else None

    @property
    def mark(self) -> str:
        return mark_of(self._request["uid"], self.name, self.attempt)

    def record(self) -> dict[str, Any]:
        return {
            "container": self.name,
            "attempt": self.attempt,
            "pid": self.host_pid,
            "start": self.host_start,
            "started": self.started,
            "finished": self.finished,
            "code": self.code,
            "signal": self.signal,
            "error": self.error,
            "out_of_memory": self.out_of_memory,
        }

    # -- start -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        limits = self._request["rotation"]
        self.started = time.time()
        try:
            path = self._request["log"]
            folder = os.path.dirname(path)
            for made in (os.path.dirname(folder), folder):
                # Not the directory of the pod itself: if it was removed, it stays so.
                with contextlib.suppress(FileExistsError):
                    os.mkdir(made)
            whole_lines = not self._request.get("tty")
            self.log = ContainerLog(path, limits["bytes"], limits["files"], whole_lines=whole_lines)
            if self._groups is not None:
                self._groups.make()
                self._groups.set((one[0], one[1], one[2]) for one in self._request.get("limits", ()))
            self._spawn()
        except Exception as error:
            self._not_started((isinstance(error, OSError) and error.strerror) or str(error))

    def _spawn(self) -> None:
        told = os.pipe()
        theirs = self._on_terminal() if self._request.get("tty") else self._on_pipes()
        shim = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(theirs, told[1], shim)
        for end in {*theirs, told[1]}:
            os.close(end)
        answer = b""
        while piece := os.read(told[0], 4096):
            answer += piece
        os.close(told[0])
        head, _, problem = answer.decode(errors="replace").partition("\n")
        self.host_pid, self.host_start = map(int, head.split()) if head else (self.pid, 0)
        if problem:
            os.waitpid(self.pid, 0)
            self._not_started(problem)
        elif self._private_mounts:
            self.mounts = mount_namespace(self.pid)

    def _on_pipes(self) -> tuple[int, int, int]:
        """What the container gets as its input, output and error output."""
        out, err = os.pipe(), os.pipe()
        for end, stream in ((out[0], "stdout"), (err[0], "stderr")):
            os.set_blocking(end, False)
            self.streams[end] = stream
        if not self._request.get("stdin"):
            return os.open(os.devnull, os.O_RDONLY), out[1], err[1]
        given = os.pipe()
        self.input = ContainerInput(self._request["stdin"], given[1], terminal=False)
        return given[0], out[1], err[1]

    def _on_terminal(self) -> tuple[int, int, int]:
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        self.streams[ours] = "stdout"
        if self._request.get("stdin"):
            self.input = ContainerInput(self._request["stdin"], os.dup(ours), terminal=True)
        return theirs, theirs, theirs

    def _not_started(self, problem: str) -> None:
        self.pid = 0
        self.error = problem
        self.code = START_ERROR_CODE
        self._close_streams()
        self._leave_groups()
        self.finished = time.time()
        if self.log is not None:
            self.log.close()

    def _become(self, streams: tuple[int, int, int], told: int, shim: int) -> None:
        """In the child, never returns."""
        request = self._request
        try:
            os.setsid()
            if not self._private_mounts:
                kernel.end_with_parent(signal.SIGKILL, shim)
            os.write(told, self._host_identity())
            if self._groups is not None:
                self._groups.join()
            for target, source in enumerate(streams):
                os.dup2(source, target)
            if request.get("tty"):
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if self._private_mounts:
                kernel.unshare(kernel.NEWNS)
                mounts.separate()
                chosen = [mounts.Mount(one[0], one[1], read_only=one[2], made=one[3]) for one in request["mounts"]]
                mounts.arrange(chosen, request["scratch"], request.get("root", ""), request.get("hidden", ()))
            for name, value in request.get("rlimits", {}).items():
                resource.setrlimit(getattr(resource, name), (value, value))
            for number in (
                signal.SIGPIPE,
                signal.SIGXFSZ,
                signal.SIGCHLD,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
            ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.umask(0o022)
            if self._private_mounts:
                kernel.keep_capabilities(sum(1 << number for number in request["capabilities"]))
            if not request["may_gain_rights"]:
                kernel.gain_no_rights()
            self._enter_directory(request["cwd"])
            become(request["argv"], {**request["env"], MARK: self.mark})
        except BaseException as error:
            text = str(error) if not isinstance(error, OSError) else (error.strerror or str(error))
            os.write(told, b"\n" + text.encode(errors="replace"))
        finally:
            os._exit(127)

    def _host_identity(self) -> bytes:
        """The pid of this process as the machine counts, and when it started."""
        pid = os.readlink("self", dir_fd=self._host_proc)
        file = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=self._host_proc)
        fields = os.read(file, 4096).rpartition(b")")[2].split()
        os.close(file)
        return f"{pid} {int(fields[19])}".encode()

    def _enter_directory(self, path: str) -> None:
        try:
            os.chdir(path)
        except OSError as error:
            raise OSError(error.errno, f"workingDir {path}: {error.strerror}") from None

    # -- while it runs -----------------------------------------------------------------------------------------

    def read(self, end: int) -> bool:
        """Move output into the log; False once this stream has ended."""
        assert self.log is not None
        try:
            data = os.read(end, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if data:
            self.log.feed(self.streams[end], data)
            return True
        os.close(end)
        del self.streams[end]
        return False

    def send(self, number: int) -> None:
        if self.pid and self.code is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def resize(self, width: int, height: int) -> None:
        """The size of its terminal, if it has one."""
        if self._request.get("tty"):
            for end in self.streams:
                fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    # -- the end -----------------------------------------------------------------------------------------------

    def ended(self, status: int) -> None:
        """The main process was reaped; what it left behind has been killed."""
        for end in list(self.streams):
            self._read_what_is_left(end)
        self._close_streams()
        if self.log is not None:
            self.log.close()
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
            self.code = 128 + self.signal
        else:
            self.code = os.WEXITSTATUS(status)
        if self._groups is not None and self.code == 128 + signal.SIGKILL:
            self.out_of_memory |= self._groups.out_of_memory()
        self._leave_groups()
        self.finished = time.time()
        self.pid = 0

    def _leave_groups(self) -> None:
        if self._groups is not None:
            self._groups.remove()

    def _read_what_is_left(self, end: int) -> None:
        """What the container wrote before its end fits into a pipe; somebody who was not found may go on writing."""
        assert self.log is not None
        left = _terminal_or_pipe_size(end)
        while left > 0:
            try:
                data = os.read(end, min(_CHUNK, left))
            except OSError:
                return
            if not data:
                return
            left -= len(data)
            self.log.feed(self.streams[end], data)

    def _close_streams(self) -> None:
        for end in self.streams:
            os.close(end)
        self.streams.clear()
        if self.input is not None:
            self.input.close()


def mark_of(uid: str, container: str, attempt: int) -> str:
    return f"{uid}/{container}/{attempt}"


def mount_namespace(pid: int) -> int:
    """A number that tells it from all others; 0 if the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def _terminal_or_pipe_size(end: int) -> int:
    try:
        return fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)
    except OSError:
        return _CHUNK


def become(argv: list[str], env: dict[str, str]) -> None:
    """Find the program in the container's PATH, as a container runtime does, and become it."""
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        candidates = [f"{folder or '.'}/{program}" for folder in env.get("PATH", os.defpath).split(":")]
    refused = False
    for path in candidates:
        try:
            os.execve(path, argv, env)  # noqa: S606 - a container is a program, not a shell command
        except PermissionError:
            refused = True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise OSError(error.errno, f'exec: "{program}": {error.strerror}') from None
    if refused:
        raise OSError(f'exec: "{program}": permission denied')
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    raise OSError(f'exec: "{program}": {where}')
