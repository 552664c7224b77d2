"""The two authorizers: everything for every authenticated user, or what roles and bindings grant.

    AllowAll  the default of a plane on a loopback address: who has a credential may do everything
    Rbac      Roles, ClusterRoles and their bindings; system:masters may do everything

Both are functions of the attributes and, for RBAC, of the current objects.  What a user is granted in a namespace is
kept until a role or a binding changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..admission.reader import Reader
from ..objects.selectors import LabelSelector
from ..scheme import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Object
from .attributes import AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, AccessDecision, Attributes, Rule, User

#: Binding, matching subject, rules.
_Grant = tuple[Object, Rule, Sequence[Rule]]
_RBAC_KINDS = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)
#: Users and namespaces for which grants are kept at a time.
_MOST_KEPT = 1_000
_EVERYTHING: tuple[Object, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_PUBLIC: Object = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}
_PUBLIC_BELOW = ("/healthz/", "/livez/", "/readyz/")


class AllowAll:
    """Every authenticated user may do everything; others may read health and version."""

    def decide(self, attributes: Attributes) -> AccessDecision:
        if AUTHENTICATED in attributes.user.groups:
            return AccessDecision(True)
        public = attributes.path and (
            allows(_PUBLIC, attributes) or (attributes.verb == "get" and attributes.path.startswith(_PUBLIC_BELOW))
        )
        return AccessDecision(bool(public))

    def rules(self, user: User, namespace: str) -> list[Object]:
        return list(_EVERYTHING) if AUTHENTICATED in user.groups else [_PUBLIC]

    def role_rules(self, reference: Rule, namespace: str) -> Sequence[Rule] | None:
        """Roles mean nothing here."""
        return ()


class Rbac:
    """What roles and bindings grant."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        #: By name and groups of a user, and namespace.
        self._kept: dict[tuple[str, tuple[str, ...], str], list[_Grant]] = {}
        #: The state of roles and bindings that they are from.
        self._as_of: tuple[int, ...] = ()

    def decide(self, attributes: Attributes) -> AccessDecision:
        if MASTERS in attributes.user.groups:
            return AccessDecision(True)
        for binding, subject, rules in self._grants(attributes.user, attributes.namespace):
            if any(allows(rule, attributes) for rule in rules):
                return AccessDecision(True, f"RBAC: allowed by {_described(binding, subject)}")
        return AccessDecision(False)

    def rules(self, user: User, namespace: str) -> list[Object]:
        if MASTERS in user.groups:
            return list(_EVERYTHING)
        return [dict(rule) for _, _, rules in self._grants(user, namespace) for rule in rules]

    def _grants(self, user: User, namespace: str) -> Sequence[_Grant]:
        """What a user is granted, cluster-wide first."""
        as_of = tuple(map(self._reader.changes, _RBAC_KINDS))
        if as_of != self._as_of or len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
            self._as_of = as_of
        key = (user.name, user.groups, namespace)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = list(self._read_grants(user, namespace))
        return found

    def _read_grants(self, user: User, namespace: str) -> Iterator[_Grant]:
        bindings: Iterable[Object] = self._reader.list(CLUSTER_ROLE_BINDINGS)
        yield from self._matching(bindings, user, "")
        if namespace:
            yield from self._matching(self._reader.list(ROLE_BINDINGS, namespace), user, namespace)

    def _matching(self, bindings: Iterable[Object], user: User, namespace: str) -> Iterator[_Grant]:
        for binding in bindings:
            subject = next((one for one in binding.get("subjects") or () if _is(one, user, namespace)), None)
            if subject is not None:
                yield binding, subject, self.role_rules(binding["roleRef"], namespace) or ()

    def role_rules(self, reference: Rule, namespace: str) -> Sequence[Rule] | None:
        if reference["kind"] == ROLES.kind:
            role = self._reader.get(ROLES, reference["name"], namespace)
            return None if role is None else role.get("rules") or ()
        found = self._reader.get(CLUSTER_ROLES, reference["name"])
        return list(self._with_aggregated(found)) if found else None

    def _with_aggregated(self, role: Object) -> Iterator[Rule]:
        """The rules of a ClusterRole and of all that it aggregates, each role once."""
        waiting, seen = [role], {role["metadata"]["name"]}
        while waiting:
            current = waiting.pop()
            yield from current.get("rules") or ()
            selectors = (current.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
            wanted = [LabelSelector.from_object(selector) for selector in selectors]
            for other in self._reader.list(CLUSTER_ROLES) if wanted else ():
                metadata = other["metadata"]
                if metadata["name"] not in seen and any(one.matches(metadata.get("labels")) for one in wanted):
                    seen.add(metadata["name"])
                    waiting.append(other)


def _is(subject: Rule, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    home = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"{SERVICE_ACCOUNT_PREFIX}{home}:{name}"


def _described(binding: Object, subject: Rule) -> str:
    reference, metadata = binding["roleRef"], binding["metadata"]
    space = metadata.get("namespace", "")
    name = f"{metadata['name']}/{space}" if space else metadata["name"]
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or space}"
    kind = ROLE_BINDINGS.kind if space else CLUSTER_ROLE_BINDINGS.kind
    return f'{kind} "{name}" of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{who}"'


def allows(rule: Rule, attributes: Attributes) -> bool:
    """Whether one PolicyRule allows a request."""
    if not _among(rule.get("verbs"), attributes.verb):
        return False
    if attributes.path:
        return any(_path_matches(url, attributes.path) for url in rule.get("nonResourceURLs") or ())
    if not _among(rule.get("apiGroups"), attributes.group) or not _resource_matches(rule, attributes):
        return False
    names = rule.get("resourceNames")
    return not names or attributes.name in names


def _among(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _resource_matches(rule: Rule, attributes: Attributes) -> bool:
    resources = rule.get("resources") or ()
    if not attributes.subresource:
        return "*" in resources or attributes.resource in resources
    combined = f"{attributes.resource}/{attributes.subresource}"
    return "*" in resources or combined in resources or f"*/{attributes.subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))
