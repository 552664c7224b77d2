"""/etc/resolv.conf of a pod with `dnsConfig`: that of the machine with what the pod adds, as a kubelet writes it.

With `dnsPolicy: None` only what the pod says counts.
"""

from __future__ import annotations

from ....api.scheme import Object


def resolver_file(pod: Object, machine: str) -> str:
    """The text for a pod; `machine` is what pods have that say nothing about it."""
    config = pod["spec"].get("dnsConfig")
    if not config:
        return machine
    servers, searches, options = ([], [], {}) if pod["spec"].get("dnsPolicy") == "None" else _parsed(machine)
    servers += config.get("nameservers") or ()
    searches += config.get("searches") or ()
    for option in config.get("options") or ():
        options[option["name"]] = option.get("value")
    lines = [f"nameserver {one}" for one in dict.fromkeys(servers)]
    lines += [f"search {' '.join(dict.fromkeys(searches))}"] if searches else []
    told = [name if value is None else f"{name}:{value}" for name, value in options.items()]
    lines += [f"options {' '.join(told)}"] if told else []
    return "\n".join(lines) + "\n"


def _parsed(text: str) -> tuple[list[str], list[str], dict[str, str | None]]:
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str | None] = {}
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        if word == "nameserver":
            servers += rest[:1]
        elif word in ("search", "domain"):
            searches = rest  # the last one counts
        elif word == "options":
            options |= {name: value or None for name, _, value in (one.partition(":") for one in rest)}
    return servers, searches, options
