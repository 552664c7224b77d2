"""The headless Service that gives a JobSet's pods their host names."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.vocabulary import JOBSET_NAME
from ....api.scheme import JOB_SETS, SERVICES, Object
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


def shared(js: JobSet, observed: Observed) -> list[Note]:
    """A warning if the Service of that name is another JobSet's: it finds the pods of that one alone."""
    found = observed.find(SERVICES, js.subdomain) if js.has_hostnames else None
    owner = meta.controller_of(found) if found is not None else None
    if owner is None or owner["kind"] != JOB_SETS.kind or owner["name"] == js.name:
        return []
    message = (
        f"Service {js.subdomain} belongs to JobSet {owner['name']} and finds its pods alone: host names of this JobSet "
        "do not resolve; choose another spec.network.subdomain"
    )
    return [Note(JOB_SETS, js.obj, "Warning", "ServiceNotOwned", message)]
