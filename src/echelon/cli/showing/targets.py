"""Which objects `echelon tree` is asked for, in the forms that kubectl prints and takes."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.scheme import Resource
from ..failures import Refusal
from .snapshot import SHOWN

#: A kind and a name.
Target = tuple[Resource, str]


def parse(arguments: Sequence[str]) -> list[Target]:
    """`jobset/low …`, `jobset.jobset.x-k8s.io/low …` as `kubectl -o name` prints it, or `jobset low …`."""
    first, *rest = arguments
    if rest and not any("/" in argument for argument in arguments):
        return [(_kind(first, first), name) for name in rest]
    return [_target(argument) for argument in arguments]


def _target(argument: str) -> Target:
    kind, _, name = argument.partition("/")
    if not kind or not name:
        raise Refusal(f"{argument}: expected KIND/NAME, for example jobset/training")
    return _kind(kind, argument), name


def _kind(word: str, argument: str) -> Resource:
    """A kind by kind, plural or short name, with or without its API group."""
    kind, _, group = word.lower().partition(".")
    for resource in SHOWN:
        known = kind in (resource.singular, resource.plural, *resource.short_names)
        if known and group in ("", resource.group, f"{resource.version}.{resource.group}"):
            return resource
    kinds = ", ".join(resource.singular for resource in SHOWN)
    raise Refusal(f"{argument}: unknown kind {word!r}; use one of {kinds}")
