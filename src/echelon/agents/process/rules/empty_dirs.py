"""Empty directories of a pod: in memory or on disk, and how large they may become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....api.scheme import Object
from ....base import quantity


def _of(pod: Object) -> Iterator[tuple[str, str, str | None]]:
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("emptyDir")
        if source is not None:
            yield volume["name"], source.get("medium") or "", source.get("sizeLimit")


def in_memory(pod: Object) -> dict[str, int]:
    """Volume → bytes that it may have, 0 for what the kernel gives: those that are mounted from memory."""
    return {name: quantity.parse(limit or 0) for name, medium, limit in _of(pod) if medium == "Memory"}


def on_disk(pod: Object) -> dict[str, str]:
    """Volume → its limit as the pod spells it: those whose size is looked at."""
    return {name: limit for name, medium, limit in _of(pod) if limit and not medium}


def too_large(pod: Object, sizes: Mapping[str, int]) -> str:
    """What a kubelet says when it evicts a pod for the size of a volume; "" if none is too large."""
    for name, limit in on_disk(pod).items():
        if sizes.get(name, 0) > quantity.parse(limit) > 0:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    return ""


def refused_media(pod: Object, tier: str) -> Iterator[str]:
    for name, medium, _ in _of(pod):
        if medium == "Memory" and tier == "plain":
            yield f"emptyDir.medium Memory of volume {name} is refused: this machine allows no mounts (tier plain)"
        elif medium not in ("", "Memory"):
            yield f"emptyDir.medium {medium} of volume {name} is refused: process nodes have Memory and the disk"
