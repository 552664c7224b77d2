"""Random writes by several managers, on our server and on a real one: same objects, same owners of their fields."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, NAMESPACES, SERVICES, Object, Resource
from echelon.api.verbs import Patch, PatchType, Verbs, WriteOptions
from tests.https_server import running

from .conftest import connected
from .controlplane import ControlPlane

_STEPS = 9
#: Fields of a Service that only a server with a network allocates.
_ALLOCATED = ("f:clusterIP", "f:clusterIPs", "f:ipFamilies", "f:ipFamilyPolicy")


class Writes:
    """Seeded writes to one object."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.resource = self._chance.choice([CONFIG_MAPS, SERVICES])

    def _some(self, names: str) -> dict[str, str]:
        return {name: self._chance.choice("12") for name in names if self._chance.random() < 0.6}

    def _metadata(self, name: str) -> Object:
        made: Object = {"name": name}
        for field in ("labels", "annotations"):
            if self._chance.random() < 0.4:
                made[field] = self._some("abc")
        if self._chance.random() < 0.4:
            made["finalizers"] = [f"x.io/{one}" for one in self._chance.sample("abcd", 4)[: self._chance.randint(0, 4)]]
        return made

    def _port(self, number: int) -> Object:
        port: Object = {"port": number, "name": f"p{number}"}
        if self._chance.random() < 0.4:
            port["protocol"] = "TCP"
        if self._chance.random() < 0.5:
            port["targetPort"] = self._chance.choice([1, 2, "x"])
        return port

    def body(self, name: str) -> Object:
        made: Object = {
            "apiVersion": "v1",
            "kind": self.resource.kind,
            "metadata": self._metadata(name),
        }
        if self.resource is CONFIG_MAPS:
            return {**made, "data": self._some("abcd")} if self._chance.random() < 0.8 else made
        numbers = self._chance.sample([80, 81, 82], 3)[: self._chance.randint(0, 3)]
        spec: Object = {"ports": [self._port(number) for number in numbers]}
        if self._chance.random() < 0.5:
            spec["selector"] = self._some("ab")
        if self._chance.random() < 0.3:
            spec["sessionAffinity"] = self._chance.choice(["None", "ClientIP"])
        return {**made, "spec": spec}

    def next(self, name: str, *, first: bool) -> tuple[Patch, WriteOptions]:
        types = [PatchType.APPLY] if first else [*[PatchType.APPLY] * 5, PatchType.MERGE, PatchType.STRATEGIC]
        type_ = self._chance.choice(types)
        manager = self._chance.choice(["m1", "m2", "m3"])
        if not first and self._chance.random() < 0.05:
            return Patch(PatchType.MERGE, {"metadata": {"managedFields": [{}]}}), WriteOptions(field_manager=manager)
        force = type_ is PatchType.APPLY and self._chance.random() < 0.5
        return Patch(type_, self.body(name)), WriteOptions(field_manager=manager, force=force)


async def outcome(verbs: Verbs, resource: Resource, namespace: str, change: tuple[Patch, WriteOptions]) -> Any:
    """What a client sees of a write: the object and the owners of its fields, or the refusal."""
    patch, options = change
    try:
        made = await verbs.patch(resource, "o", patch, namespace, options=options)
    except ApiError as refused:
        causes = refused.details.get("causes", []) if refused.code == 409 else []
        return refused.code, sorted((one["message"], one["field"]) for one in causes)
    metadata = made["metadata"]
    owners = []
    for entry in metadata.get("managedFields", []):
        fields = dict(entry["fieldsV1"])
        if "f:spec" in fields:
            fields["f:spec"] = {step: below for step, below in fields["f:spec"].items() if step not in _ALLOCATED}
        text = msgspec.json.encode(fields, order="sorted").decode()
        owners.append((entry["manager"], entry["operation"], "time" in entry, text))
    spec = {field: made.get("spec", {}).get(field) for field in ("ports", "selector", "sessionAffinityConfig")}
    kept = {field: metadata.get(field) for field in ("labels", "annotations", "finalizers")}
    return kept, spec, made.get("data"), sorted(owners)


@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(25))
async def test_random_writes_leave_the_same_objects_and_owners(
    real_plane: ControlPlane, tmp_path: Path, seed: int
) -> None:
    writes, namespace = Writes(seed), f"random-apply-{seed}"
    async with running(tmp_path / "server") as (server, _):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with connected("ours", tmp_path / "kubeconfig") as ours, connected("real", real_plane.kubeconfig) as real:
            for side in (ours, real):
                await side.verbs.create(NAMESPACES, {"metadata": {"name": namespace}})
            history = []
            for step in range(_STEPS):
                change = writes.next("o", first=step == 0)
                history.append(change)
                expected = await outcome(real.verbs, writes.resource, namespace, change)
                assert await outcome(ours.verbs, writes.resource, namespace, change) == expected, history
            await real.verbs.patch(
                writes.resource, "o", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), namespace
            )
            await real.verbs.delete(NAMESPACES, namespace)
