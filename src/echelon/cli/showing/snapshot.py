"""The objects that `echelon tree` shows.

Works on any cluster: it only lists.  Children are owned objects (TrainJob → JobSet → Job → pods) or, for a Workload or
a group, the group hierarchy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.vocabulary import BLOCK, INITIALLY_SCHEDULED, RACK, REGION, ZONE
from ...api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
)
from ...api.verbs import Verbs
from ...base.paths import spoken
from ...client.kubeconfig import KubeconfigError, connect, load
from ..failures import Refusal
from ..output import plain_console

_SHOWN = (TRAIN_JOBS, JOB_SETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)
_DOMAIN_KEYS = (REGION, ZONE, BLOCK, RACK)
_GOOD = {"Succeeded", "Running", "Complete", "Completed", "Scheduled"}
_BAD = {"Failed", "Unschedulable", "PodGroupError", "CompositePodGroupError"}


def parse(target: str) -> tuple[Resource, str]:
    kind, _, name = target.partition("/")
    if not kind or not name:
        raise Refusal(f"{target}: expected KIND/NAME, for example jobset/training")
    for resource in _SHOWN:
        if kind.lower() in (resource.kind.lower(), resource.plural, *resource.short_names):
            return resource, name
    kinds = ", ".join(resource.singular for resource in _SHOWN)
    raise Refusal(f"{target}: unknown kind {kind!r}; use one of {kinds}")


async def show(
    resource: Resource, name: str, namespace: str | None, kubeconfig: Path | None, context: str | None
) -> None:
    try:
        config = load(kubeconfig, context)
        verbs = connect(config)
    except KubeconfigError as error:
        raise Refusal(str(error)) from error
    space = namespace or config.namespace
    try:
        snapshot = await _Snapshot.read(verbs, space)
    except ApiError as error:
        raise Refusal(f"cannot read from {config.cluster.server}: {error}") from error
    finally:
        await verbs.close()
    root = snapshot.find(resource, name)
    if root is None:
        raise Refusal(f'{resource.qualified} "{name}" not found in namespace {space}')
    plain_console().print(snapshot.render(resource, root))


@dataclass
class _Snapshot:
    """All objects of one namespace that a tree can contain."""

    objects: dict[Resource, list[Object]]
    nodes: dict[str, Object]

    @staticmethod
    async def read(verbs: Verbs, namespace: str) -> _Snapshot:
        async def items(resource: Resource, space: str) -> list[Object]:
            try:
                return sorted((await verbs.list(resource, space)).items, key=by_number)
            except ApiError as error:
                if error.code in (403, 404):  # kinds that this cluster does not serve or show
                    return []
                raise

        listed = {resource: await items(resource, namespace) for resource in _SHOWN}
        nodes = await items(NODES, "")
        return _Snapshot(listed, {meta.name(node): node for node in nodes})

    def find(self, resource: Resource, name: str) -> Object | None:
        return next((obj for obj in self.objects[resource] if meta.name(obj) == name), None)

    def render(self, resource: Resource, obj: Object) -> Tree:
        branch = Tree(self._label(resource, obj), guide_style="dim")
        self._add_children(branch, resource, obj)
        return branch

    def _add_children(self, branch: Tree, resource: Resource, obj: Object) -> None:
        for child_resource, child in self._children(resource, obj):
            child_branch = branch.add(self._label(child_resource, child))
            self._add_children(child_branch, child_resource, child)

    def _children(self, resource: Resource, obj: Object) -> Iterable[tuple[Resource, Object]]:
        name = meta.name(obj)
        if resource is WORKLOADS:
            for kind in (COMPOSITE_POD_GROUPS, POD_GROUPS):
                for group in self.objects[kind]:
                    spec = group["spec"]
                    belongs = (spec.get("workloadRef") or {}).get("workloadName") == name
                    if belongs and not spec.get("parentCompositePodGroupName"):
                        yield kind, group
        elif resource is COMPOSITE_POD_GROUPS:
            for kind in (COMPOSITE_POD_GROUPS, POD_GROUPS):
                for group in self.objects[kind]:
                    if group["spec"].get("parentCompositePodGroupName") == name:
                        yield kind, group
        elif resource is POD_GROUPS:
            for pod in self.objects[PODS]:
                if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == name:
                    yield PODS, pod
        else:
            for kind in (JOB_SETS, JOBS, PODS):
                for child in self.objects[kind]:
                    if meta.controlled_by(child, meta.uid(obj)):
                        yield kind, child

    def _label(self, resource: Resource, obj: Object) -> Text:
        label = Text(meta.name(obj) if resource is PODS else f"{resource.kind}/{meta.name(obj)}")
        state, detail = self._state(resource, obj)
        if state:
            style = "green" if state in _GOOD else "red" if state in _BAD else "yellow"
            label.append(f"  {state}", style=style)
        if detail:
            label.append(f"  {detail}", style="dim")
        return label

    def _state(self, resource: Resource, obj: Object) -> tuple[str, str]:
        if resource is PODS:
            phase = str((obj.get("status") or {}).get("phase", "Pending"))
            alone = not obj["spec"].get("schedulingGroup")  # the group shows the reason for all its pods
            why = _condition_text(obj, "PodScheduled") if alone else ""
            return phase, self._place(obj["spec"].get("nodeName")) or why
        if resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
            return _group_state(resource, obj)
        for type_ in ("Complete", "Completed", "Failed", "Suspended"):
            if meta.condition_is(obj, type_):
                return type_, _progress(resource, obj)
        if resource is WORKLOADS:
            return "", ""
        return "Active", "; ".join(filter(None, (_progress(resource, obj), self._waiting(resource, obj))))

    def _waiting(self, resource: Resource, obj: Object) -> str:
        """Why the pods of a Job are pending, from their PodGroup."""
        if resource is not JOBS:
            return ""
        name = (obj["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName")
        for group in self.objects[POD_GROUPS]:
            if meta.name(group) == name or (name is None and meta.controlled_by(group, meta.uid(obj))):
                state = meta.find_condition(group, INITIALLY_SCHEDULED[POD_GROUPS.kind])
                return str(state["message"]) if state is not None and state["status"] == "False" else ""
        return ""

    def _place(self, node: str | None) -> str:
        """Block, rack and node, as far as the node's labels say."""
        if not node:
            return ""
        labels = meta.labels(self.nodes[node]) if node in self.nodes else {}
        return spoken([*(labels[key] for key in _DOMAIN_KEYS if key in labels), node])


def by_number(obj: Object) -> list[tuple[int, str]]:
    """Sort key that orders numbers in names by value: worker-2 before worker-10."""
    words = re.split(r"(\d+)", meta.name(obj))
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


def _group_state(resource: Resource, group: Object) -> tuple[str, str]:
    state = meta.find_condition(group, INITIALLY_SCHEDULED[resource.kind])
    gang = group["spec"]["schedulingPolicy"].get("gang")
    counted = "minCount" if resource is POD_GROUPS else "minGroupCount"
    policy = f"gang of {gang[counted]}" if gang else "basic"
    keys = ((group["spec"].get("schedulingConstraints") or {}).get("topology")) or ()
    if keys:
        policy += f" in one {keys[0]['key'].rpartition('/')[2]}"
    if state is None:
        return "Pending", policy
    return str(state["reason"]), policy if state["status"] == "True" else f"{policy}: {state['message']}"


def _condition_text(obj: Object, type_: str) -> str:
    found = meta.find_condition(obj, type_)
    return str(found.get("message", "")) if found else ""


def _progress(resource: Resource, obj: Object) -> str:
    status = obj.get("status") or {}
    if resource is JOBS:
        wanted = obj["spec"].get("completions") or obj["spec"].get("parallelism") or 1
        return f"{status.get('succeeded', 0)}/{wanted} done, {status.get('active', 0)} active"
    if resource is JOB_SETS and status.get("restarts"):
        return f"{status['restarts']} restarts"
    return ""
