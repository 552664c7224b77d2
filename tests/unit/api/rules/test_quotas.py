"""ResourceQuota and LimitRange: what is refused, with the words of a real server, and what is filled in."""

from __future__ import annotations

import pytest

from echelon.api.scheme import LIMIT_RANGES, RESOURCE_QUOTAS, Object

from .builders import edited, on_create, on_update, stored

METADATA = {"name": "x", "namespace": "ns", "uid": "u"}


def quota(hard: Object | None = None, **spec: object) -> Object:
    return {"metadata": dict(METADATA), "spec": {"hard": {"pods": "1"} if hard is None else hard, **spec}}


def limits(*found: Object) -> Object:
    return {"metadata": dict(METADATA), "spec": {"limits": list(found)}}


def selecting(scope: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (
            quota({"pods": "-1"}),
            'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (quota({"pods": "1500m"}), 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
        (quota({"a.b/c": "1500m"}), 'spec.hard[a.b/c]: Invalid value: "1500m": must be an integer'),
        (quota({"a/": "1"}), 'spec.hard[a/]: Invalid value: "a/": name part must be non-empty'),
        (
            quota({"storage": "1"}),
            'spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota',
        ),
        (quota(scopes=["Often"]), 'spec.scopes: Invalid value: ["Often"]: unsupported scope'),
        (
            quota({"services": "1"}, scopes=["Terminating"]),
            'spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource',
        ),
        (
            quota({"cpu": "1"}, scopes=["BestEffort"]),
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
        (
            quota(scopes=["Terminating", "NotTerminating"]),
            'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes',
        ),
        (
            quota(scopeSelector=selecting("PriorityClass", "In")),
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is "
            "'In' or 'NotIn' for scope selector",
        ),
        (
            quota(scopeSelector=selecting("PriorityClass", "Exists", "a")),
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        (quota(scopeSelector=selecting("PriorityClass", "Like")), "not a valid selector operator"),
        (
            quota(scopeSelector=selecting("Terminating", "DoesNotExist")),
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating",
        ),
    ],
)
def test_a_bad_quota_is_refused(obj: Object, sentence: str) -> None:
    problems = on_create(RESOURCE_QUOTAS, obj)
    assert any(sentence in problem for problem in problems), problems


def test_an_unknown_plain_name_is_neither_a_standard_resource_nor_one_for_quota() -> None:
    assert on_create(RESOURCE_QUOTAS, quota({"apples": "1"})) == [
        'spec.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified',
        'spec.hard[apples]: Invalid value: "apples": must be a standard resource for quota',
    ]


@pytest.mark.parametrize(
    "obj",
    [
        quota({"count/jobs.batch": "5", "requests.nvidia.com/gpu": "8", "requests.storage": "1Gi", "limits.cpu": "1"}),
        quota({"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}),
        quota({"pods": "5", "requests.cpu": "1"}, scopes=["NotBestEffort", "NotTerminating"]),
        quota(scopeSelector=selecting("PriorityClass", "In", "high")),
        quota({"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}),
    ],
)
def test_a_good_quota_is_accepted(obj: Object) -> None:
    assert on_create(RESOURCE_QUOTAS, obj) == []


def test_the_scopes_of_a_quota_never_change() -> None:
    old = stored(RESOURCE_QUOTAS, quota(scopes=["Terminating"]))
    new = edited(old, "spec.scopes", ["NotTerminating"])
    assert on_update(RESOURCE_QUOTAS, new, old) == [
        'spec.scopes: Invalid value: ["NotTerminating"]: field is immutable'
    ]
    assert on_update(RESOURCE_QUOTAS, edited(old, "spec.hard", {"pods": "9"}), old) == []


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"type": "Often"}, 'spec.limits[0].type: Invalid value: "Often": must be a standard limit type or fully'),
        (
            {"type": "Pod", "default": {"cpu": "1"}},
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            {"type": "PersistentVolumeClaim", "maxLimitRequestRatio": {"storage": "2"}},
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required",
        ),
        (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            'defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1',
        ),
        (
            {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            'spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1',
        ),
        (
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}},
            "default request value 2 is greater than default limit value 1",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "800m"}},
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "800m": ratio 800m is less than 1',
        ),
        (
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "3"}, "maxLimitRequestRatio": {"cpu": "4"}},
            "ratio 4 is greater than max/min = 3.000000",
        ),
        (
            {"type": "Container", "default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}},
            "default value 2 must equal to defaultRequest value 1 in a.b/c",
        ),
        ({"type": "Container", "max": {"pods": "1"}}, "must be a standard resource for containers"),
    ],
)
def test_a_bad_limit_range_is_refused(item: Object, sentence: str) -> None:
    problems = on_create(LIMIT_RANGES, stored(LIMIT_RANGES, limits(item)))
    assert any(sentence in problem for problem in problems), problems


def test_a_type_of_limits_occurs_once() -> None:
    problems = on_create(LIMIT_RANGES, stored(LIMIT_RANGES, limits({"type": "Pod"}, {"type": "Pod"})))
    assert problems == ['spec.limits[1].type: Duplicate value: "Pod"']


def test_limits_of_containers_fill_their_defaults_from_one_another() -> None:
    made = stored(
        LIMIT_RANGES,
        limits({"type": "Container", "max": {"cpu": "4", "memory": "1Gi"}, "min": {"ephemeral-storage": "1"}}),
    )
    assert made["spec"]["limits"][0] == {
        "type": "Container",
        "max": {"cpu": "4", "memory": "1Gi"},
        "min": {"ephemeral-storage": "1"},
        "default": {"cpu": "4", "memory": "1Gi"},
        "defaultRequest": {"cpu": "4", "memory": "1Gi", "ephemeral-storage": "1"},
    }
