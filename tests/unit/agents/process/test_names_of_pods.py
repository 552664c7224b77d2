"""Host names and the resolver's file of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.agents.process.rules.host_names import hosts_file, inner_host_name
from echelon.agents.process.rules.refusals import NodePowers, refusal
from echelon.agents.process.rules.resolver_file import resolver_file
from echelon.api.scheme import Object

MACHINE = "# comment\nnameserver 10.0.0.1\nsearch lan\noptions ndots:1 rotate\n"


def pod(name: str = "p", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "p"),
        ({"hostname": "h"}, "h"),
        ({"hostname": "h", "subdomain": "s"}, "h"),
        ({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True}, "h.s.ns.svc.cluster.local"),
        ({"setHostnameAsFQDN": True}, "p"),
        ({"hostname": "h", "subdomain": "s", "hostnameOverride": "other.example"}, "other.example"),
    ],
)
def test_the_host_name_inside_a_pod(spec: dict[str, Any], name: str) -> None:
    assert inner_host_name(pod(**spec)) == name
    own = next(line for line in hosts_file(pod(**spec), "1.2.3.4", {}).splitlines() if line.startswith("1.2.3.4"))
    assert name in own.split()


def test_a_host_name_is_as_long_as_the_kernel_allows() -> None:
    spec = {"hostname": "h" * 20, "subdomain": "s", "setHostnameAsFQDN": True}
    assert refusal(pod(**spec), {"name": "c"}, NodePowers("net", 0, 0)) is None
    spec["subdomain"] = "s" * 24
    waiting = refusal(pod(**spec), {"name": "c"}, NodePowers("net", 0, 0))
    assert waiting is not None
    assert "is too long (64 characters is the max, 66 characters requested)" in waiting.message


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, MACHINE),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b", "c"]}},
            "nameserver 1.1.1.1\nsearch a.b c\n",
        ),
        (
            {
                "dnsPolicy": "ClusterFirst",
                "dnsConfig": {
                    "nameservers": ["1.1.1.1", "10.0.0.1"],
                    "searches": ["a.b"],
                    "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}],
                },
            },
            "nameserver 10.0.0.1\nnameserver 1.1.1.1\nsearch lan a.b\noptions ndots:5 rotate edns0\n",
        ),
    ],
)
def test_a_pod_adds_to_the_name_servers_of_the_machine(spec: dict[str, Any], text: str) -> None:
    assert resolver_file(pod(**spec), MACHINE) == text


def test_name_servers_are_refused_where_files_are_shared() -> None:
    waiting = refusal(pod(dnsConfig={"searches": ["a"]}), {"name": "c"}, NodePowers("plain", 0, 0))
    assert waiting is not None
    assert "pods share the files of this machine" in waiting.message
