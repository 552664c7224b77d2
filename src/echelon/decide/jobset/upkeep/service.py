"""The headless Service that gives a JobSet's pods their host names."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.subtree import mapping
from ....api.objects.vocabulary import JOBSET_NAME
from ....api.scheme import JOB_SETS, SERVICES, Object
from ...creation_trouble import whose
from ...plan import Note
from ..model import JobSet, Observed


def missing(js: JobSet, observed: Observed) -> Object | None:
    """The Service to create, or None if there is one of that name (whoever made it) or none is wanted."""
    if not js.has_hostnames or observed.find(SERVICES, js.subdomain) is not None:
        return None
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {
            "name": js.subdomain,
            "namespace": js.namespace,
            "ownerReferences": [meta.owner_reference(js.obj, JOB_SETS)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {JOBSET_NAME: js.name},
            "publishNotReadyAddresses": js.spec.network.publish_not_ready_addresses,
        },
    }


def taken(js: JobSet, observed: Observed) -> list[Note]:
    """Another's Service under the name is left alone; unless it finds the pods too, they have no host names."""
    found = observed.find(SERVICES, js.subdomain) if js.has_hostnames else None
    if found is None or meta.controlled_by(found, js.uid):
        return []
    selector = mapping(found, "spec", "selector")
    headless = mapping(found, "spec").get("clusterIP") == "None"
    labels = [mapping(rj.tree, "spec", "template", "metadata", "labels") for rj in js.replicated]
    if headless and selector and all(selector.items() <= {**one, JOBSET_NAME: js.name}.items() for one in labels):
        return []
    message = (
        f"{whose(SERVICES, found)}, and does not select the pods of this JobSet: they have no host names; delete it, "
        "or set spec.network.subdomain"
    )
    return [Note(JOB_SETS, js.obj, "Warning", "ServiceNotOwned", message)]
