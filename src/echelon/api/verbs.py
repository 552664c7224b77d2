"""The verbs of the Kubernetes API as one Python protocol.

Whoever can be talked to like an API server implements `Verbs`: the embedded server's pipeline
(decode → default → admit → validate → store) and the HTTPS client against any API server.  Scheduler,
controllers, agents and commands hold a `Verbs` and cannot tell which one it is.

All verbs raise `errors.ApiError`.  Objects returned are shared; copy before changing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from .scheme import Object, Resource

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["Background", "Foreground", "Orphan"]
#: `finalize` exists for namespaces alone: it replaces `spec.finalizers`.
Subresource = Literal["", "status", "finalize"]


def _unheard(_: str) -> None:
    """The default ear for warnings."""


class PatchType(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Patch:
    type: PatchType
    #: A list of operations for JSON, an object tree otherwise.
    body: Any


@dataclass(frozen=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True)
class WatchOptions:
    label_selector: str = ""
    field_selector: str = ""
    #: Everything after this version; "" or "0" begins with the current state as ADDED events.
    resource_version: str = ""
    resource_version_match: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True)
class WriteOptions:
    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    field_manager: str = ""
    #: Called with each warning the server has for the writer.
    warn: Callable[[str], None] = _unheard


@dataclass(frozen=True)
class DeleteOptions:
    propagation: Propagation | None = None
    grace_period_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class ObjectList:
    items: list[Object]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


WatchType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    type: WatchType
    object: Object


class Verbs(Protocol):
    """An API server, seen from inside the process or over HTTPS.

    `namespace` is "" for cluster-scoped resources and, when listing or watching, for all namespaces.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    async def list(
        self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()
    ) -> ObjectList: ...

    def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events in order of resourceVersion; raises `ApiError` 410 when the start or the reader is too far behind."""
        ...

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object: ...

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        """Put `metadata.resourceVersion` or `metadata.uid` into the patch to make it conditional."""
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        """The object as it was removed or marked; the HTTP face turns a removal into a Status where upstream does."""
        ...

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        options: WriteOptions = WriteOptions(),
    ) -> None:
        """Put a pod on a node.  With `uid` only that very pod; `annotations` are added to the pod's own."""
        ...

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        """Delete with respect for PodDisruptionBudgets: 429 when a budget is used up."""
        ...
