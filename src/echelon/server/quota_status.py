"""Writes into the status of ResourceQuotas what the ledger counts; run by `Pipeline.run`."""

from __future__ import annotations

from ..api.scheme import RESOURCE_QUOTAS
from ..store.interface import RevisionMismatch
from .objects.stored_objects import Access

#: A burst of changes is written once.
_BATCH_SECONDS = 0.05


async def keep_quota_status(access: Access) -> None:
    """Write the status of every quota whose use changed, until cancelled."""
    ledger = access.quotas
    while True:
        await ledger.changed.wait()
        await access.clock.sleep(_BATCH_SECONDS)
        ledger.changed.clear()
        todo, ledger.dirty = sorted(ledger.dirty), set()
        for namespace, name in todo:
            await _write(access, namespace, name)


async def _write(access: Access, namespace: str, name: str) -> None:
    while True:
        record = access.store.get(RESOURCE_QUOTAS.key(name, namespace))
        used = access.quotas.used(namespace, name)
        if record is None or used is None:
            return
        quota = access.trees.of_record(record)
        hard = (quota.get("spec") or {}).get("hard") or {}
        status = {"hard": hard, "used": dict(used)} if hard else {}
        if (quota.get("status") or {}) == status:
            return
        try:
            await access.replace(
                RESOURCE_QUOTAS, {**quota, "metadata": {**quota["metadata"]}, "status": status}, record
            )
        except RevisionMismatch:
            await access.store.settled(record.key)
        else:
            return
