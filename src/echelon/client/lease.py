"""One leader among several processes: a coordination.k8s.io Lease that is acquired, renewed and released.

    acquire ── waits until the lease is free, given up or not renewed for its whole duration
    hold ───── renews it; raises `LeaseLost` as soon as another process may believe that it leads
    release ── gives it up at once, so that nobody has to wait for it to run out

Clocks of different machines are never compared: whether a lease has run out is judged by how long *this* process has
seen it unchanged.  Every write carries the resourceVersion it is based on, so of two contenders one is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..api.errors import ApiError
from ..api.scheme import LEASES, Object
from ..api.verbs import Verbs, WriteOptions
from ..base.clock import Clock
from ..base.instants import to_micro_time

log = logging.getLogger(__name__)

#: What a write or a read may fail with and be tried again.
_PASSING = (ApiError, OSError, TimeoutError)
#: What no patience helps against: a bad name, no right, no such namespace.
_LASTING = (400, 401, 403, 404, 422)
_AS_OURSELVES = WriteOptions(field_manager="echelon")


class LeaseLost(Exception):
    """This process may no longer act as the leader."""


@dataclass(frozen=True)
class LeaseTiming:
    """How long a leader may be silent, when it gives up by itself, and how often contenders look."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError(f"a lease needs duration > renew_deadline > retry > 0, not {self}")


class Lease:
    """A process's claim to one lease."""

    def __init__(
        self, verbs: Verbs, clock: Clock, namespace: str, name: str, identity: str, terms: LeaseTiming = LeaseTiming()
    ) -> None:
        self._verbs = verbs
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._terms = terms
        #: The lease as last seen, and since when it has looked like that.
        self._seen: Object | None = None
        self._since = 0.0
        self._renewed = 0.0

    async def acquire(self) -> None:
        """Wait until the lease is ours; what is refused for good at the first look is raised."""
        told, first = "", True
        while True:
            try:
                if await self._within(self._terms.renew_deadline, self._take()):
                    return
            except _PASSING as error:
                if first and isinstance(error, ApiError) and error.code in _LASTING:
                    raise
                log.warning("lease %s/%s: %s", self._namespace, self._name, error or type(error).__name__)
            first = False
            if self.holder != told:
                told = self.holder
                log.info("lease %s/%s is held by %s", self._namespace, self._name, told)
            await self._clock.sleep(self._terms.retry)

    async def hold(self) -> None:
        """Renew for ever; call after `acquire`."""
        while True:
            await self._clock.sleep(self._terms.retry)
            left = self._renewed + self._terms.renew_deadline - self._clock.now()
            if left <= 0:
                raise LeaseLost(f"lease {self._namespace}/{self._name} could not be renewed in time")
            try:
                if not await self._within(left, self._take()):
                    raise LeaseLost(f"lease {self._namespace}/{self._name} was taken over by {self.holder}")
            except _PASSING as error:
                log.warning("renewing lease %s/%s: %s", self._namespace, self._name, error or type(error).__name__)

    async def release(self) -> None:
        """Give the lease up, if it is still ours; whoever waits for it takes it at the next look."""
        if self._seen is None or self.holder != self.identity:
            return
        spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
        try:
            await self._within(self._terms.retry, self._update({**self._seen, "spec": spec}))
        except _PASSING as error:
            # It runs out by itself.
            log.warning("releasing lease %s/%s: %s", self._namespace, self._name, error or type(error).__name__)

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; "" for nobody."""
        return str((self._seen or {}).get("spec", {}).get("holderIdentity") or "")

    # -- one attempt -----------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Take or renew the lease if that is allowed; whether it is ours now."""
        found = await self._find()
        started = self._clock.now()
        if found is None:
            await self._create()
        elif self.holder in ("", self.identity) or self._has_run_out():
            await self._update({**found, "spec": self._claim(found["spec"])})
        else:
            return False
        self._renewed = started
        return True

    async def _find(self) -> Object | None:
        try:
            found = await self._verbs.get(LEASES, self._name, self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        self._see(found)
        return found

    def _see(self, lease: Object) -> None:
        if self._seen is None or self._seen["spec"] != lease["spec"]:
            self._since = self._clock.now()
        self._seen = lease

    def _has_run_out(self) -> bool:
        assert self._seen is not None
        promised = self._seen["spec"].get("leaseDurationSeconds") or self._terms.duration
        return self._clock.now() - self._since >= float(promised)

    def _claim(self, spec: Object) -> Object:
        """The lease's spec with us as the holder."""
        now = self._stamp()
        claim = {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, int(self._terms.duration)),
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self.identity:
            claim["acquireTime"] = now
            claim["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(spec)
        return claim

    async def _create(self) -> None:
        body: Object = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim({}),
        }
        self._see(await self._verbs.create(LEASES, body, self._namespace, _AS_OURSELVES))

    async def _update(self, lease: Object) -> None:
        self._see(await self._verbs.update(LEASES, lease, self._namespace, options=_AS_OURSELVES))

    def _stamp(self) -> str:
        return to_micro_time(self._clock.now())

    async def _within(self, seconds: float, attempt: Coroutine[Any, Any, Any]) -> Any:
        """The attempt's result, or TimeoutError when it takes longer than that on our clock."""
        work = asyncio.ensure_future(attempt)
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((work, alarm), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise TimeoutError(f"no answer within {seconds:.0f} s")
            return work.result()
        finally:
            for task in (work, alarm):
                task.cancel()
                with suppress(asyncio.CancelledError, *_PASSING):
                    await task
