"""Query strings as options, and a real server's refusals of those that make no sense."""

from __future__ import annotations

import pytest

from echelon.api.errors import ApiError
from echelon.api.verbs import DeleteOptions, ListOptions
from echelon.server.http.requests.body_records import DeleteBody, Preconditions
from echelon.server.http.requests.query_options import delete_options, list_options, watch_options, write_options

from .asgi import request


def test_list_options_are_read_and_unknown_parameters_ignored() -> None:
    asked = request(target="/?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&timeout=32s&pretty=true")
    expected = ListOptions(label_selector="a=b", field_selector="metadata.name=x", limit=5)
    assert list_options(asked) == expected


def test_limit_below_one_means_no_limit() -> None:
    assert list_options(request(target="/?limit=-3")).limit == 0


@pytest.mark.conformance("API-34")
def test_initial_events_are_for_watches_only() -> None:
    with pytest.raises(ApiError) as refused:
        list_options(request(target="/?sendInitialEvents=true"))
    assert refused.value.code == 422
    assert refused.value.message.startswith('ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden')


def test_limit_that_is_no_number_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as refused:
        list_options(request(target="/?limit=many"))
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def test_watch_options_are_read() -> None:
    asked = request(target="/?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1")
    options = watch_options(asked, 60)
    assert (options.send_initial_events, options.allow_bookmarks, options.timeout_seconds) == (True, True, 60)
    assert watch_options(request(target="/?timeoutSeconds=2"), 60).timeout_seconds == 2


@pytest.mark.conformance("API-38")
@pytest.mark.parametrize(
    ("query", "value"),
    [("watch=1", True), ("watch=True", True), ("watch", True), ("watch=0", False), ("watch=False", False), ("", False)],
)
def test_flags_are_true_unless_they_say_no(query: str, value: bool) -> None:
    assert request(target=f"/?{query}").flag("watch") is value


def test_write_options_default_to_the_client_and_to_warnings() -> None:
    heard: list[str] = []
    asked = request(target="/?dryRun=All", headers={"User-Agent": "kubectl/v1.37 (linux)"})
    options = write_options(asked, "CreateOptions", heard.append)
    assert (options.dry_run, options.field_validation, options.field_manager) == (True, "Warn", "kubectl")
    options.warn("careful")
    assert heard == ["careful"]


@pytest.mark.parametrize("query", ["dryRun=Some", "fieldValidation=Maybe"])
def test_unknown_write_options_are_invalid(query: str) -> None:
    with pytest.raises(ApiError) as refused:
        write_options(request(target=f"/?{query}"), "PatchOptions", print)
    assert refused.value.message.startswith('PatchOptions.meta.k8s.io "" is invalid: ')


@pytest.mark.conformance("API-80")
def test_delete_options_come_from_the_body_or_from_the_query() -> None:
    body = DeleteBody("Foreground", grace_period_seconds=3, preconditions=Preconditions("u"))
    expected = DeleteOptions(propagation="Foreground", grace_period_seconds=3, uid="u")
    assert delete_options(request(), body) == (expected, None)
    asked = request(target="/?propagationPolicy=Foreground&gracePeriodSeconds=3")
    assert delete_options(asked, None) == (DeleteOptions(propagation="Foreground", grace_period_seconds=3), None)


@pytest.mark.parametrize(("orphan", "policy"), [(True, "Orphan"), (False, "Background")])
def test_orphan_dependents_is_an_old_name_for_a_policy(orphan: bool, policy: str) -> None:
    options, given = delete_options(request(), DeleteBody(orphan_dependents=orphan))
    assert (options.propagation, given) == (policy, orphan)


@pytest.mark.conformance("API-76")
def test_orphan_dependents_together_with_a_policy_is_invalid() -> None:
    with pytest.raises(ApiError) as refused:
        delete_options(request(), DeleteBody("Orphan", orphan_dependents=True))
    assert refused.value.code == 422
