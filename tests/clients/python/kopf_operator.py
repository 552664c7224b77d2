"""An operator on kopf: a Job for every ConfigMap labelled `work`, its result written back, nothing left behind."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("configmaps", labels={"work": kopf.PRESENT})
def begin(name: str | None, body: kopf.Body, patch: kopf.Patch, **_: Any) -> dict[str, Any]:
    kopf.info(body, reason="Begun", message=f"work on {name} has begun")
    patch.setdefault("data", {})["phase"] = "begun"
    return {"name": name}


@kopf.on.update("configmaps", labels={"work": kopf.PRESENT}, field="data.size")
def resize(new: str | None, patch: kopf.Patch, **_: Any) -> None:
    patch.setdefault("data", {})["phase"] = f"resized to {new}"


@kopf.on.field("configmaps", labels={"work": kopf.PRESENT}, field="data.broken")
def retried(new: str | None, retry: int, patch: kopf.Patch, **_: Any) -> None:
    if new and retry < 1:
        raise kopf.TemporaryError("not at the first try", delay=0.1)
    if new:
        patch.setdefault("data", {})["phase"] = f"mended after {retry}"


@kopf.on.delete("configmaps", labels={"work": kopf.PRESENT})
def end(name: str | None, body: kopf.Body, **_: Any) -> None:
    kopf.info(body, reason="Ended", message=f"work on {name} has ended")


@kopf.index("pods")
def phases(name: str | None, status: kopf.Status, **_: Any) -> dict[str, str]:
    return {str(name): str(status.get("phase"))}


@kopf.on.event("pods")
def pod_event(name: str | None, type: str | None, logger: kopf.Logger, **_: Any) -> None:
    logger.info(f"pod {name}: {type}")
