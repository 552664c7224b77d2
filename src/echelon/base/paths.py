"""Domains as people call them."""

from __future__ import annotations

from collections.abc import Sequence


def spoken(path: Sequence[str]) -> str:
    """A path of domain names, `b0/r1`; a name that begins with its parent's need not be preceded by it."""
    pairs = zip(path, (*path[1:], ""), strict=False)
    return "/".join(name for name, inner in pairs if name and not inner.startswith(name))
