"""Reading into a JSON tree that is being built or copied: what is absent, null or of another shape reads as empty."""

from __future__ import annotations

from typing import Any


def mapping(tree: Any, *path: str) -> dict[str, Any]:
    """The object at a path."""
    found = _at(tree, path)
    return found if isinstance(found, dict) else {}


def items(tree: Any, *path: str) -> list[Any]:
    """The list at a path."""
    found = _at(tree, path)
    return found if isinstance(found, list) else []


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree
