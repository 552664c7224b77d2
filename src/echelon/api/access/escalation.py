"""Nobody can grant what they may not do themselves: the checks on Roles, ClusterRoles and their bindings.

    role      its rules must be covered by those of the user, unless the user may `escalate` it
    binding   the rules of its role must be, unless the user may `bind` that role
    both      not for system:masters, and not if only owners and finalizers change

The sentences are those of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from json import dumps

from ..errors import ApiError, not_found
from ..scheme import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Object, Resource
from .attributes import MASTERS, Attributes, Authorizer, Rule, User

KINDS = frozenset((ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS))
_EVERYTHING: tuple[Rule, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_PARTS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
#: Fields of metadata that garbage collection changes, and those that every write changes.
_OF_COLLECTION = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
#: A rule stands for groups × resources × names × verbs; more than this are not told apart.
_MOST_ATOMS = 5_000


@dataclass(frozen=True)
class Granting:
    """A user who writes a role or a binding: its kind, its name and namespace as the request has them."""

    user: User
    authorizer: Authorizer
    resource: Resource
    name: str
    namespace: str

    def may(self, verb: str, resource: Resource, name: str) -> bool:
        asked = Attributes(self.user, verb, resource.group, resource.plural, "", self.namespace, name)
        return self.authorizer.decide(asked).allowed


def check(granting: Granting, new: Object, old: Object | None) -> None:
    """403 if the object would grant more than the user may do; 404 if a binding's role does not exist."""
    if MASTERS in granting.user.groups or (old is not None and _is_collection(new, old)):
        return
    if granting.resource in (ROLES, CLUSTER_ROLES):
        if not granting.may("escalate", granting.resource, granting.name):
            _check_role(granting, new, old)
        return
    reference = new["roleRef"]
    role = ROLES if reference["kind"] == ROLES.kind else CLUSTER_ROLES
    if granting.may("bind", role, reference["name"]):
        return
    rules = granting.authorizer.role_rules(reference, granting.namespace)
    if rules is None:
        # As kube-apiserver says it: the kind of the binding, the name of the role.
        raise not_found(granting.resource, reference["name"])
    _confirm(granting, new, rules)


def _check_role(granting: Granting, new: Object, old: Object | None) -> None:
    _confirm(granting, new, new.get("rules") or ())
    if (_aggregates(new) or _aggregates(old or {})) and _missing(granting, _EVERYTHING):
        raise _forbidden(granting, new, "must have cluster-admin privileges to use the aggregationRule")


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_collection(new: Object, old: Object) -> bool:
    return _without_collection(new) == _without_collection(old)


def _without_collection(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in _OF_COLLECTION}}


def _confirm(granting: Granting, obj: Object, rules: Sequence[Rule]) -> None:
    missing = _missing(granting, rules)
    if missing:
        lines = "\n".join(sorted({_shown(rule) for rule in _compact(missing)}))
        user = granting.user
        who = f"user {_quoted(user.name)} (groups={_shown_list(user.groups)})"
        raise _forbidden(granting, obj, f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}")


def _forbidden(granting: Granting, obj: Object, reason: str) -> ApiError:
    resource, name = granting.resource, obj["metadata"].get("name", "")
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return ApiError(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {reason}', details)


# -- covering ------------------------------------------------------------------------------------------------


class _Held:
    """One rule of the user."""

    def __init__(self, rule: Rule) -> None:
        self._verbs, self._groups, self._resources, self._names = (
            frozenset(rule.get(part) or ()) for part in ("verbs", "apiGroups", "resources", "resourceNames")
        )
        self._urls: Sequence[str] = rule.get("nonResourceURLs") or ()

    def covers(self, rule: Rule) -> bool:
        """Whether this rule alone grants all of another."""
        names = rule.get("resourceNames") or ()
        return (
            _has_all(self._verbs, rule.get("verbs") or ())
            and _has_all(self._groups, rule.get("apiGroups") or ())
            and all(map(self._covers_resource, rule.get("resources") or ()))
            and (not self._names or (bool(names) and self._names.issuperset(names)))
            and all(map(self._covers_url, rule.get("nonResourceURLs") or ()))
        )

    def _covers_resource(self, resource: str) -> bool:
        if "*" in self._resources or resource in self._resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self._resources

    def _covers_url(self, url: str) -> bool:
        return any(url == own or (own.endswith("*") and url.startswith(own.rstrip("*"))) for own in self._urls)


def _has_all(held: frozenset[str], wanted: Iterable[str]) -> bool:
    return "*" in held or held.issuperset(wanted)


def _missing(granting: Granting, rules: Sequence[Rule]) -> list[Rule]:
    """What of the rules the user does not hold."""
    held = [_Held(rule) for rule in granting.authorizer.rules(granting.user, granting.namespace)]
    missing: list[Rule] = []
    for rule in rules:
        if any(own.covers(rule) for own in held):
            continue
        atoms = list(_atoms(rule)) if _size(rule) <= _MOST_ATOMS else [rule]
        missing += [atom for atom in atoms if not any(own.covers(atom) for own in held)]
    return missing


def _size(rule: Rule) -> int:
    groups, resources, urls, names, verbs = (len(rule.get(part) or ()) for part in _PARTS)
    return (groups * resources * max(1, names) + urls) * verbs


def _atoms(rule: Rule) -> Iterator[Rule]:
    """Rules with one verb on one resource or path, which together are the rule."""
    groups, resources, urls, names, verbs = (rule.get(part) or () for part in _PARTS)
    for group, resource, verb in product(groups, resources, verbs):
        one = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        yield from ({**one, "resourceNames": [name]} for name in names) if names else (one,)
    for url, verb in product(urls, verbs):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


# -- words ---------------------------------------------------------------------------------------------------


def _compact(atoms: Iterable[Rule]) -> list[Rule]:
    """Atoms that differ in their verb alone as one rule; those of paths as they are."""
    found: list[Rule] = []
    verbs: dict[tuple[str, ...], list[str]] = {}
    for atom in atoms:
        if atom.get("nonResourceURLs") or any(len(atom.get(part) or ()) > 1 for part in _PARTS[:4]):
            found.append(atom)
            continue
        key = (*atom["apiGroups"], *atom["resources"], *(atom.get("resourceNames") or ()))
        if key not in verbs:
            verbs[key] = []
            found.append({**atom, "verbs": verbs[key]})
        verbs[key] += atom["verbs"]
    return found


def _shown(rule: Rule) -> str:
    titles = ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs")
    parts = [f"{title}:{_shown_list(rule[part])}" for title, part in zip(titles, _PARTS, strict=True) if rule.get(part)]
    return "{" + ", ".join(parts) + "}"


def _shown_list(values: Iterable[str]) -> str:
    return f"[{' '.join(map(_quoted, values))}]"


def _quoted(text: str) -> str:
    return dumps(text, ensure_ascii=False)
