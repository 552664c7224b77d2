"""The names of topology domains in messages."""

from __future__ import annotations

from collections.abc import Sequence

_SEPARATORS = ("-", ".", "_", "/", ":")


def spoken(path: Sequence[str]) -> str:
    """A path of domain names, `b0/r1`; a parent is left out where its child's name repeats it: `b0`, `b0-r1`.

    A name repeats its parent's only up to a separator: `z1` is no part of `z10-r1`, nor `1` of `10`.
    """
    pairs = zip(path, (*path[1:], ""), strict=False)
    return "/".join(name for name, inner in pairs if name and not _repeats(inner, name))


def _repeats(inner: str, outer: str) -> bool:
    return inner.startswith(outer) and inner[len(outer) :].startswith(_SEPARATORS)
