"""The two forms in which a server may have groups of pods, and how one becomes the other.

                       native                                Echelon's own
    kinds              scheduling.k8s.io                     scheduling.echelon.dev (CustomResourceDefinitions)
    a pod joins by     spec.schedulingGroup.podGroupName     the label echelon.dev/pod-group

All code knows the native form.  `client.group_dialect` applies these functions where objects leave and enter the
process.  Nothing here changes a tree that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .objects.subtree import items, mapping
from .objects.vocabulary import POD_GROUP
from .scheme import OWN_GROUP_KINDS, OWN_WORKLOADS, WORKLOADS, Object, Resource

#: apiVersion and kind of a native group kind → apiVersion of its own counterpart, and back.
_OWN_VERSION = {(one.api_version, one.kind): own.api_version for one, own in OWN_GROUP_KINDS.items()}
_NATIVE_VERSION = {(own.api_version, own.kind): one.api_version for one, own in OWN_GROUP_KINDS.items()}
#: What a server must keep of a PodGroup for the native form to be used.
_NEEDED_FIELDS = ("parentCompositePodGroupName", "schedulingConstraints", "disruptionMode", "schedulingPolicy")
NATIVE, OWN = "native", "own"
#: In which forms groups are read; new ones are made in the first.
CHOICES = (NATIVE, OWN, f"{OWN},{NATIVE}", f"{NATIVE},{OWN}")
#: The gates of kube-apiserver behind which 1.37 keeps the native kinds and fields.
GATES = "GenericWorkload,TopologyAwareWorkloadScheduling,CompositePodGroup"
OWN_GROUP = OWN_WORKLOADS.group
NATIVE_GROUP = WORKLOADS.group


@dataclass(frozen=True)
class GroupForms:
    """Native kind → the resources that hold its objects on a server; new objects are made in the first."""

    of: Mapping[Resource, tuple[Resource, ...]]

    @property
    def makes_own(self) -> bool:
        return all(held[0] is OWN_GROUP_KINDS[native] for native, held in self.of.items())

    @property
    def reads_own(self) -> bool:
        return any(OWN_GROUP_KINDS[native] in held for native, held in self.of.items())

    @property
    def choice(self) -> str:
        """As on the command line."""
        native = any(kind in held for kind, held in self.of.items())
        if not self.reads_own:
            return NATIVE
        if not native:
            return OWN
        return f"{OWN},{NATIVE}" if self.makes_own else f"{NATIVE},{OWN}"


def forms(choice: str, native: Collection[Resource] = tuple(OWN_GROUP_KINDS)) -> GroupForms:
    """The forms of a choice, on a server that serves these `native` kinds."""
    order = choice.split(",")
    return GroupForms(
        {
            kind: tuple(own if form == OWN else kind for form in order if form == OWN or kind in native)
            for kind, own in OWN_GROUP_KINDS.items()
        }
    )


@dataclass(frozen=True)
class GroupSupport:
    """What a server has for groups of pods."""

    #: Native kinds that it serves.
    native: frozenset[Resource] = frozenset()
    #: Fields of native groups that it does not keep.
    dropped: tuple[str, ...] = ()
    #: Whether Echelon's own kinds are there.
    own: bool = False

    @property
    def lack(self) -> str:
        """What native groups lack here; "" for nothing."""
        missing = [f"{one.plural} in {one.api_version}" for one in OWN_GROUP_KINDS if one not in self.native]
        if missing:
            return f"does not serve {', '.join(missing)}"
        return f"drops {', '.join(self.dropped)} of PodGroups" if self.dropped else ""

    @property
    def choice(self) -> str:
        """The forms to use; where there must be own kinds and are none, they have to be installed."""
        if not self.lack:
            return f"{NATIVE},{OWN}" if self.own else NATIVE
        return f"{OWN},{NATIVE}" if self.native else OWN

    def told(self, choice: str) -> str:
        """A choice in one line."""
        made = OWN_GROUP if choice.startswith(OWN) else NATIVE_GROUP
        because = f", because the server {self.lack}" if made is OWN_GROUP and self.lack else ""
        also = {f"{OWN},{NATIVE}": NATIVE_GROUP, f"{NATIVE},{OWN}": OWN_GROUP}.get(choice)
        return f"groups: {made}{because}" + (f"; groups of {also} are read too" if also else "")


def probe_group() -> Object:
    """A PodGroup with every field that is needed; a server that would not keep them all is no home for groups."""
    return {
        "metadata": {"name": "echelon-probe"},
        "spec": {
            "parentCompositePodGroupName": "parent",
            "workloadRef": {"workloadName": "workload", "templateName": "template"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
            "disruptionMode": {"all": {}},
        },
    }


def dropped_fields(answer: Object) -> list[str]:
    """What a server did not keep of the probe."""
    return [f"spec.{field}" for field in _NEEDED_FIELDS if not answer.get("spec", {}).get(field)]


def group_of(pod: Object) -> str:
    """The PodGroup that a pod or pod template names; "" for none.

    The label counts first: a server that makes groups for Jobs puts pods into one of its own.
    """
    named = mapping(pod, "metadata", "labels").get(POD_GROUP)
    return str(named or mapping(pod, "spec", "schedulingGroup").get("podGroupName") or "")


# -- groups ---------------------------------------------------------------------------------------------------


def to_own(obj: Object) -> Object:
    """A group in Echelon's own form."""
    version = _OWN_VERSION.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    return obj if version is None else {**obj, "apiVersion": version}


def to_native(obj: Object) -> Object:
    """A group as all code knows it, with its owners."""
    version = _NATIVE_VERSION.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    if version is None:
        return obj
    return _with_owners({**obj, "apiVersion": version}, _native_owner)


def with_own_owners(obj: Object, is_own: Callable[[str], bool]) -> Object:
    """An object whose references to groups of these uids are to Echelon's own kinds: the server looks owners up."""

    def renamed(owner: Object) -> Object:
        version = _OWN_VERSION.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        return owner if version is None or not is_own(owner.get("uid", "")) else {**owner, "apiVersion": version}

    return _with_owners(obj, renamed)


def event_about_own(event: Object, is_own: Callable[[str], bool]) -> Object:
    """An event that names the group it is about as the server knows it."""
    found = event
    for field in ("involvedObject", "related"):
        about = mapping(event, field)
        version = _OWN_VERSION.get((about.get("apiVersion", ""), about.get("kind", "")))
        if version is not None and is_own(about.get("uid", "")):
            found = {**found, field: {**about, "apiVersion": version}}
    return found


def _native_owner(owner: Object) -> Object:
    version = _NATIVE_VERSION.get((owner.get("apiVersion", ""), owner.get("kind", "")))
    return owner if version is None else {**owner, "apiVersion": version}


def _with_owners(obj: Object, change: Callable[[Object], Object]) -> Object:
    owners = items(obj, "metadata", "ownerReferences")
    changed = [change(one) for one in owners]
    if all(one is other for one, other in zip(owners, changed, strict=True)):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": changed}}


# -- pods and what makes them ---------------------------------------------------------------------------------


def labelled(pod: Object) -> Object:
    """A pod or pod template that joins its group by the label."""
    group = mapping(pod, "spec", "schedulingGroup").get("podGroupName")
    if not group:
        return pod
    spec = {field: value for field, value in pod["spec"].items() if field != "schedulingGroup"}
    return {**pod, "metadata": _with_label(pod, str(group)), "spec": spec}


def labelled_job(job: Object) -> Object:
    """A Job whose pods join their group by the label."""
    template = mapping(job, "spec", "template")
    changed = labelled(template)
    return job if changed is template else {**job, "spec": {**job["spec"], "template": changed}}


def labelled_jobset(jobset: Object) -> Object:
    """A JobSet, or a patch of one, whose pods have the label too; the field stays for controllers that know it."""
    return _with_pod_templates(
        jobset,
        lambda pod: (
            {**pod, "metadata": _with_label(pod, group)}
            if (group := mapping(pod, "spec", "schedulingGroup").get("podGroupName"))
            else pod
        ),
    )


def unlabelled_jobset(jobset: Object) -> Object:
    """The inverse: as it was before it was labelled, or would have been."""

    def unlabelled(pod: Object) -> Object:
        labels = mapping(pod, "metadata", "labels")
        group = labels.get(POD_GROUP)
        if not group:
            return pod
        spec = {"schedulingGroup": {"podGroupName": group}, **mapping(pod, "spec")}
        left = {name: value for name, value in labels.items() if name != POD_GROUP}
        metadata = {name: value for name, value in mapping(pod, "metadata").items() if name != "labels"}
        if left:
            metadata["labels"] = left
        bare = {name: value for name, value in pod.items() if name != "metadata"}
        return {**bare, **({"metadata": metadata} if metadata else {}), "spec": spec}

    return _with_pod_templates(jobset, unlabelled)


def _with_label(pod: Object, group: str) -> Object:
    metadata = mapping(pod, "metadata")
    return {**metadata, "labels": {**mapping(metadata, "labels"), POD_GROUP: group}}


def _with_pod_templates(jobset: Object, change: Callable[[Object], Object]) -> Object:
    found = items(jobset, "spec", "replicatedJobs")
    changed: list[Any] = []
    for entry in found:
        pod = mapping(entry, "template", "spec", "template")
        new = change(pod)
        if new is not pod:
            job = entry["template"]
            entry = {**entry, "template": {**job, "spec": {**job["spec"], "template": new}}}
        changed.append(entry)
    if all(one is other for one, other in zip(found, changed, strict=True)):
        return jobset
    return {**jobset, "spec": {**jobset["spec"], "replicatedJobs": changed}}
