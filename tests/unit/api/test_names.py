"""Names, label keys and values: what is accepted, and the sentence for what is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from echelon.api.objects import name_formats


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (name_formats.dns1123_label, "my-name"),
        (name_formats.dns1123_label, "1a"),
        (name_formats.dns1123_subdomain, "a.b-c.d"),
        (name_formats.dns1035_label, "a1"),
        (name_formats.qualified_name, "example.com/My_Name.x"),
        (name_formats.qualified_name, "plain"),
        (name_formats.label_value, ""),
        (name_formats.label_value, "a_B.1"),
    ],
)
def test_good_names_pass(check: Callable[[str], list[str]], text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(
    ("check", "text", "sentence"),
    [
        (name_formats.dns1123_label, "a.b", "a lowercase RFC 1123 label must consist of"),
        (name_formats.dns1123_label, "x" * 64, "must be no more than 63 bytes"),
        (name_formats.dns1123_subdomain, "Bad_Name", "a lowercase RFC 1123 subdomain must consist of"),
        (name_formats.dns1123_subdomain, "a\n", "a lowercase RFC 1123 subdomain must consist of"),
        (name_formats.dns1035_label, "1a", "a DNS-1035 label must consist of"),
        (name_formats.qualified_name, "not a key", "name part must consist of alphanumeric characters"),
        (name_formats.qualified_name, "/x", "prefix part must be non-empty"),
        (name_formats.qualified_name, "a/", "name part must be non-empty"),
        (name_formats.qualified_name, "Bad/x", "prefix part a lowercase RFC 1123 subdomain"),
        (name_formats.qualified_name, "a/b/c", "with an optional DNS subdomain prefix"),
        (name_formats.label_value, "-x", "a valid label must be an empty string or consist of"),
    ],
)
def test_bad_names_are_told_the_rule(check: Callable[[str], list[str]], text: str, sentence: str) -> None:
    complaints = check(text)
    assert complaints
    assert sentence in complaints[0]
