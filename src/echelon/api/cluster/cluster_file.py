"""Parses a cluster file; every error has its line and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import yaml

from ...base import quantity
from ...base.yaml_lines import YamlFile
from ..objects import meta, name_formats
from ..objects.vocabulary import HOSTNAME, RUNS
from ..scheme import Object
from .pools import (
    WELL_KNOWN_LEVELS,
    BadCluster,
    Cluster,
    DevicesOfPool,
    Level,
    Pool,
    domains_at,
    node_object,
    nodes,
)

#: As in a ResourceSlice.
_MOST_DEVICES = 128
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MOST_NODES = 1_000_000


def read(text: str, source: str) -> Cluster:
    file = _File(source, BadCluster)
    root = file.root(text)
    if root is None:
        raise BadCluster(f"{source}: empty file: 'pools' is required")
    return file.cluster(root)


class _File(YamlFile):
    def cluster(self, root: yaml.Node) -> Cluster:
        found = self.mapping(root, "", ("levels", "pools", "nodes"))
        if "pools" not in found and "nodes" not in found:
            self.fail(root, "", "missing key 'pools'")
        levels = self._levels(found["levels"]) if "levels" in found else WELL_KNOWN_LEVELS
        entries = self.sequence(found["pools"], "pools") if "pools" in found else []
        if "pools" in found and not entries:
            self.fail(found["pools"], "pools", "must have at least one pool")
        pools = [self._pool(entry, f"pools[{number}]", levels) for number, entry in enumerate(entries)]
        for number, pool in enumerate(pools):
            if any(other.name == pool.name for other in pools[:number]):
                self.fail(entries[number], f"pools[{number}].name", f"duplicate pool name {pool.name!r}")
        cluster = Cluster(levels, tuple(pools))
        if cluster.size > _MOST_NODES:
            self.fail(found["pools"], "pools", f"{cluster.size} nodes, must be at most {_MOST_NODES}")
        return self._with_singles(cluster, found["nodes"]) if "nodes" in found else cluster

    def _with_singles(self, cluster: Cluster, node: yaml.Node) -> Cluster:
        names = {meta.name(one) for one in nodes(cluster)}
        singles: list[Object] = []
        for number, entry in enumerate(self.sequence(node, "nodes")):
            path = f"nodes[{number}]"
            singles.append(self._single(entry, path, cluster.levels))
            name = meta.name(singles[-1])
            if name in names:
                self.fail(entry, f"{path}.name", f"duplicate node name {name!r}")
            names.add(name)
        if not names:
            self.fail(node, "nodes", "must have at least one node")
        return replace(cluster, singles=tuple(singles))

    def _single(self, node: yaml.Node, path: str, levels: Sequence[Level]) -> Object:
        keys = ("name", "at", "capacity", "labels", "taints", "runs")
        found = self.mapping(node, path, keys, required=("name",))
        runs = self._runs(node, found, path)
        name = self.text(found["name"], f"{path}.name")
        self._check(found["name"], f"{path}.name", name_formats.dns1123_subdomain(name))
        labels = self._at(found["at"], f"{path}.at", levels) if "at" in found else {}
        return node_object(
            name,
            labels | runs | (self._labels(found["labels"], f"{path}.labels") if "labels" in found else {}),
            self._capacity(found["capacity"], f"{path}.capacity") if "capacity" in found else {},
            self._taints(found["taints"], f"{path}.taints") if "taints" in found else (),
        )

    def _runs(self, node: yaml.Node, found: Mapping[str, yaml.Node], path: str) -> dict[str, str]:
        """The label of nodes whose pods run as processes; their capacity may be left to the machine."""
        what = self.text(found["runs"], f"{path}.runs") if "runs" in found else "simulated"
        if what not in ("simulated", "processes"):
            self.fail(found["runs"], f"{path}.runs", f"{what!r} must be simulated or processes")
        if what == "simulated" and "capacity" not in found:
            self.fail(node, path, "missing key 'capacity'")
        return {RUNS: what} if what == "processes" else {}

    def _at(self, node: yaml.Node, path: str, levels: Sequence[Level]) -> dict[str, str]:
        """The labels of the domains that a single node is in."""
        found = self.mapping(node, path, [level.name for level in levels])
        values = {level: self.text(value, f"{path}.{level}") for level, value in found.items()}
        for level, value in values.items():
            self._check(found[level], f"{path}.{level}", name_formats.label_value(value))
        return {level.key: values[level.name] for level in levels if level.name in values}

    def _levels(self, node: yaml.Node) -> tuple[Level, ...]:
        levels: list[Level] = []
        for number, entry in enumerate(self.sequence(node, "levels")):
            path = f"levels[{number}]"
            found = self.mapping(entry, path, ("name", "key"), required=("name", "key"))
            name, key = self.text(found["name"], f"{path}.name"), self.text(found["key"], f"{path}.key")
            self._check(found["name"], f"{path}.name", name_formats.dns1123_label(name))
            self._check(found["key"], f"{path}.key", name_formats.label_key(key))
            if name == "node" or key == HOSTNAME:
                self.fail(entry, path, "must not be declared: nodes are always the last level")
            if any(one.name == name or one.key == key for one in levels):
                self.fail(entry, path, f"duplicate level name {name!r} or key {key!r}")
            levels.append(Level(name, key))
        return tuple(levels)

    def _pool(self, node: yaml.Node, path: str, levels: Sequence[Level]) -> Pool:
        keys = ("name", "counts", "capacity", "labels", "taints", "devices", "runs")
        found = self.mapping(node, path, keys, required=("name", "counts"))
        runs = self._runs(node, found, path)
        name = self.text(found["name"], f"{path}.name")
        self._check(found["name"], f"{path}.name", name_formats.dns1123_label(name))
        return Pool(
            name=name,
            counts=self._counts(found["counts"], f"{path}.counts", levels),
            capacity=self._capacity(found["capacity"], f"{path}.capacity") if "capacity" in found else {},
            labels=runs | (self._labels(found["labels"], f"{path}.labels") if "labels" in found else {}),
            taints=self._taints(found["taints"], f"{path}.taints") if "taints" in found else (),
            devices=self._devices(found["devices"], f"{path}.devices") if "devices" in found else (),
        )

    def _devices(self, node: yaml.Node, path: str) -> tuple[DevicesOfPool, ...]:
        found: list[DevicesOfPool] = []
        for number, entry in enumerate(self.sequence(node, path)):
            here = f"{path}[{number}]"
            keys = ("driver", "class", "count", "attributes")
            parts = self.mapping(entry, here, keys, required=("driver", "count"))
            names = {key: self.text(parts[key], f"{here}.{key}") for key in ("driver", "class") if key in parts}
            for key, name in names.items():
                self._check(parts[key], f"{here}.{key}", name_formats.dns1123_subdomain(name))
            count = self._count(parts["count"], f"{here}.count")
            if count > _MOST_DEVICES:
                self.fail(parts["count"], f"{here}.count", f"must not be more than {_MOST_DEVICES}")
            if any(one.driver == names["driver"] for one in found):
                self.fail(parts["driver"], f"{here}.driver", f"duplicate driver {names['driver']!r}")
            attributes = self._attributes(parts["attributes"], f"{here}.attributes") if "attributes" in parts else {}
            found.append(DevicesOfPool(names["driver"], count, names.get("class", ""), attributes))
        return tuple(found)

    def _attributes(self, node: yaml.Node, path: str) -> dict[str, str | int | bool]:
        """Attributes of devices: integers, booleans, or text."""
        found: dict[str, str | int | bool] = {}
        for key, value in self.mapping(node, path).items():
            text = self.text(value, f"{path}.{key}")
            self._check(value, f"{path}.{key}", name_formats.qualified_name(key))
            kind = value.tag.rpartition(":")[2]
            found[key] = int(text) if kind == "int" and text.isdecimal() else text == "true" if kind == "bool" else text
        return found

    def _counts(self, node: yaml.Node, path: str, levels: Sequence[Level]) -> dict[str, int | tuple[int, ...]]:
        """Counts in the order of the levels."""
        order = [*(level.name for level in levels), "node"]
        found = self.mapping(node, path, order, required=("node",))
        counts: dict[str, int | tuple[int, ...]] = {}
        parent = "pool"
        for level in (level for level in order if level in found):
            value, here = found[level], f"{path}.{level}"
            if isinstance(value, yaml.SequenceNode):
                each = tuple(self._count(one, f"{here}[{number}]") for number, one in enumerate(value.value))
                parents = domains_at(counts.values())
                if len(each) != parents:
                    wanted = f"{parents} {parent}s" if parents != 1 else f"1 {parent}"
                    self.fail(value, here, f"has {len(each)} counts, must have one for each of {wanted}")
                counts[level] = each
            else:
                counts[level] = self._count(value, here)
            parent = level
        return counts

    def _capacity(self, node: yaml.Node, path: str) -> dict[str, str]:
        capacity: dict[str, str] = {}
        for key, value in self.mapping(node, path).items():
            text = self.text(value, f"{path}.{key}")
            self._check(value, f"{path}.{key}", name_formats.qualified_name(key))
            try:
                exact = quantity.parse(text)
            except ValueError as error:
                self.fail(value, f"{path}.{key}", f"{text!r} is not a quantity such as 8, 500m or 64Gi: {error}")
            if exact < 0:
                self.fail(value, f"{path}.{key}", "must not be negative")
            capacity[key] = quantity.canonical(text)
        return capacity

    def _labels(self, node: yaml.Node, path: str) -> dict[str, str]:
        labels: dict[str, str] = {}
        for key, value in self.mapping(node, path).items():
            labels[key] = self.text(value, f"{path}.{key}")
            self._check(value, f"{path}.{key}", name_formats.label_key(key) + name_formats.label_value(labels[key]))
        return labels

    def _taints(self, node: yaml.Node, path: str) -> tuple[Object, ...]:
        taints: list[Object] = []
        for number, entry in enumerate(self.sequence(node, path)):
            here = f"{path}[{number}]"
            found = self.mapping(entry, here, ("key", "value", "effect"), required=("key", "effect"))
            taint = {key: self.text(value, f"{here}.{key}") for key, value in found.items()}
            self._check(found["key"], f"{here}.key", name_formats.label_key(taint["key"]))
            if taint["effect"] not in _EFFECTS:
                self.fail(found["effect"], f"{here}.effect", f"must be one of {', '.join(_EFFECTS)}")
            taints.append(taint)
        return tuple(taints)

    def _count(self, node: yaml.Node, path: str) -> int:
        text = self.text(node, path)
        if not text.isdecimal() or int(text) < 1:
            self.fail(node, path, f"{text!r} must be an integer greater than 0")
        return int(text)

    def _check(self, node: yaml.Node, path: str, problems: Sequence[str]) -> None:
        if problems:
            self.fail(node, path, problems[0])
