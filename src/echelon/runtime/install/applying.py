"""Applies the objects of an installation: rehearsed first, so that nothing is changed halfway; then made in order.

facts ─► settle ─► rehearse ─► apply each ─► kinds established ─► Deployments available
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...api.custom.defined_kinds import ESTABLISHED
from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.vocabulary import INSTALLATION
from ...api.scheme import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOB_SETS,
    PODS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Object,
)
from ...api.verbs import ListOptions, Patch, PatchType, Verbs, WriteOptions
from ...base.clock import Clock
from ...deploy.admission.kinds import MUTATING_POLICIES
from ...deploy.cluster_facts import ClusterFacts
from ...deploy.objects.installation import resource_of
from ...deploy.objects.labelled import selector
from ...deploy.options import LEASE_NAMESPACE, InstallOptions

Report = Callable[[str], None]
Outcome = Literal["created", "changed", "unchanged"]
MANAGER = "echelon-install"
_POLL_SECONDS = 0.5
_ESTABLISHED_SECONDS = 60.0
#: A JobSet that is never made, in a namespace that every cluster has.
_PROBE: Object = {"metadata": {"name": "echelon-probe"}, "spec": {"replicatedJobs": []}}
_PROBE_NAMESPACE = "default"


class CannotInstall(Exception):
    """The cluster refuses, or does not get ready; the message says what and why."""


class NotReady(Exception):
    """Everything is installed, and does not get available in time; the message says what is seen."""


@dataclass(frozen=True)
class Installer:
    verbs: Verbs
    clock: Clock
    report: Report
    #: Whether to take fields over that somebody else has set.
    force: bool = False

    async def rehearse(self, objects: Sequence[Object], facts: ClusterFacts) -> None:
        """Ask the server for every object whether it would take it; raises one message with all that it would not."""
        problems: dict[str, None] = {}
        for obj in objects:
            try:
                if meta.namespace(obj) and meta.namespace(obj) not in facts.namespaces:
                    await self._check_right(obj)
                    await self._check_validity(obj)
                elif self.force or await self._may_be_ours(obj):
                    await self._apply(obj, dry_run=True)
                else:
                    problems[f"{_named(obj)} is not of Echelon: remove it, or --force-conflicts takes it over"] = None
            except ApiError as error:
                problems[_problem(obj, error)] = None
        if problems:
            raise CannotInstall("nothing was changed, because the server refuses: " + "; ".join(problems))

    async def _check_right(self, obj: Object) -> None:
        """In a namespace that is not there yet nothing can be applied; the right to write there can be asked for."""
        resource = resource_of(obj)
        for verb in ("create", "patch"):
            asked = {
                "verb": verb,
                "group": resource.group,
                "resource": resource.plural,
                "namespace": meta.namespace(obj),
            }
            review = {"spec": {"resourceAttributes": asked}}
            answer = await self.verbs.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
            if not answer["status"]["allowed"]:
                what = f"you may not {verb} {resource.qualified} in namespace {meta.namespace(obj)}"
                raise ApiError(403, "Forbidden", what)

    async def _check_validity(self, obj: Object) -> None:
        """Whether the object is valid shows in another namespace too; what else is said there is about that one."""
        elsewhere = {**obj, "metadata": {**obj["metadata"], "namespace": LEASE_NAMESPACE}}
        options = WriteOptions(dry_run=True, field_validation="Strict", field_manager=MANAGER)
        try:
            await self.verbs.create(resource_of(obj), elsewhere, LEASE_NAMESPACE, options)
        except ApiError as error:
            # Also policies refuse with that code, perhaps whatever is written to that namespace.
            if error.code == 422 and "ValidatingAdmissionPolicy" not in error.message:
                raise

    async def _may_be_ours(self, obj: Object) -> bool:
        """What others have made under one of our names would go when Echelon goes; kinds stay while they are used."""
        if resource_of(obj) == CUSTOM_RESOURCE_DEFINITIONS:
            return True
        found = await _stored(self.verbs, obj)
        return found is None or bool(meta.labels(found).get(INSTALLATION))

    async def apply_all(self, objects: Sequence[Object]) -> Counter[Outcome]:
        """Make or change each object in turn, and wait for kinds before what needs them."""
        counted: Counter[Outcome] = Counter()
        for obj in objects:
            try:
                outcome = await self._apply(obj)
            except ApiError as error:
                done = ", ".join(f"{count} {what}" for what, count in counted.items()) or "nothing changed"
                raise CannotInstall(f"{_problem(obj, error)} ({done}; run it again to go on)") from error
            counted[outcome] += 1
            self.report(f"{outcome:<9} {_named(obj)}")
        await self._wait_established([obj for obj in objects if resource_of(obj) == CUSTOM_RESOURCE_DEFINITIONS])
        if any(resource_of(obj) == MUTATING_POLICIES for obj in objects):
            await self._wait_defaulted()
        return counted

    async def _apply(self, obj: Object, *, dry_run: bool = False) -> Outcome:
        resource, name, namespace = resource_of(obj), meta.name(obj), meta.namespace(obj)
        found = await _stored(self.verbs, obj)
        options = WriteOptions(dry_run=dry_run, field_validation="Strict", field_manager=MANAGER, force=self.force)
        applied = await self.verbs.patch(resource, name, Patch(PatchType.APPLY, obj), namespace, options=options)
        if found is None:
            return "created"
        same = applied["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        return "unchanged" if same else "changed"

    async def _wait_established(self, definitions: Sequence[Object]) -> None:
        deadline = self.clock.now() + _ESTABLISHED_SECONDS
        for one in definitions:
            while not meta.condition_is(await self.verbs.get(CUSTOM_RESOURCE_DEFINITIONS, meta.name(one)), ESTABLISHED):
                if self.clock.now() >= deadline:
                    raise CannotInstall(f"{_named(one)} is not established after {_ESTABLISHED_SECONDS:.0f} s")
                await self.clock.sleep(_POLL_SECONDS)

    async def _wait_defaulted(self) -> None:
        """A server that does not know a new kind well enough to set its defaults refuses all its objects, with 503."""
        deadline = self.clock.now() + _ESTABLISHED_SECONDS
        while True:
            try:
                await self.verbs.create(JOB_SETS, _PROBE, _PROBE_NAMESPACE, WriteOptions(dry_run=True))
                return
            except ApiError as error:
                if error.code != 503 or self.clock.now() >= deadline:
                    return  # any other answer comes after that
            await self.clock.sleep(_POLL_SECONDS)

    async def wait_available(self, objects: Sequence[Object], options: InstallOptions, seconds: float) -> None:
        """Wait until every Deployment has all its replicas of the current kind."""
        deadline = self.clock.now() + seconds
        for one in (obj for obj in objects if resource_of(obj) == DEPLOYMENTS):
            told = ""
            while (state := _rollout(await self.verbs.get(DEPLOYMENTS, meta.name(one), options.namespace))) != "":
                if state != told:
                    self.report(f"waiting   {_named(one)}: {state}")
                    told = state
                if self.clock.now() >= deadline:
                    trouble = await self._trouble(one, options)
                    raise NotReady(f"{_named(one)} is not ready after {seconds:.0f} s: {state}{trouble}")
                await self.clock.sleep(_POLL_SECONDS)
            self.report(f"ready     {_named(one)}")

    async def _trouble(self, deployment: Object, options: InstallOptions) -> str:
        """What a pod of the Deployment says about itself."""
        part = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        wanted = ",".join(f"{key}={value}" for key, value in selector(options, part).items())
        pods = (await self.verbs.list(PODS, options.namespace, ListOptions(label_selector=wanted))).items
        for pod in pods:
            for status in pod.get("status", {}).get("containerStatuses") or ():
                waiting = status.get("state", {}).get("waiting")
                if waiting:
                    said = f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip()
                    return f"; pod {meta.name(pod)}: {said}"
            for condition in pod.get("status", {}).get("conditions") or ():
                if condition["status"] == "False" and condition.get("message"):
                    return f"; pod {meta.name(pod)}: {condition['message']}"
        if pods:
            return f"; see kubectl describe pods -n {options.namespace}"
        return await self._without_pods(deployment, options)

    async def _without_pods(self, deployment: Object, options: InstallOptions) -> str:
        """Quotas, admission and priority classes refuse pods before there are any; the Deployment says so."""
        found = await self.verbs.get(DEPLOYMENTS, meta.name(deployment), options.namespace)
        refused = meta.find_condition(found, "ReplicaFailure")
        if refused is None or refused["status"] != "True":
            return f"; it has no pods; see kubectl describe deployment {meta.name(deployment)} -n {options.namespace}"
        return f"; it has no pods: {refused.get('message', '')}"


def _rollout(deployment: Object) -> str:
    """What a Deployment still lacks; "" for nothing."""
    status, wanted = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "not looked at by its controller yet"
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted or status.get("replicas", 0) > updated:
        return f"{updated} of {wanted} pods are of this version"
    return f"{available} of {wanted} pods are available" if available < wanted else ""


async def _stored(verbs: Verbs, obj: Object) -> Object | None:
    try:
        return await verbs.get(resource_of(obj), meta.name(obj), meta.namespace(obj))
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def _named(obj: Object) -> str:
    space = meta.namespace(obj)
    return f"{obj['kind']}/{meta.name(obj)}" + (f" in {space}" if space else "")


def _problem(obj: Object, error: ApiError) -> str:
    if error.code == 403:
        return f"{error}; a cluster administrator may install"
    if error.reason == "Conflict":
        return f"{_named(obj)}: {error}; --force-conflicts takes these fields over"
    return f"{_named(obj)}: {error}"
