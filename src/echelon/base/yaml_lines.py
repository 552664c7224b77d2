"""Reading YAML files of ours so that every error has its line and key.

The YAML is read as nodes, not as values, because only nodes have line numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import NoReturn

import yaml

_NULL = "tag:yaml.org,2002:null"


class YamlFile:
    """One file and the exception that its errors are raised as; messages begin with file and line."""

    def __init__(self, source: str, error: type[Exception]) -> None:
        self._source = source
        self._error = error

    def root(self, text: str) -> yaml.Node | None:
        """The top of the file, None if it is empty."""
        try:
            found: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._error(f"{self._source}:{line}: not YAML: {error.problem}") from error
        except yaml.YAMLError as error:
            raise self._error(f"{self._source}: not YAML: {error}") from error
        return found

    def mapping(
        self, node: yaml.Node, path: str, allowed: Collection[str] | None = None, required: Collection[str] = ()
    ) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, path, "must be a mapping of keys to values")
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self.text(key_node, path)
            if key in found:
                self.fail(key_node, path, f"duplicate key {key!r}")
            if allowed is not None and key not in allowed:
                self.fail(key_node, path, f"unknown key {key!r}{suggestion(key, allowed)}")
            found[key] = value
        for key in required:
            if key not in found:
                self.fail(node, path, f"missing key {key!r}")
        return found

    def sequence(self, node: yaml.Node, path: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, path, "must be a list")
        return list(node.value)

    def text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL:
            self.fail(node, path, "must be a string or a number")
        return str(node.value)

    def fail(self, node: yaml.Node, path: str, message: str) -> NoReturn:
        where = f" {path}:" if path else ""
        raise self._error(f"{self._source}:{node.start_mark.line + 1}:{where} {message}")


def suggestion(key: str, allowed: Collection[str]) -> str:
    """What may have been meant by an unknown key."""
    close = get_close_matches(key, allowed, n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(allowed)}"
