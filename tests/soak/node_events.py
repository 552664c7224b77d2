"""What befalls nodes: they come, go, return, move to another rack, lose devices, are relabelled, closed and drained."""

from __future__ import annotations

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects import vocabulary as words
from echelon.api.scheme import NODES, PODS, Object
from echelon.testing.builders import GPU

from .api_access import ApiAccess, Event
from .manifests import NAMESPACE
from .pod_rules import DISK, REPAIR


class NodeEvents:
    """Events of nodes; `few` and `many` bound how many there are."""

    def __init__(self, hand: ApiAccess, few: int, many: int) -> None:
        self._hand = hand
        self._maker = hand.maker
        self._few, self._many = few, many
        #: Nodes as they were before they were taken away, to be put back under the same name.
        self._absent: dict[str, Object] = {}

    def chances(self) -> list[tuple[int, Event]]:
        return [
            (4, self.add),
            (3, self.remove),
            (3, self.put_back),
            (2, self.replace),
            (3, self.move),
            (2, self.resize),
            (2, self.refit),
            (5, self.cordon),
            (3, self.taint),
            (2, self.drain),
        ]

    async def add(self) -> str:
        there = {meta.name(node) for node in await self._hand.all(NODES)}
        if len(there) >= self._many:
            return ""
        block, rack = self._maker.between(0, 1), self._maker.between(0, 1)
        free = [n for n in range(4) if f"b{block}-r{rack}-n{n}" not in there]
        if not free:
            return ""
        node = self._maker.node(block, rack, free[0])
        await self._hand.create(node)
        self._absent.pop(meta.name(node), None)
        return f"add node {meta.name(node)}"

    async def remove(self) -> str:
        nodes = await self._hand.all(NODES)
        if len(nodes) <= self._few:
            return ""
        node = self._maker.pick(nodes)
        await self._hand.verbs.delete(NODES, meta.name(node))
        self._absent[meta.name(node)] = _as_new(node)
        return f"lose node {meta.name(node)}"

    async def put_back(self) -> str:
        """The same node under the same name, perhaps before anyone has noticed."""
        if not self._absent:
            return ""
        name = self._maker.pick(sorted(self._absent))
        await self._hand.create(self._absent.pop(name))
        return f"node {name} is back"

    async def replace(self) -> str:
        """Another machine under the name of one that is gone."""
        node = self._maker.pick(await self._hand.all(NODES))
        await self._hand.verbs.delete(NODES, meta.name(node))
        await self._hand.clock.sleep(self._maker.between(0, 3))
        other = _as_new(node)
        _set_devices(other, self._maker.pick((2, 4)))
        await self._hand.create(other)
        return f"replace node {meta.name(node)}"

    async def move(self) -> str:
        """To another rack, with everything that runs on it."""
        node = self._maker.pick(await self._hand.all(NODES))
        block, rack = self._maker.between(0, 1), self._maker.between(0, 1)
        place = {words.BLOCK: f"b{block}", words.RACK: f"b{block}-r{rack}"}
        if node["metadata"]["labels"][words.RACK] == place[words.RACK]:
            return ""
        await self._hand.patch(NODES, node, {"metadata": {"labels": place}})
        return f"move node {meta.name(node)} to {place[words.RACK]}"

    async def resize(self) -> str:
        """Devices break or are mended."""
        node = self._maker.pick(await self._hand.all(NODES))
        count = "2" if node["status"]["allocatable"][GPU] == "4" else "4"
        await self._hand.patch(NODES, node, {"status": {"allocatable": {GPU: count}}}, status=True)
        return f"node {meta.name(node)} has {count} devices"

    async def refit(self) -> str:
        """Another disk: pods that choose nodes by it choose others now."""
        node = self._maker.pick(await self._hand.all(NODES))
        disk = "ssd" if node["metadata"]["labels"][DISK] == "hdd" else "hdd"
        await self._hand.patch(NODES, node, {"metadata": {"labels": {DISK: disk}}})
        return f"node {meta.name(node)} has {disk} now"

    async def cordon(self) -> str:
        node = self._maker.pick(await self._hand.all(NODES))
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        await self._hand.patch(NODES, node, {"spec": {"unschedulable": None if cordoned else True}})
        return f"{'uncordon' if cordoned else 'cordon'} {meta.name(node)}"

    async def taint(self) -> str:
        node = self._maker.pick(await self._hand.all(NODES))
        tainted = bool((node.get("spec") or {}).get("taints"))
        taints = None if tainted else [{"key": REPAIR, "effect": "NoSchedule"}]
        await self._hand.patch(NODES, node, {"spec": {"taints": taints}})
        return f"{'untaint' if tainted else 'taint'} {meta.name(node)}"

    async def drain(self) -> str:
        """As kubectl does: cordon, then evict the pods that budgets allow to evict."""
        node = self._maker.pick(await self._hand.all(NODES))
        await self._hand.patch(NODES, node, {"spec": {"unschedulable": True}})
        asked = refused = 0
        for pod in await self._hand.all(PODS):
            if pod["spec"].get("nodeName") != meta.name(node) or meta.deleting(pod):
                continue
            asked += 1
            try:
                await self._hand.verbs.evict(NAMESPACE, meta.name(pod))
            except ApiError as error:
                if error.code != 429:
                    raise
                refused += 1
        return f"drain {meta.name(node)}: {asked} pods, {refused} kept by a budget"


def _as_new(node: Object) -> Object:
    """What would be submitted to have this node again."""
    spec = {key: value for key, value in (node.get("spec") or {}).items() if key not in ("unschedulable", "taints")}
    metadata = {"name": meta.name(node), "labels": dict(node["metadata"]["labels"])}
    return {**node, "metadata": metadata, "spec": spec, "status": dict(node["status"])}


def _set_devices(node: Object, count: int) -> None:
    node["status"]["allocatable"] = {**node["status"]["allocatable"], GPU: str(count)}
