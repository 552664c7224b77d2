"""Draws the branches of `echelon tree`; on a terminal, long texts wrap within their branch."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from .entries import Eviction, TreeEntry

_GOOD = {"Succeeded", "Running", "Complete", "Completed", "Scheduled"}
_BAD = {"Failed", "Unschedulable", "PodGroupError", "CompositePodGroupError"}


def drawn(branch: TreeEntry) -> Tree:
    tree = Tree(_label(branch, ""), guide_style="dim")
    _add_children(tree, branch)
    return tree


def _add_children(tree: Tree, branch: TreeEntry) -> None:
    for child in branch.children:
        _add_children(tree.add(_label(child, branch.reason)), child)


def _label(branch: TreeEntry, told: str) -> RenderableType:
    """The line of an object, and indented below it what there is to say; not again the reason that its parent gave."""
    head = Text(branch.name if branch.kind == "Pod" else f"{branch.kind}/{branch.name}")
    if branch.state:
        style = "green" if branch.state in _GOOD else "red" if branch.state in _BAD else "yellow"
        head.append(f"  {branch.state}", style=style)
    for text in (branch.policy, branch.progress, branch.domain):
        if text:
            head.append(f"  {text}", style="dim")
    lines: list[Text] = []
    below = {group for child in branch.children for group in child.groups if child.kind != "Pod"}
    groups = [group for group in branch.groups if group not in below and branch.kind != "Pod"]
    if groups:
        lines.append(Text(f"group: {', '.join(groups)}", style="dim"))
    if branch.evictions:
        lines.append(Text(f"evicted: {_eviction(branch.evictions[-1])}", style="red"))
    if branch.reason and branch.reason != told:
        lines.append(Text(f"waits: {branch.reason}", style="yellow"))
    return Group(head, *(Padding(line, (0, 0, 0, 4), expand=False) for line in lines)) if lines else head


def _eviction(eviction: Eviction) -> str:
    pods = "1 pod" if eviction.pods == 1 else f"{eviction.pods} pods"
    by = f" for {eviction.by}" if eviction.by else ""
    return f"{pods}{by} at {eviction.at}: {eviction.why}"
