"""The configuration of a running program: flags over a file, which is read again when it changes.

    file ─(changed?)─► read, check ─► applied: listeners are called with the new values
                                 ├──► refused: the old values stay, and the log and a metric say so
                                 └──► what cannot change at run time: a restart is needed, and the log says so

A file is looked at, not watched: a mounted ConfigMap changes by a symbolic link in the path, which moves to another
directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from ...base.clock import Clock
from ...base.program_options import ProgramOptions, Values
from ...deploy.configuration import BadConfiguration, changed, merged, read

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 2.0
RELOADS = "echelon_config_reloads_total"
LAST_RELOAD = "echelon_config_last_reload_successful"
RESTART_NEEDED = "echelon_config_restart_needed"


class LiveConfiguration:
    """The values of one program; `BadConfiguration` if its file cannot be used at the start."""

    def __init__(self, program: ProgramOptions, flags: Mapping[str, Any], path: Path | None = None) -> None:
        self.program = program
        self.path = path
        self._flags = dict(flags)
        self._seen = self._signature()
        self.values: Values = merged(program, self._read(), self._flags)
        #: Keys that the file has changed and that only a restart applies.
        self.restart_needed: tuple[str, ...] = ()
        #: Why the file as it is now is not used; "" if it is.
        self.refused = ""
        self._listeners: list[Callable[[Values], None]] = []
        self._reloads: Counter | None = None

    def on_change(self, apply: Callable[[Values], None]) -> None:
        """Call `apply` with all values whenever a live one has changed."""
        self._listeners.append(apply)

    def count_in(self, registry: CollectorRegistry) -> None:
        """Count reloads in a registry."""
        self._reloads = Counter(
            RELOADS.removesuffix("_total"),
            "Changes of the config file, by what became of them.",
            ("result",),
            registry=registry,
        )
        good = Gauge(LAST_RELOAD, "Whether the config file as it is now is used.", registry=registry)
        good.set_function(lambda: 0.0 if self.refused else 1.0)
        needed = Gauge(RESTART_NEEDED, "Keys of the config file that a restart would apply.", registry=registry)
        needed.set_function(lambda: float(len(self.restart_needed)))

    async def follow(self, clock: Clock) -> None:
        """Read the file again whenever it has changed."""
        while True:
            await clock.sleep(_SECONDS_BETWEEN_LOOKS)
            self.look()

    def look(self) -> None:
        """Read the file again if it has changed."""
        seen = self._signature()
        if seen != self._seen:
            self._seen = seen
            self._reload()

    def _reload(self) -> None:
        try:
            new = merged(self.program, self._read(), self._flags)
        except BadConfiguration as error:
            self.refused = str(error)
            self._count("refused")
            log.error("config file not used, the old configuration stays: %s", error)
            return
        was_amiss = bool(self.refused or self.restart_needed)
        self.refused = ""
        live, fixed = changed(self.program, self.values, new)
        self.restart_needed = tuple(fixed)
        for key in fixed:
            told = {"key": key, "old": _shown(self.values[key]), "new": _shown(new[key])}
            log.warning("config: restart needed; until then the old value stays", extra={"fields": told})
        self.values = {**self.values, **{key: new[key] for key in live}}
        if live:
            for apply in self._listeners:
                apply(self.values)
        if live or (was_amiss and not fixed):
            told = {key: _shown(new[key]) for key in live}
            log.warning("config file read again", extra={"fields": told})
        self._count("restart_needed" if fixed else "applied")

    def _count(self, result: str) -> None:
        if self._reloads is not None:
            self._reloads.labels(result).inc()

    def _read(self) -> dict[str, Any]:
        if self.path is None:
            return {}
        try:
            return read(self.path.read_text(), str(self.path), self.program)
        except OSError as error:
            raise BadConfiguration(f"{self.path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BadConfiguration(f"{self.path}: not a text file") from error

    def _signature(self) -> tuple[int, ...] | None:
        """Differs whenever the file may have changed; None if there is none."""
        try:
            found = self.path.stat() if self.path is not None else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) if found is not None else None


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
