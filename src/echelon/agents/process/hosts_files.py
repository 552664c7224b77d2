"""Hosts files: every pod has one, and all are written again when a name or an address changes."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from ...api.objects import meta
from ...api.scheme import ENDPOINT_SLICES, SERVICES, Object
from ...client.informer import Caches
from .rules.host_names import DOMAIN, hosts_file, known_names

log = logging.getLogger(__name__)

#: Changes within this time are written together.
_BATCH_SECONDS = 0.05
_RETRY_SECONDS = 5.0


class HostsFiles:
    """Reads EndpointSlices; `predict` computes the address of a pod that does not exist yet from its name."""

    def __init__(self, caches: Caches, predict: Callable[[str], str]) -> None:
        self._slices = caches.of(ENDPOINT_SLICES)
        self._services = caches.of(SERVICES)
        self._predict = predict
        self._names: dict[str, dict[str, list[str]]] = {}
        self._files: dict[str, tuple[Object, str, Path]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Keep the files current until cancelled."""
        self._slices.add_handler(self._slice_changed, "process-nodes")
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_SECONDS)
            self._changed.clear()
            self._names.clear()
            for uid, (pod, address, path) in list(self._files.items()):
                try:
                    if uid in self._files:
                        replace_in_place(path, self.text_for(pod, address))
                except OSError as error:  # the disk is full, or the files of the pod are just removed
                    log.warning("%s: %s", path, error.strerror or error)
                    asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)
                await asyncio.sleep(0)

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.get("endpoints") != new.get("endpoints"):
            self._changed.set()

    def keep(self, pod: Object, address: str, path: Path) -> None:
        """From now on this file of the pod is kept current."""
        self._files[meta.uid(pod)] = (pod, address, path)
        replace_in_place(path, self.text_for(pod, address))

    def forget(self, uid: str) -> None:
        self._files.pop(uid, None)

    def text_for(self, pod: Object, address: str) -> str:
        return hosts_file(pod, address, self._known(meta.namespace(pod)))

    def _known(self, namespace: str) -> dict[str, list[str]]:
        if namespace not in self._names:
            self._names[namespace] = known_names(self._slices.all(), namespace)
        return self._names[namespace]

    def resolve_from(self, namespace: str, name: str) -> str | None:
        """The address of a name, seen from a namespace; of a pod of a headless Service also before it exists."""
        found = self._known(namespace).get(name)
        if found:
            return found[0]
        parts = name.removesuffix(f".{DOMAIN}").removesuffix(".svc").split(".")
        if len(parts) not in (2, 3):
            return None
        host, service, space = (*parts, namespace)[:3]
        headless = self._services.get(f"{space}/{service}")
        if headless is None or headless["spec"].get("clusterIP") != "None":
            return None
        return self._predict(f"{space}/{host}.{service}")


def replace_in_place(path: Path, text: str) -> None:
    """The file is mounted, so it stays the same file: a reader sees the old or the new lines, never an empty file."""
    data = text.encode()
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if os.pread(file, len(data) + 1, 0) != data:
            if os.pwrite(file, data, 0) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(file, len(data))
    finally:
        os.close(file)
