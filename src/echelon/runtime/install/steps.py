"""The whole of `echelon install`, `upgrade` and `uninstall`: read, judge, rehearse, act, wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...api.errors import ApiError
from ...base.version import __version__
from ...deploy.objects.installation import objects
from ...deploy.options import InstallOptions
from ...deploy.preflight import InstallRefused, check_version, settle
from ..clocks import RealClock
from ..server_connection import advice, connected
from .applying import CannotInstall, Installer
from .gathering import gather
from .removing import Remover
from .superseding import Pruner

Report = Callable[[str], None]


@dataclass(frozen=True)
class Kubeconfig:
    kubeconfig: Path | None
    context: str | None


@dataclass(frozen=True)
class Wishes:
    """What is asked for; None leaves it to what is found on the cluster."""

    options: InstallOptions
    controllers: tuple[str, ...] | None = None
    monitoring: bool | None = None
    force: bool = False
    #: Seconds to wait until everything is available; None: not at all.
    wait: float | None = 300.0
    #: Whether the image of the options was asked for.
    image_chosen: bool = True


async def install(target: Kubeconfig, wishes: Wishes, report: Report, *, upgrade: bool = False) -> None:
    """Raises `CannotInstall` with one message; before the first object is written nothing has changed."""
    try:
        async with connected(target.kubeconfig, target.context) as (verbs, server):
            report(f"installing Echelon {__version__} on {server}, namespace {wishes.options.namespace}")
            facts = await gather(verbs)
            check_version(wishes.options, facts, upgrade=upgrade)
            settled = settle(
                wishes.options,
                facts,
                chosen=wishes.controllers,
                monitoring=wishes.monitoring,
                image_chosen=wishes.image_chosen,
            )
            for note in settled.notes:
                report(f"note      {note}")
            wanted = objects(settled.options)
            installer = Installer(verbs, RealClock(), report, wishes.force)
            await installer.rehearse(wanted, facts)
            pruner = Pruner(verbs, report, settled.options)
            leftovers = await pruner.find()
            counted = await installer.apply_all(wanted)
            # A server may end of policies; all else stays until what takes its place is there.
            removed = await pruner.remove([one for one in leftovers if one.is_policy])
            if wishes.wait is not None:
                await installer.wait_available(wanted, settled.options, wishes.wait)
            removed += await pruner.remove([one for one in leftovers if not one.is_policy])
    except InstallRefused as error:
        raise CannotInstall(str(error)) from error
    except ApiError as error:
        raise CannotInstall(f"{error}{advice(error)}") from error
    told = [f"{counted[outcome]} {outcome}" for outcome in ("created", "changed", "unchanged") if counted[outcome]]
    report(", ".join([*told, f"{removed} removed"] if removed else told))


async def uninstall(target: Kubeconfig, namespace: str, report: Report, *, purge: bool, wait: float) -> None:
    try:
        async with connected(target.kubeconfig, target.context) as (verbs, server):
            report(f"removing Echelon from {server}, namespace {namespace}")
            facts = await gather(verbs)
            others = sorted(set(facts.installations) - {namespace})
            removed = await Remover(verbs, RealClock(), report, namespace, wait).remove(purge=purge)
    except ApiError as error:
        raise CannotInstall(f"{error}{advice(error)}") from error
    if not removed and others:
        raise CannotInstall(f"nothing is installed in {namespace}; there is an installation in {', '.join(others)}")
    report(f"{removed} removed" if removed else "nothing was installed")
