"""The GPUs of this machine and who has them; kept with the files of the pods, so that a restart changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....api.objects import meta
from ....api.scheme import Object
from ....base import quantity
from ..pod_directories import NodeDirectory
from .gpu_allotment import GPU, allotted, gpus_of_nodes

_FILE = "gpus.json"


class GpuShares:
    def __init__(self, directory: NodeDirectory, nodes: Iterable[Object]) -> None:
        self._directory = directory
        counts = {meta.name(node): quantity.parse(node["status"]["capacity"].get(GPU, 0)) for node in nodes}
        self._of_node = gpus_of_nodes(counts)
        #: Pod → container → indexes.
        self._given: dict[str, dict[str, tuple[int, ...]]] = {}
        for pod in directory.pods():
            known = pod.read(_FILE)
            if known is not None:
                self._given[pod.uid] = {name: tuple(indexes) for name, indexes in known.items()}

    def take(self, pod: Object) -> Mapping[str, tuple[int, ...]] | None:
        """Container → its GPUs; None while others still have them."""
        uid = meta.uid(pod)
        if uid not in self._given:
            used = {index for given in self._given.values() for indexes in given.values() for index in indexes}
            free = [index for index in self._of_node.get(pod["spec"]["nodeName"], ()) if index not in used]
            made = allotted(pod, free)
            if made is None:
                return None
            if made:
                self._directory.pod(uid).write(_FILE, {name: list(indexes) for name, indexes in made.items()})
            self._given[uid] = made
        return self._given[uid]

    def release(self, uid: str) -> None:
        if self._given.pop(uid, None):
            (self._directory.pod(uid).path / _FILE).unlink(missing_ok=True)
