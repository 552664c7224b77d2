"""The headless Service that gives a JobSet's pods their host names."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.vocabulary import JOBSET_NAME
from ....api.scheme import JOB_SETS, SERVICES, Object
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
