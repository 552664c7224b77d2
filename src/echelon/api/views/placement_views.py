"""What a pod's spec says about where it fits; `PlacementSpec` is read with `read_all`, so that nothing is ignored."""

from __future__ import annotations

from typing import Any

import msgspec

from .object_view import ViewPart


class ResourceAmounts(ViewPart, frozen=True):
    #: Quantities as written.
    requests: dict[str, Any] = msgspec.field(default_factory=dict)
    limits: dict[str, Any] = msgspec.field(default_factory=dict)


class ContainerPort(ViewPart, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(ViewPart, frozen=True):
    resources: ResourceAmounts = ResourceAmounts()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class PodToleration(ViewPart, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TimedToleration(PodToleration, frozen=True):
    #: How long a taint with the effect NoExecute is tolerated; None: for ever.
    toleration_seconds: int | None = None


class TolerationSpec(ViewPart, frozen=True):
    """What a pod's spec says about when a taint ends the pod."""

    tolerations: tuple[TimedToleration, ...] = ()


class SelectorExpression(ViewPart, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ViewPart, frozen=True):
    match_expressions: tuple[SelectorExpression, ...] = ()
    match_fields: tuple[SelectorExpression, ...] = ()


class NodeSelector(ViewPart, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(ViewPart, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ViewPart, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTerm, ...] = ()


class SelectorOfLabels(ViewPart, frozen=True):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[SelectorExpression, ...] = ()


class PodAffinityTerm(ViewPart, frozen=True):
    topology_key: str = ""
    label_selector: SelectorOfLabels | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: SelectorOfLabels | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodTerm(ViewPart, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ViewPart, frozen=True):
    """podAffinity or podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodTerm, ...] = ()


class Affinity(ViewPart, frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class SpreadConstraint(ViewPart, frozen=True):
    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: SelectorOfLabels | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class PlacementSpec(ViewPart, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceAmounts = ResourceAmounts()
    overhead: dict[str, Any] = msgspec.field(default_factory=dict)
    host_network: bool = False
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[PodToleration, ...] = ()
    affinity: Affinity = Affinity()
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    #: As written: which key a volume has says what it is.
    volumes: tuple[dict[str, Any], ...] = ()
    resource_claims: tuple[Any, ...] = ()
