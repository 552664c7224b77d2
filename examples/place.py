"""Place a hierarchy on a small cluster and look at it: `python examples/place.py`.

A pre-training job wants two replicas, each inside one block; a replica is two pipeline stages, each inside one rack.
That is three levels of groups, all or nothing.  Then a second job comes and does not fit, and the engine says why
and what would help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from textwrap import wrap

from echelon.engine import (
    Blocked,
    ClusterView,
    Composite,
    Demand,
    Group,
    Placed,
    Running,
    Unit,
    drawn,
    fixes_in_words,
    for_group,
    sentence,
    tree,
)
from echelon.testing.placement import GPU, NOW, ClusterBuilder, composite, gang, pods

GPUS = 8
#: What runs before: a node, the GPUs taken on it, and by what; its priority is too high for preemption.
SERVING = {
    "b1-r1-n1": (8, "search"),
    "b1-r2-n3": (4, "chat"),
    "b2-r1-n1": (8, "search"),
    "b2-r1-n2": (8, "search"),
    "b2-r3-n2": (6, "speech"),
}
Names = dict[int, str]


def small_cluster() -> ClusterBuilder:
    """Two blocks of three racks of three nodes with 8 GPUs each, partly in use."""
    cluster = ClusterBuilder()
    for block in ("b1", "b2"):
        for rack in ("r1", "r2", "r3"):
            for node in ("n1", "n2", "n3"):
                cluster.node(f"{block}-{rack}-{node}", cpu=128, gpu=GPUS, block=block, rack=rack)
    units: dict[str, int] = {}
    for node, (gpus, name) in SERVING.items():
        units[name] = cluster.run(node, cpu=8 * gpus, gpu=gpus, priority=1000, unit=units.get(name))
        cluster.view.put_unit(Unit(units[name], 1000, name))
    return cluster


def stage(names: Names, letter: str, workers: int, gpus: int) -> Group:
    made = gang(workers, pods(workers, cpu=8 * gpus, gpu=gpus), key="rack")
    names[made.id] = f"stage {letter} ({workers} × {gpus} GPUs)"
    return made


def replica(names: Names, name: str, *stages: Group, key: str | None = "block") -> Group:
    made = composite(len(stages), *stages, key=key)
    names[made.id] = name
    return made


def job(names: Names, name: str, *replicas: Group) -> Demand:
    made = composite(len(replicas), *replicas)
    names[made.id] = name
    return Demand(made, priority=100)


# ---- drawing


def branches(lines: list[list[str]]) -> Iterator[str]:
    """Hang blocks of lines below one another as the children of a tree."""
    for number, block in enumerate(lines):
        last = number == len(lines) - 1
        for line, text in enumerate(block):
            yield ("└─ " if last else "├─ ") + text if not line else ("   " if last else "│  ") + text


def draw_groups(group: Group, placed: Placed, names: Names) -> list[str]:
    """The hierarchy, each group with where it is."""
    text = f"{names[group.id]}: {for_group(placed, group.id, names)}"
    if not isinstance(group, Composite):
        return [text]
    return [text, *branches([draw_groups(child, placed, names) for child in group.children])]


def draw_cluster(view: ClusterView, letters: dict[int, str]) -> list[str]:
    """The domains down to the nodes, each node as a bar of GPUs: a letter per group, `#` others, `·` free."""
    tree: dict[str, dict[str, list[str]]] = {}
    for name in view.node_names():
        block, rack, _ = name.split("-")
        used = Counter({"#": 0})
        for pod in view.pods_on(name):
            used[letters.get(pod.group, "#")] += dict(pod.requests).get(GPU, 0)
        bar = "".join(letter * number for letter, number in sorted(used.items())).ljust(GPUS, "·")
        tree.setdefault(block, {}).setdefault(rack, []).append(f"[{bar}]")
    blocks = []
    for block, racks in tree.items():
        blocks.append([block, *branches([[f"{rack}  {' '.join(bars)}"] for rack, bars in racks.items()])])
    return ["cluster", *branches(blocks)]


def bind(view: ClusterView, demand: Demand, placed: Placed, name: str) -> None:
    """Let the placed pods hold their place, so that the drawing and the next demand see them."""
    view.put_unit(Unit(demand.root.id, demand.priority, name))
    for leaf in demand.leaves():
        for pods_of_class in leaf.classes:
            for member in pods_of_class.members:
                requests = pods_of_class.shape.requests
                view.bind(Running(member, placed.assignment[member], requests, demand.root.id, NOW, leaf.id))


def show(title: str, lines: list[str]) -> None:
    print(f"\n{title}\n")
    for line in lines:
        print(f"  {line}")


def main() -> None:
    names: Names = {}
    cluster = small_cluster()
    show("Before: one sign is one GPU, `#` is in use, `·` is free.", draw_cluster(cluster.view, {}))

    pretrain = job(
        names,
        "pretrain",
        replica(names, "replica 0", stage(names, "A", 3, 8), stage(names, "B", 4, 4)),
        replica(names, "replica 1", stage(names, "C", 3, 8), stage(names, "D", 4, 4)),
    )
    verdict = cluster.decide(pretrain.root, pretrain.priority)
    assert isinstance(verdict, Placed), verdict
    bind(cluster.view, pretrain, verdict, "pretrain")
    letters = {leaf.id: names[leaf.id][6] for leaf in pretrain.leaves()}
    show(f"pretrain fits: {sentence(verdict, names)}.", draw_groups(pretrain.root, verdict, names))
    show("After:", draw_cluster(cluster.view, letters))

    stages = stage(names, "E", 1, 4), stage(names, "F", 3, 8)
    tune = job(names, "tune", replica(names, "replica 0", *stages, key=None))
    blocked = cluster.decide(tune.root, tune.priority)
    assert isinstance(blocked, Blocked), blocked
    show("tune does not fit beside it:", drawn(tree(blocked, tune.root, names)))
    show(
        "Any one of these would let it in, the cheapest first; each was tried:",
        [f"{number}. {fix}" for number, fix in enumerate(fixes_in_words(blocked, names), 1)],
    )
    show("In one sentence, as it stands in the condition of the group:", wrap(sentence(blocked, names) + ".", 100))


if __name__ == "__main__":
    main()
