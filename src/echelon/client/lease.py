"""One leader among several processes: a coordination.k8s.io Lease that is acquired, renewed and released.

    acquire ── waits until the lease is free, released or expired
    hold ───── renews it; raises `LeaseLost` before another process may acquire it
    check ──── called before every write of the leader; raises `NotLeading` from the same moment on
    release ── releases it at once, so that others need not wait until it expires

A process that was paused may not know yet that time has passed: its writes are ready to be sent when it goes on, before
`hold` wakes up.  `check` looks at the clock itself, so that none of them is.

Clocks of different machines are not compared: a lease has expired when *this* process has seen it unchanged for its
duration.  Every write carries the resourceVersion it is based on, so of two contenders one gets a conflict.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from ..api.errors import ApiError, said
from ..api.scheme import LEASES, Object
from ..api.verbs import Verbs, WriteOptions
from ..base.clock import Clock
from ..base.instants import to_micro_time

log = logging.getLogger(__name__)

#: Errors after which a request is retried.
_RETRIED = (ApiError, OSError, TimeoutError)
#: Status codes that a retry does not change: bad name, not authorised, no such namespace.
_PERMANENT = (400, 401, 403, 404, 422)
_CONFLICT = 409
_WRITE_OPTIONS = WriteOptions(field_manager="echelon")


class LeaseLost(Exception):
    """This process may no longer act as the leader."""


class NotLeading(ConnectionError):
    """A write was not sent, because this process may no longer act as the leader."""


@dataclass(frozen=True)
class LeaseTiming:
    """Lease duration, deadline for renewal and retry period, as in kube-scheduler's leader election."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError(f"must have duration > renew_deadline > retry > 0, got {self}")


class Lease:
    """Leader election of one process through one Lease object."""

    def __init__(
        self, verbs: Verbs, clock: Clock, namespace: str, name: str, identity: str, timing: LeaseTiming = LeaseTiming()
    ) -> None:
        self._verbs = verbs
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self.title = f"{namespace}/{name}"
        self.identity = identity
        self._timing = timing
        #: The lease as last read, and since when its spec is unchanged.
        self._seen: Object | None = None
        self._since = 0.0
        #: When the last successful renewal was sent; infinitely long ago without one.
        self._renewed = -math.inf

    async def acquire(self) -> None:
        """Wait until this process holds the lease; a permanent error of the first attempt is raised."""
        reported, first = "", True
        while True:
            try:
                if await self._within(self._timing.renew_deadline, self._take()):
                    return
            except _RETRIED as error:
                if first and isinstance(error, ApiError) and error.code in _PERMANENT:
                    raise
                log.warning("lease %s: %s", self.title, said(error))
            first = False
            if self.holder != reported:
                reported = self.holder
                log.info("lease %s is held by %s", self.title, reported)
            left = self._left()
            await self._clock.sleep(min(self._timing.retry, left) if left > 0 else self._timing.retry)

    async def hold(self) -> None:
        """Renew the lease until it is lost; call after `acquire`."""
        while True:
            await self._clock.sleep(self._timing.retry)
            left = self._renewed + self._timing.renew_deadline - self._clock.now()
            if left <= 0:
                raise LeaseLost(f"lease {self.title} could not be renewed in time")
            try:
                if not await self._within(left, self._take()):
                    raise LeaseLost(f"lease {self.title} was taken over by {self.holder}")
            except _RETRIED as error:
                log.warning("renewing lease %s: %s", self.title, said(error))

    def check(self) -> None:
        """Raise `NotLeading` if this process does not hold the lease or could not renew it in time."""
        if not self.is_held:
            raise NotLeading(f"lease {self.title} could not be renewed in time")

    @property
    def is_held(self) -> bool:
        """Whether this process may act as the leader now."""
        return self._clock.now() < self._renewed + self._timing.renew_deadline

    async def release(self) -> None:
        """Release the lease if this process still holds it."""
        self._renewed = -math.inf
        try:
            await self._within(self._timing.retry, self._give_up())
        except _RETRIED as error:
            # It expires by itself.
            log.warning("releasing lease %s: %s", self.title, said(error))

    async def _give_up(self) -> None:
        while self._seen is not None and self.holder == self.identity:
            spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
            try:
                await self._update({**self._seen, "spec": spec})
            except ApiError as error:
                if error.code != _CONFLICT:
                    raise
                # A renewal that was cancelled has reached the server all the same, or somebody else leads.
                await self._find()

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; "" for none."""
        return str((self._seen or {}).get("spec", {}).get("holderIdentity") or "")

    # -- one attempt -----------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Acquire or renew the lease if possible; returns whether this process holds it."""
        found = await self._find()
        started = self._clock.now()
        if found is None:
            await self._create()
        elif self.holder in ("", self.identity) or self._has_expired():
            await self._update({**found, "spec": self._claim(found["spec"])})
        else:
            self._renewed = -math.inf
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

    def _has_expired(self) -> bool:
        return self._left() <= 0

    def _left(self) -> float:
        """The seconds until the lease as last read expires if it is not renewed."""
        promised = (self._seen or {}).get("spec", {}).get("leaseDurationSeconds") or self._timing.duration
        return self._since + float(promised) - self._clock.now()

    def _claim(self, spec: Object) -> Object:
        """The spec with this process as the holder."""
        now = self._stamp()
        claim = {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, int(self._timing.duration)),
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
        self._see(await self._verbs.create(LEASES, body, self._namespace, _WRITE_OPTIONS))

    async def _update(self, lease: Object) -> None:
        self._see(await self._verbs.update(LEASES, lease, self._namespace, options=_WRITE_OPTIONS))

    def _stamp(self) -> str:
        return to_micro_time(self._clock.now())

    async def _within(self, seconds: float, attempt: Coroutine[Any, Any, Any]) -> Any:
        """The result of the attempt; TimeoutError if it takes longer than `seconds` of the clock."""
        work = asyncio.ensure_future(attempt)
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((work, alarm), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise TimeoutError(f"no response within {seconds:.0f} s")
            return work.result()
        finally:
            for task in (work, alarm):
                task.cancel()
            # Not awaited one by one: their end could not be told from that of the caller, who may be cancelled now.
            await asyncio.wait((work, alarm))
            work.cancelled() or work.exception()
