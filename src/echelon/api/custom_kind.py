"""What a CustomResourceDefinition says of one kind at one version; a `Resource` of a custom kind carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class CustomKind:
    """One version of a custom kind.  Compared by identity: a changed definition has new ones."""

    #: The name of the CustomResourceDefinition.
    definition: str
    #: The structural schema as it was given, and that of the version in which objects are stored.
    schema: Mapping[str, Any]
    stored_schema: Mapping[str, Any]
    #: Objects with a lower revision may have been written under another schema.
    since: int
    #: Printer columns: name, type, jsonPath, …; none mean the age alone.
    columns: tuple[Mapping[str, Any], ...] = ()
    #: Paths that field selectors may name, such as `spec.color`.
    selectable: tuple[str, ...] = ()
    #: Whether fields that the schema does not name are kept everywhere (`preserveUnknownFields`).
    keeps_unknown: bool = False
    #: The Warning of every request at this version, "" if it is not deprecated.
    deprecation: str = ""
    #: Whether the definition is being deleted: nothing is created any more.
    ending: bool = False
