"""Table cells of Endpoints and EndpointSlices: the first few addresses and ports."""

from __future__ import annotations

from collections.abc import Sequence

from ....api.scheme import Object

_SHOWN = 3


def _first(found: Sequence[str], nothing: str) -> str:
    if not found:
        return nothing
    more = len(found) - _SHOWN
    return ",".join(found[:_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def endpoints(obj: Object, _now: float) -> str:
    if not obj.get("subsets"):
        return "<none>"
    shown: list[str] = []
    for subset in obj["subsets"]:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        shown += addresses if not ports else [_joined(ip, port["port"]) for port in ports for ip in addresses]
    return _first(shown, "")


def _joined(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def slice_ports(obj: Object, _now: float) -> str:
    return _first([str(port.get("port", port.get("name", "*"))) for port in obj.get("ports") or ()], "<unset>")


def slice_endpoints(obj: Object, _now: float) -> str:
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return _first(addresses, "<unset>")
