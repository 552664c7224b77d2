"""What pods of the soak ask for beyond resources: affinity, anti-affinity, spread, ports, tainted or selected nodes.

Every pod has the label `app`, by which others know it; selectors look at nothing else, so that the checks can read
them plainly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from echelon.api.objects import vocabulary as words
from echelon.api.scheme import Object

APP = "app"
APPS = ("web", "db", "train")
DISK = "disk"
REPAIR = "repair"


@dataclass(frozen=True)
class Wish:
    """A label, and what goes into the spec of the pods that have the rule."""

    app: str
    spec: Object = field(default_factory=dict)
    port: int = 0

    def give(self, pod: Object) -> Object:
        """A pod or a pod template, with the rule."""
        metadata = pod.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), APP: self.app}
        pod["spec"] |= copy.deepcopy(self.spec)
        if self.port:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": self.port, "hostPort": self.port}]
        return pod


def draw(pick: Callable[[tuple[str, ...]], str]) -> Wish:
    """One rule of any kind."""
    app, other = pick(APPS), pick(APPS)
    kind = pick(("apart", "apart", "away", "near", "near", "beside", "spread", "spread", "port", "tolerate", "choose"))
    match kind:
        case "apart":
            return Wish(app, term("podAntiAffinity", pick((words.HOSTNAME, words.HOSTNAME, words.RACK)), app))
        case "away":
            return Wish(app, term("podAntiAffinity", words.HOSTNAME, other))
        case "near":
            return Wish(app, term("podAffinity", pick((words.RACK, words.BLOCK)), app))
        case "beside":
            return Wish(app, term("podAffinity", pick((words.HOSTNAME, words.BLOCK)), other))
        case "spread":
            return Wish(app, spread(pick((words.HOSTNAME, words.RACK)), int(pick(("1", "1", "2"))), app))
        case "port":
            return Wish(app, port=int(pick(("8080", "8081"))))
        case "tolerate":
            return Wish(app, {"tolerations": [{"key": REPAIR, "operator": "Exists"}]})
    return Wish(app, {"nodeSelector": {DISK: "ssd"}})


def term(kind: str, key: str, app: str) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {APP: app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str, skew: int, app: str) -> Object:
    selector = {"matchLabels": {APP: app}}
    one = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [one]}
