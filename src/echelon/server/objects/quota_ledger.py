"""What is used of every ResourceQuota, kept exactly: checked and raised in the same step in which a write is accepted.

    write accepted ─▶ charge: refuse, or raise and lower what each quota of the namespace uses
    write failed   ─▶ the charge is undone
    quota written  ─▶ its use is counted anew from the store; charges that are not durable yet are added

Nothing is awaited between the check and the write, so concurrent creations cannot exceed a quota together.  Namespaces
without a quota cost one lookup.  `quota_status` writes what the ledger knows into `status.used`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...api.admission.quota_usage import Kind, QuotaTerms, kind_of
from ...api.errors import ApiError, forbidden
from ...api.objects import meta
from ...api.scheme import RESOURCE_QUOTAS, Object, Resource
from ...base import quantity
from ...store.interface import Store
from .object_cache import ObjectCache


@dataclass
class Account:
    """One quota and what is used of it."""

    terms: QuotaTerms
    used: dict[str, str]

    def delta(self, kind: Kind, old: Object | None, new: Object | None) -> dict[str, str]:
        """What a change of an object adds to the use; negative amounts are released."""
        if kind not in self.terms.by_kind:
            return {}
        before = self.terms.usage(kind, old) if old is not None else {}
        after = self.terms.usage(kind, new) if new is not None else {}
        if not before:
            return {name: amount for name, amount in after.items() if amount != "0"}
        added = {
            name: quantity.minus(after.get(name, "0"), before.get(name, "0")) for name in sorted({*before, *after})
        }
        return {name: amount for name, amount in added.items() if amount != "0"}

    def exceeded(self, delta: Mapping[str, str]) -> list[str]:
        """The resources whose bound a change would exceed."""
        return [
            name
            for name, amount in delta.items()
            if quantity.exact(amount) > 0
            and quantity.exact(self.used[name]) + quantity.exact(amount) > quantity.exact(self.terms.hard[name])
        ]

    def add(self, delta: Mapping[str, str]) -> None:
        for name, amount in delta.items():
            self.used[name] = quantity.plus(self.used[name], amount)


@dataclass(eq=False)
class Charge:
    """A change of an object that is accepted and not known to be durable."""

    kind: Kind
    old: Object | None
    new: Object | None
    #: The object whose resourceVersion the store sets when it accepts the write.
    written: Object
    #: What was charged to which account.
    applied: list[tuple[Account, dict[str, str]]] = field(default_factory=list)


@dataclass
class _Space:
    """The quotas of one namespace, and changes that are under way there."""

    accounts: dict[str, Account] = field(default_factory=dict)
    pending: set[Charge] = field(default_factory=set)
    #: Quotas that are being written.
    opening: int = 0


class QuotaLedger:
    """The accounts of all namespaces that have a quota."""

    def __init__(self, store: Store, trees: ObjectCache) -> None:
        self._store = store
        self._trees = trees
        self._spaces: dict[str, _Space] = {}
        #: (namespace, name) of quotas whose status is to be written.
        self.dirty: set[tuple[str, str]] = set()
        self.changed = asyncio.Event()
        self._later: set[asyncio.Task[None]] = set()
        for record in store.scan(RESOURCE_QUOTAS.prefix):
            quota = trees.of_record(record)
            self._spaces.setdefault(meta.namespace(quota), _Space())
            self._count(quota)

    def concern(self, key: str, obj: Object) -> bool:
        """Whether quotas have to do with a write."""
        return obj["metadata"].get("namespace") in self._spaces or key.startswith(RESOURCE_QUOTAS.prefix)

    def used(self, namespace: str, name: str) -> Mapping[str, str] | None:
        space = self._spaces.get(namespace)
        account = space.accounts.get(name) if space else None
        return None if account is None else account.used

    # -- changes of objects ----------------------------------------------------------------------------

    def check(self, resource: Resource, obj: Object) -> None:
        """403 if a new object would exceed a quota; nothing is charged."""
        space = self._spaces.get(meta.namespace(obj))
        if space is not None:
            self._deltas(space, kind_of(resource), resource, None, obj)

    @contextmanager
    def counted(
        self, resource: Resource | None, key: str, old: Object | None, new: Object | None, written: Object
    ) -> Iterator[None]:
        """Charges a change while it is written; 403 if it exceeds a quota, and it is not written then.

        The write must be the first thing that the block does.
        """
        charge = self._charge(resource, key, old, new, written)
        quota = key.startswith(RESOURCE_QUOTAS.prefix)
        if quota:
            self._spaces.setdefault(meta.namespace(written), _Space()).opening += 1
        try:
            yield
        except asyncio.CancelledError:
            # The write goes on without its writer.
            task = asyncio.get_running_loop().create_task(self._settle_later(key, charge, written, quota=quota))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
            raise
        except BaseException:
            self._settle(charge, written, quota=quota, failed=True)
            raise
        self._settle(charge, written, quota=quota)

    def _charge(
        self, resource: Resource | None, key: str, old: Object | None, new: Object | None, written: Object
    ) -> Charge | None:
        space = self._spaces.get(meta.namespace(written))
        if space is None:
            return None
        kind = _kind_at(key)
        charge = Charge(kind, old, new, written, self._deltas(space, kind, resource, old, new))
        for account, delta in charge.applied:
            account.add(delta)
            self._mark(meta.namespace(written), account.terms.name)
        space.pending.add(charge)
        return charge

    def _deltas(
        self, space: _Space, kind: Kind, resource: Resource | None, old: Object | None, new: Object | None
    ) -> list[tuple[Account, dict[str, str]]]:
        found = []
        for _, account in sorted(space.accounts.items()):
            delta = account.delta(kind, old, new)
            if new is not None and resource is not None:
                _refuse(resource, kind, account, delta, new, fresh=old is None)
            if delta:
                found.append((account, delta))
        return found

    async def _settle_later(self, key: str, charge: Charge | None, written: Object, *, quota: bool) -> None:
        await self._store.settled(key)
        self._settle(charge, written, quota=quota)

    def _settle(self, charge: Charge | None, written: Object, *, quota: bool, failed: bool = False) -> None:
        """A write is durable, or it failed: undo its charge then; count a quota anew."""
        name = meta.namespace(written)
        if charge is not None:
            space = self._spaces.get(name)
            if space is not None:
                space.pending.discard(charge)
            for account, delta in charge.applied if failed else ():
                account.add({resource: quantity.minus("0", amount) for resource, amount in delta.items()})
                self._mark(name, account.terms.name)
        if quota:
            self._reread(name, meta.name(written))

    def _reread(self, namespace: str, name: str) -> None:
        """A quota was written or removed."""
        space = self._spaces[namespace]
        space.opening -= 1
        record = self._store.get(RESOURCE_QUOTAS.key(name, namespace))
        if record is None:
            space.accounts.pop(name, None)
        else:
            self._count(self._trees.of_record(record))
        if not space.accounts and not space.opening:
            del self._spaces[namespace]

    def _count(self, quota: Object) -> None:
        """The use of a quota from durable objects; what is pending and newer than these is added."""
        name = meta.namespace(quota)
        space = self._spaces[name]
        terms = QuotaTerms.of(quota)
        account = Account(terms, dict.fromkeys(terms.hard, "0"))
        known = space.accounts.get(terms.name)
        if known is not None and known.terms == terms:
            self._mark(name, terms.name)
            return
        durable = self._store.revision
        for kind, resources in terms.by_kind.items():
            records = self._store.scan(_prefix(kind, name))
            if terms.counts_only(kind):
                account.add(dict.fromkeys(resources, str(len(records))))
                continue
            for record in records:
                account.add(account.delta(kind, None, self._trees.of_record(record)))
        for charge in space.pending:
            charge.applied = [one for one in charge.applied if one[0] is not known]
            if int(charge.written["metadata"]["resourceVersion"]) > durable:
                delta = account.delta(charge.kind, charge.old, charge.new)
                account.add(delta)
                charge.applied.append((account, delta))
        space.accounts[terms.name] = account
        self._mark(name, terms.name)

    def _mark(self, namespace: str, name: str) -> None:
        self.dirty.add((namespace, name))
        self.changed.set()


def _prefix(kind: Kind, namespace: str) -> str:
    group, plural = kind
    return f"/{group or 'core'}/{plural}/{namespace}/"


def _kind_at(key: str) -> Kind:
    group, plural = key.split("/", 3)[1:3]
    return "" if group == "core" else group, plural


def _refuse(
    resource: Resource, kind: Kind, account: Account, delta: Mapping[str, str], obj: Object, *, fresh: bool
) -> None:
    """403 if an object lacks what the quota demands, or would exceed it."""
    name = account.terms.name
    if fresh and (lacking := account.terms.unstated(kind, obj)):
        raise forbidden(resource, meta.name(obj), f"failed quota: {name}: {lacking}")
    exceeded = account.exceeded(delta)
    if exceeded:
        raise _exceeded(resource, obj, account, delta, exceeded)


def _exceeded(
    resource: Resource, obj: Object, account: Account, delta: Mapping[str, str], names: Iterable[str]
) -> ApiError:
    def listed(amounts: Mapping[str, str]) -> str:
        return ",".join(f"{name}={amounts[name]}" for name in sorted(names))

    requested, used, limited = listed(delta), listed(account.used), listed(account.terms.hard)
    detail = f"exceeded quota: {account.terms.name}, requested: {requested}, used: {used}, limited: {limited}"
    return forbidden(resource, meta.name(obj), detail)
