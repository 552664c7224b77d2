"""Formats of names as CEL conditions, the same as in `api.objects.name_formats`.

Each takes a CEL expression of a text and returns one that is true if the text has the format.
"""

from __future__ import annotations

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def _matches(text: str, pattern: str) -> str:
    return f"{text}.matches(r'^{pattern}$')"


def dns1035_label(text: str) -> str:
    """Begins with a letter, at most 63 characters."""
    return _matches(text, "[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def dns1123_label(text: str) -> str:
    return _matches(text, "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def dns1123_subdomain(text: str) -> str:
    return f"(size({text}) <= 253 && {_matches(text, _SUBDOMAIN)})"


def label_key(text: str) -> str:
    """Optional DNS prefix of at most 253 characters, slash, name of at most 63."""
    return f"({text}.indexOf('/') <= 253 && {_matches(text, f'({_SUBDOMAIN}/)?{_NAME}')})"


def label_value(text: str) -> str:
    return _matches(text, f"({_NAME})?")


def domain_prefixed_path(text: str) -> str:
    return f"({text}.indexOf('/') <= 253 && {_matches(text, f'{_SUBDOMAIN}/(?s:.+)')})"
