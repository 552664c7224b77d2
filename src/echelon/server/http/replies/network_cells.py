"""Cells of Ingress, IngressClass and CronJob."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.subtree import items, mapping
from ....api.scheme import Object

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_HOSTS_SHOWN, _ADDRESS_WIDTH = 3, 16


def hosts(ingress: Object, _now: float) -> str:
    rules = items(ingress, "spec", "rules")
    named = [rule["host"] for rule in rules if rule.get("host")]
    shown = ",".join(named[:_HOSTS_SHOWN]) or "*"
    return f"{shown} + {len(rules) - _HOSTS_SHOWN} more..." if len(named) > _HOSTS_SHOWN else shown


def address(ingress: Object, _now: float) -> str:
    """Where it is reached, cut short; `-o wide` has the same cell."""
    entries = items(ingress, "status", "loadBalancer", "ingress")
    shown = ",".join(sorted({found for entry in entries if (found := entry.get("ip") or entry.get("hostname"))}))
    return f"{shown[: _ADDRESS_WIDTH - 3]}..." if len(shown) > _ADDRESS_WIDTH else shown


def ports(ingress: Object, _now: float) -> str:
    return "80, 443" if items(ingress, "spec", "tls") else "80"


def class_name(ingress_class: Object, _now: float) -> str:
    is_default = meta.annotations(ingress_class).get(_DEFAULT_CLASS) == "true"
    return f"{meta.name(ingress_class)} (default)" if is_default else meta.name(ingress_class)


def parameters(ingress_class: Object, _now: float) -> str:
    found = mapping(ingress_class, "spec", "parameters")
    if not found:
        return "<none>"
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def suspended(cron_job: Object, _now: float) -> str:
    return "True" if mapping(cron_job, "spec").get("suspend") else "False"


def active(cron_job: Object, _now: float) -> int:
    return len(items(cron_job, "status", "active"))
