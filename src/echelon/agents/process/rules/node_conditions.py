"""The conditions of a process node: that it is well, which tier it runs pods in and why, which limits it enforces."""

from __future__ import annotations

from typing import Protocol

from ....api.objects import meta
from ....api.scheme import Object
from ....base.instants import to_time
from .limit_settings import EnforcedLimits, limit_words

_TIERS = {
    "net": (
        "Net",
        "every pod has its own network address, host name, files and processes; it does not reach other networks",
    ),
    "names": ("Names", "every pod has its own host name, files and processes; all share the ports of this machine"),
    "plain": ("Plain", "pods share everything; names and mount paths are replaced in command, args and env"),
}


class TierChoice(Protocol):
    @property
    def tier(self) -> str: ...

    @property
    def reason(self) -> str: ...


def tier_words(chosen: TierChoice) -> str:
    why = f" ({chosen.reason})" if chosen.reason else ""
    return f"tier {chosen.tier}, {_TIERS[chosen.tier][1]}{why}"


def network_words(*, lost: bool) -> tuple[str, str]:
    """Reason and message."""
    if lost:
        return "PodNetworkLost", "the process that holds the network of the pods has ended; pods that were in it end"
    return "PodNetworkReady", "pods have their network"


def node_conditions(
    node: Object, chosen: TierChoice, limits: EnforcedLimits, now: float, *, network_lost: bool = False
) -> list[Object]:
    reason, message = _TIERS[chosen.tier]
    if chosen.reason:
        message += f" ({chosen.reason})"
    wanted = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("NetworkUnavailable", str(network_lost), *network_words(lost=network_lost)),
        ("Ready", "True", "KubeletReady", f"pods run as processes of this machine, tier {chosen.tier}"),
        ("echelon.dev/PodIsolation", "True" if chosen.tier != "plain" else "False", reason, message),
        ("echelon.dev/LimitsEnforced", *limit_words(limits)),
    ]
    stamp = to_time(now)
    made: list[Object] = []
    for type_, status, why, text in wanted:
        known = meta.find_condition(node, type_)
        since = known.get("lastTransitionTime") if known is not None and known.get("status") == status else None
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": why,
                "message": text,
                "lastHeartbeatTime": stamp,
                "lastTransitionTime": since or stamp,
            }
        )
    return made
