"""The verbs of the Kubernetes API as one Python protocol.

`Verbs` has two implementations: the pipeline of the embedded server (decode → default → admit → validate → store) and
the HTTPS client for any API server.  Scheduler, controllers, agents and commands use `Verbs` and work with both.

All verbs raise `errors.ApiError`.  Returned objects are shared; copy before changing.
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
#: `finalize` exists for namespaces only: it replaces `spec.finalizers`.  `scale` takes and returns a Scale.
Subresource = Literal["", "status", "finalize", "scale"]


def _ignore_warning(_: str) -> None:
    """The default of `WriteOptions.warn`."""


def _ignore_creation() -> None:
    """The default of `WriteOptions.created`."""


class PatchType(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    #: Server-side apply: the fields that the manager wants, as an object.
    APPLY = "application/apply-patch+yaml"


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
    #: Start after this version; "" or "0" starts with the current state as ADDED events.
    resource_version: str = ""
    resource_version_match: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float | None = None


def _permit_everything(new: Object, old: Object | None) -> None:
    pass


@dataclass(frozen=True)
class WriteOptions:
    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    field_manager: str = ""
    #: Take fields over from other managers; for apply patches.
    force: bool = False
    #: Called with each warning of the server.
    warn: Callable[[str], None] = _ignore_warning
    #: Called if an update or an apply creates the object.
    created: Callable[[], None] = _ignore_creation
    #: Called with the new object and the one that it replaces; raises if the caller may not write it.
    permit: Callable[[Object, Object | None], None] = _permit_everything
    #: Whether the request is so large that working on it would hold up others; None if nobody has measured it.
    large: bool | None = None


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
        """Events in order of resourceVersion; `ApiError` 410 if the version is too old or the reader too slow."""
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
        """Apply a patch; `metadata.resourceVersion` or `metadata.uid` in the patch make it conditional."""
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        """Delete or mark for deletion; returns the object's last state."""
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
        """Bind a pod to a node.  With `uid` the pod must have it; `annotations` are added to those of the pod."""
        ...

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        """Delete a pod unless a PodDisruptionBudget forbids it (429)."""
        ...
