"""Gangs of other schedulers: where their groups are served, and how pods join them."""

from __future__ import annotations

from dataclasses import dataclass

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
#: JobSet annotation: the queue in which the group waits.
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"


@dataclass(frozen=True)
class ForeignGang:
    #: The field of podGroupPolicy.
    policy: str
    group: str
    version: str
    #: What brings its kinds.
    comes_with: str

    @property
    def definition(self) -> str:
        """The name of the CustomResourceDefinition of its groups."""
        return f"podgroups.{self.group}"

    @property
    def missing(self) -> str:
        return (
            f"the server does not serve PodGroup in {self.group}/{self.version}, which comes with {self.comes_with}; "
            "podGroupPolicy.workload needs no other scheduler"
        )


COSCHEDULING = ForeignGang("coscheduling", "scheduling.x-k8s.io", "v1alpha1", "the scheduler-plugins of Kubernetes")
VOLCANO = ForeignGang("volcano", "scheduling.volcano.sh", "v1beta1", "Volcano")
FOREIGN_GANGS = (COSCHEDULING, VOLCANO)
