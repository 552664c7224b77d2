"""Formats of names, label keys and label values, with the messages of Kubernetes for invalid ones.

Every check returns a list of messages, empty if the text is valid; callers turn each into a `FieldError` with their own
field path.
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_DNS1035_RE = re.compile(_DNS1035)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_VALUE_RE = re.compile(_VALUE)

_LABEL_SENTENCE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_SUBDOMAIN_SENTENCE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_DNS1035_SENTENCE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_DNS1035}')"
)
_QUALIFIED_SENTENCE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_SENTENCE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_PREFIXED_SENTENCE = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def _check(text: str, limit: int, pattern: re.Pattern[str], sentence: str) -> list[str]:
    messages = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
    if pattern.fullmatch(text) is None:
        messages.append(sentence)
    return messages


def path_segment(text: str) -> list[str]:
    """A name that can stand alone in a URL path: roles and bindings."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def dns1123_label(text: str) -> list[str]:
    """Namespaces, containers, template names: `my-name`, at most 63 characters."""
    return _check(text, 63, _LABEL_RE, _LABEL_SENTENCE)


def dns1123_subdomain(text: str) -> list[str]:
    """Most object names: labels joined by dots, at most 253 characters."""
    return _check(text, 253, _SUBDOMAIN_RE, _SUBDOMAIN_SENTENCE)


def dns1035_label(text: str) -> list[str]:
    """Services and what becomes part of a host name: a label that begins with a letter."""
    return _check(text, 63, _DNS1035_RE, _DNS1035_SENTENCE)


def qualified_name(text: str) -> list[str]:
    """Label keys, annotation keys, finalizers, condition types: `name` or `example.com/name`."""
    parts = text.split("/")
    if len(parts) > 2:
        return ["a valid label key " + _QUALIFIED_SENTENCE + _PREFIXED_SENTENCE]
    messages: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        problems = ["must be non-empty"] if not prefix else dns1123_subdomain(prefix)
        messages += [f"prefix part {problem}" for problem in problems]
    name = parts[-1]
    if not name:
        return [*messages, "name part must be non-empty", f"name part {_QUALIFIED_SENTENCE}"]
    return messages + [f"name part {problem}" for problem in _check(name, 63, _QUALIFIED_RE, _QUALIFIED_SENTENCE)]


def label_key(text: str) -> list[str]:
    return qualified_name(text)


def label_value(text: str) -> list[str]:
    return _check(text, 63, _VALUE_RE, _VALUE_SENTENCE)
