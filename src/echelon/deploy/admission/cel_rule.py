"""What a policy consists of: rules in CEL, each with the field it is about and the sentence that refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.scheme import Resource


def cel(text: str) -> str:
    """An expression on one line."""
    return " ".join(text.split())


def equal_but(new: str, old: str, names: Sequence[str], more: str = "") -> str:
    """Two maps are equal, fields of these names aside, and those whose name `n` satisfies `more`."""
    aside = f"n in {list(names)}" + (f" || {more}" if more else "")
    kept = f"{new}.all(n, {aside} || (n in {old} && {new}[n] == {old}[n]))"
    return f"{kept} && {old}.all(n, {aside} || n in {new})"


@dataclass(frozen=True)
class CelRule:
    """One thing that holds for every object, else it is refused with `field: detail`."""

    #: As in our own messages; entries of lists without their index.
    field: str
    detail: str
    #: CEL over `object`, `oldObject` and the variables of the policy; total, because an error refuses too.
    holds: str

    @property
    def message(self) -> str:
        return f"{self.field}: {self.detail}"

    def only_if(self, condition: str) -> CelRule:
        return CelRule(self.field, self.detail, f"!({condition}) || ({self.holds})")


@dataclass(frozen=True)
class Variable:
    """A part of an expression that several rules share; it may use those before it."""

    name: str
    value: str


@dataclass(frozen=True)
class RuleSet:
    """The rules of one kind for one operation."""

    #: Distinguishes policies: `jobset-create`.
    name: str
    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    variables: tuple[Variable, ...]
    rules: tuple[CelRule, ...]
    #: The kind whose objects are `params`, each in turn; of the object's own namespace if it has one.
    compared_with: Resource | None = None
    #: What must hold for the rules to be asked.
    conditions: tuple[Variable, ...] = ()
