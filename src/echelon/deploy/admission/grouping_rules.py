"""Rules of the scheduling fields that all levels of grouping share, see `api.rules.grouping`.

A level is a part of `spec.scheduling`: the whole, an entry of its replicatedJobs, or the `job` of an entry.  `each`
makes a condition on one level `g` into one on all levels of that kind.
"""

from __future__ import annotations

from collections.abc import Callable

from ...api.rules.grouping import MAX_CLAIMS, MAX_TOPOLOGY_KEYS
from .cel_rule import CelRule
from .formats import dns1123_label, dns1123_subdomain, label_key

#: Makes the condition on a level one on the object.
Each = Callable[[str], str]
_KEY = label_key("t.?key.orValue('')")
_NAME = "c.?name.orValue('')"


def level_rules(path: str, each: Each, *, claims: bool) -> list[CelRule]:
    """Rules of policy, constraints, mode and claims of one kind of level."""
    found = [
        CelRule(
            f"{path}.schedulingPolicy",
            "must specify exactly one of: `basic`, `gang`",
            each("!has(g.schedulingPolicy) || has(g.schedulingPolicy.basic) != has(g.schedulingPolicy.gang)"),
        ),
        CelRule(
            f"{path}.disruptionMode",
            "must specify exactly one of: `single`, `all`",
            each("!has(g.disruptionMode) || has(g.disruptionMode.single) != has(g.disruptionMode.all)"),
        ),
        CelRule(
            f"{path}.schedulingConstraints.topology",
            f"must have at most {MAX_TOPOLOGY_KEYS} items",
            each(f"size(g.?schedulingConstraints.?topology.orValue([])) <= {MAX_TOPOLOGY_KEYS}"),
        ),
        CelRule(
            f"{path}.schedulingConstraints.topology[].key",
            "must be the key of a node label",
            each(f"g.?schedulingConstraints.?topology.orValue([]).all(t, {_KEY})"),
        ),
    ]
    return [*found, *_claim_rules(f"{path}.resourceClaims", each)] if claims else found


def _claim_rules(path: str, each: Each) -> list[CelRule]:
    claims = "g.?resourceClaims.orValue([])"
    name, template = "c.resourceClaimName", "c.resourceClaimTemplateName"
    valid = f"(!has({name}) || {dns1123_subdomain(name)}) && (!has({template}) || {dns1123_subdomain(template)})"
    return [
        CelRule(path, f"must have at most {MAX_CLAIMS} items", each(f"size({claims}) <= {MAX_CLAIMS}")),
        CelRule(
            f"{path}[].name",
            "must be a DNS-1123 label",
            each(f"{claims}.all(c, {dns1123_label(_NAME)})"),
        ),
        CelRule(
            f"{path}[]",
            "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`, a DNS-1123 subdomain",
            each(f"{claims}.all(c, has({name}) != has({template}) && {valid})"),
        ),
    ]
