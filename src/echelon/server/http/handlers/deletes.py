"""Handlers of DELETE for one object and for a collection."""

from __future__ import annotations

from ....api.objects import meta
from ....api.scheme import NAMESPACES, PODS, Object, Resource
from ..replies.encode import success
from ..replies.lists import list_reply
from ..requests.body import read_delete_body
from ..requests.query_options import delete_options, list_options
from ..requests.request import Reply, Response
from .call import Call


async def delete(call: Call) -> Response:
    """The object if it is only marked, or a pod; otherwise `Status: Success` with the uid."""
    presentation = call.presentation()
    options, orphan = delete_options(call.request, await read_delete_body(call.request))
    resource = call.resource
    deleted = await call.verbs.delete(resource, call.target.name, call.target.namespace, options)
    if _marked(resource, deleted):
        return presentation.reply(presentation.object(deleted), 202 if orphan is False else 200)
    if resource.plural == PODS.plural and not resource.group:
        return presentation.reply(presentation.object(deleted))
    details: Object = {"name": meta.name(deleted), "kind": resource.plural, "uid": meta.uid(deleted)}
    if resource.group:
        details["group"] = resource.group
    return presentation.reply(success(details=details))


def _marked(resource: Resource, obj: Object) -> bool:
    """Whether the object still exists and waits for its finalizers or grace period."""
    if not meta.deleting(obj):
        return False
    if obj["metadata"].get("finalizers") or obj["metadata"].get("deletionGracePeriodSeconds"):
        return True
    return resource is NAMESPACES and bool((obj.get("spec") or {}).get("finalizers"))


async def delete_collection(call: Call) -> Reply:
    """Delete the selected objects; objects deleted meanwhile are skipped."""
    presentation = call.presentation()
    options, _ = delete_options(call.request, await read_delete_body(call.request))
    which = list_options(call.request)
    deleted = await call.verbs.delete_collection(call.resource, call.target.namespace, which, options)
    return await list_reply(presentation, deleted, call.turns, call.client, call.request.abort)
