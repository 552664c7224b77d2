"""Label and field selectors, as lists, watches, Services, Jobs and PodDisruptionBudgets use them.

The text form (`app in (a, b), !old, tier!=web`) and the object form (`matchLabels`, `matchExpressions`) become the same
requirements.  Field selectors know the selectable fields of each kind; any other field is a 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from .. import errors
from ..scheme import EVENTS_V1, Object, Resource
from . import event_forms, name_formats

#: A selector is compared with every object of a list and every event of a watch, so its number of terms is bounded; the
#: values of an `in` are not counted.
MOST_REQUIREMENTS = 250

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_TOKEN = re.compile(r"\s*(!=|==|=|!|,|\(|\)|[^\s!=,()]+)\s*")


class LabelRequirement(msgspec.Struct, frozen=True):
    """One condition on one label; a struct, because a selector can have tens of thousands."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            # An absent label matches NotIn.
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator == "Exists")


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without requirements everything matches, unless the selector was null."""

    requirements: tuple[LabelRequirement, ...] = ()
    #: A null selector selects nothing, an empty one (`{}`) everything.
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether every object matches."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or {}
        return not self.nothing and all(one.matches(present) for one in self.requirements)

    @staticmethod
    def parse(text: str) -> LabelSelector:
        """The selector of a query string; `ApiError` 400 if it cannot be parsed."""
        return LabelSelector(tuple(_LabelParser(text).requirements())) if text.strip() else LabelSelector()

    @staticmethod
    def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
        """`metav1.LabelSelector`; an unknown operator is an `ApiError` 400."""
        if selector is None:
            return LabelSelector(nothing=True)
        found = [
            LabelRequirement(key, "In", frozenset((value,)))
            for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        for expression in selector.get("matchExpressions") or ():
            operator = expression.get("operator")
            if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
                raise errors.bad_request(f'"{operator}" is not a valid label selector operator')
            found.append(
                LabelRequirement(str(expression.get("key", "")), operator, frozenset(expression.get("values") or ()))
            )
        return LabelSelector(tuple(found))


class _LabelParser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise errors.bad_request(f"unable to parse requirement: unexpected character at {text[position:]!r}")
            self._tokens.append(token.group(1))
            position = token.end()
        self._next = 0

    def requirements(self) -> list[LabelRequirement]:
        found = [self._requirement()]
        while self._peek():
            self._expect(",")
            found.append(self._requirement())
        _check_number(len(found))
        return found

    def _requirement(self) -> LabelRequirement:
        if self._peek() == "!":
            self._take()
            return LabelRequirement(self._key(), "DoesNotExist")
        key = self._key()
        operator = self._peek()
        if operator in ("", ","):
            return LabelRequirement(key, "Exists")
        self._take()
        if operator in ("=", "=="):
            return LabelRequirement(key, "In", frozenset((self._value(key),)))
        if operator == "!=":
            return LabelRequirement(key, "NotIn", frozenset((self._value(key),)))
        if operator in ("in", "notin"):
            return LabelRequirement(key, "In" if operator == "in" else "NotIn", self._set(key))
        raise errors.bad_request(
            f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, ',' or the end"
        )

    def _key(self) -> str:
        key = self._take()
        if messages := name_formats.label_key(key):
            raise errors.bad_request(
                f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(messages)}'
            )
        return key

    def _value(self, key: str) -> str:
        value = "" if self._peek() in ("", ",", ")") else self._take()
        if messages := name_formats.label_value(value):
            text = "; ".join(messages)
            raise errors.bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {text}')
        return value

    def _set(self, key: str) -> frozenset[str]:
        self._expect("(")
        values = [self._value(key)]
        while self._peek() == ",":
            self._take()
            values.append(self._value(key))
        self._expect(")")
        return frozenset(values)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, wanted: str) -> None:
        found = self._take()
        if found != wanted:
            raise errors.bad_request(f"unable to parse requirement: found '{found}', expected: '{wanted}'")


def selector_text(selector: Mapping[str, Any]) -> str:
    """The text form of a selector in object form, its requirements by key."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [(one["key"], _expression_text(one)) for one in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms))


def _expression_text(expression: Mapping[str, Any]) -> str:
    key, operator = str(expression["key"]), expression["operator"]
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(expression.get('values') or ()))})"


@dataclass(frozen=True, slots=True)
class FieldTerm:
    field: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Equalities and inequalities on the fields of a kind; all must hold."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(term.field, "") == term.value) == term.equal for term in self.terms)

    def required(self, field: str) -> str | None:
        """The value that the selector requires of this field, if any; for index lookups."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    @staticmethod
    def parse(text: str, resource: Resource) -> FieldSelector:
        """The selector of a query string; `ApiError` 400 if it cannot be parsed or names an unknown field."""
        known = _known_fields(resource)
        terms = tuple(_field_term(part) for part in _split_terms(text) if part.strip())
        for term in terms:
            if term.field not in known:
                raise errors.bad_request(_unknown_field(resource, term.field))
        if resource is EVENTS_V1:
            terms = tuple(FieldTerm(event_forms.FIELD_LABELS[one.field], one.value, one.equal) for one in terms)
        _check_number(len(terms))
        return FieldSelector(terms)


def _check_number(requirements: int) -> None:
    if requirements > MOST_REQUIREMENTS:
        raise errors.bad_request(f"the selector has {requirements} requirements: limit is {MOST_REQUIREMENTS}")


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped by a backslash."""
    return re.findall(r"(?:\\.|[^,\\])+", text)


def _field_term(text: str) -> FieldTerm:
    found = re.fullmatch(r"\s*([^=!\s]+)\s*(!=|==|=)\s*(.*?)\s*", text, re.DOTALL)
    if found is None:
        raise errors.bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    field, operator, value = found.groups()
    return FieldTerm(field, re.sub(r"\\([\\,=])", r"\1", value), operator != "!=")


def _unknown_field(resource: Resource, field: str) -> str:
    if (resource.group, resource.plural) == ("batch", "jobs"):
        return f'field label "{field}" not supported for Job'
    if (resource.group, resource.plural) in _FIELDS or resource is EVENTS_V1 or not resource.builtin:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _text_at(*path: str) -> Callable[[Object], str]:
    *above, last = path

    def read(obj: Object) -> str:
        value: Any = obj
        for part in above:
            value = value.get(part)
            if not value:
                return ""
        value = value.get(last)
        return value if type(value) is str else "" if value is None else str(value)

    return read


def _flag_at(*path: str) -> Callable[[Object], str]:
    text = _text_at(*path)
    return lambda obj: "true" if text(obj) == "True" else "false"


def _number_at(*path: str) -> Callable[[Object], str]:
    text = _text_at(*path)
    return lambda obj: text(obj) or "0"


def _event_source(obj: Object) -> str:
    return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")


_POD_ADDRESS = "status.podIP"
#: Fields that hardly two objects have in common; the others can be kept once for many objects.
OWN_FIELDS = ("metadata.name", "metadata.namespace", _POD_ADDRESS)
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
#: (group, plural) → selectable fields besides metadata.name and metadata.namespace.
_FIELDS: dict[tuple[str, str], dict[str, Callable[[Object], str]]] = {
    ("", "pods"): {
        "spec.nodeName": _text_at("spec", "nodeName"),
        "spec.restartPolicy": _text_at("spec", "restartPolicy"),
        "spec.schedulerName": _text_at("spec", "schedulerName"),
        "spec.serviceAccountName": _text_at("spec", "serviceAccountName"),
        "spec.hostNetwork": _flag_at("spec", "hostNetwork"),
        "status.phase": _text_at("status", "phase"),
        "status.nominatedNodeName": _text_at("status", "nominatedNodeName"),
    },
    ("", "nodes"): {"spec.unschedulable": _flag_at("spec", "unschedulable")},
    ("", "namespaces"): {"status.phase": _text_at("status", "phase")},
    ("", "secrets"): {"type": _text_at("type")},
    ("", "services"): {"spec.clusterIP": _text_at("spec", "clusterIP"), "spec.type": _text_at("spec", "type")},
    ("resource.k8s.io", "resourceslices"): {
        "spec.driver": _text_at("spec", "driver"),
        "spec.nodeName": _text_at("spec", "nodeName"),
    },
    ("batch", "jobs"): {"status.successful": _number_at("status", "succeeded")},
    ("", "events"): {
        **{f"involvedObject.{part}": _text_at("involvedObject", part) for part in _INVOLVED},
        "reason": _text_at("reason"),
        "reportingComponent": _text_at("reportingComponent"),
        "source": _event_source,
        "type": _text_at("type"),
    },
}


def _known_fields(resource: Resource) -> set[str]:
    if resource is EVENTS_V1:
        return set(event_forms.FIELD_LABELS)
    common = {"metadata.name", "metadata.namespace"} if resource.namespaced else {"metadata.name"}
    if resource.custom is not None:
        return common | set(resource.custom.selectable)
    if (resource.group, resource.plural) == ("", "pods"):
        common |= {_POD_ADDRESS}
    return common | set(_FIELDS.get((resource.group, resource.plural), ()))


def custom_fields_of(paths: Iterable[str], obj: Object) -> dict[str, str]:
    """The values of the selectable fields of a custom object, and its name and namespace."""
    metadata = obj["metadata"]
    found = {f"metadata.{part}": str(metadata.get(part, "")) for part in ("name", "namespace")}
    for path in paths:
        value: Any = obj
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        found[path] = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    return found


def fields_of(resource: Resource, obj: Object) -> dict[str, str]:
    """Every selectable field of this kind with the object's value as text, but for `OWN_FIELDS`."""
    return {field: read(obj) for field, read in _FIELDS.get((resource.group, resource.plural), {}).items()}


def own_fields_of(obj: Object) -> dict[str, str]:
    """The values of `OWN_FIELDS`."""
    metadata = obj["metadata"]
    found = {f"metadata.{part}": str(metadata.get(part, "")) for part in ("name", "namespace")}
    return {**found, _POD_ADDRESS: _text_at("status", "podIP")(obj)}
