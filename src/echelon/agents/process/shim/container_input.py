"""The standard input of a container: what attached clients write into a FIFO goes to its pipe or its terminal.

    clients ─► FIFO ─► ContainerInput ─► pipe or terminal ─► container

Nothing is read that the container cannot take yet.  The FIFO never ends; who wants the input to end says so.
"""

from __future__ import annotations

import itertools
import os
import select

_CHUNK = 1 << 16
#: Beyond this, output and commands have their turn before more input is moved.
_CHUNKS_AT_ONCE = 16
_END_OF_FILE = b"\x04"


class ContainerInput:
    def __init__(self, fifo: str, target: int, *, terminal: bool) -> None:
        # Also open for writing here, so that it does not end with the first client.
        self._source = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self._target = target
        self._terminal = terminal
        self._waiting = b""
        self._ending = False
        self.closed = False
        os.set_blocking(target, False)

    @property
    def watched(self) -> tuple[int, int]:
        """The file to wait for, and what for; `move` when it is ready."""
        return (self._target, select.POLLOUT) if self._waiting else (self._source, select.POLLIN)

    def move(self) -> None:
        """As much as there is and as the container takes, up to a limit unless the input ends."""
        try:
            for _ in itertools.count() if self._ending else range(_CHUNKS_AT_ONCE):
                if not self._waiting:
                    self._waiting = os.read(self._source, _CHUNK)
                self._waiting = self._waiting[os.write(self._target, self._waiting) :]
        except BlockingIOError:
            if self._ending and not self._waiting:
                self.close()
        except OSError:  # the container has closed it
            self.close()

    def end(self) -> None:
        """Once everything is moved, the container reads the end of its input."""
        self.move()
        if self._terminal:
            self._waiting += _END_OF_FILE
        else:
            self._ending = True
        if not self.closed:
            self.move()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self._source)
            os.close(self._target)
