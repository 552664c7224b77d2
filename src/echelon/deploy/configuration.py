"""Config files of the programs: read and checked against the rows of `base.program_options`.

    apiVersion: config.echelon.dev/v1alpha1
    kind: SchedulerConfiguration
    reserveAfter: 120

Every error has its line and key.  A file says only what differs; the rest are flags and defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from ..api.cluster.topology_levels import completed
from ..base.program_options import API_VERSION, PROGRAMS, Option, ProgramOptions, Values
from ..base.yaml_lines import YamlFile, suggestion

_HEAD = ("apiVersion", "kind")
#: What a value must be beyond its form; returns it as programs take it, or raises a ValueError.
_CHECKS: Mapping[str, Callable[[Any], Any]] = {"topologyLevels": completed}
_TRUTH = {"true": True, "false": False}
_MOST_PORT = 65535


class BadConfiguration(ValueError):
    """The file is invalid; the message is for the user."""


def read(text: str, source: str, program: ProgramOptions, *, installed: bool = False) -> dict[str, Any]:
    """What a file says, by key; one that is `installed` must not say what the installation decides."""
    file = _ConfigFile(source, BadConfiguration)
    root = file.root(text)
    if root is None:
        raise BadConfiguration(f"{source}: empty file: must begin with apiVersion: {API_VERSION}")
    return file.values(root, program, installed=installed)


def kind_of(text: str, source: str) -> str:
    """The program whose file this is."""
    file = YamlFile(source, BadConfiguration)
    root = file.root(text)
    kinds = {program.kind: name for name, program in PROGRAMS.items()}
    node = file.mapping(root, "", required=_HEAD)["kind"] if root is not None else None
    if node is None:
        raise BadConfiguration(f"{source}: empty file: must begin with apiVersion: {API_VERSION}")
    kind = file.text(node, "kind")
    if kind not in kinds:
        file.fail(node, "kind", f"{kind!r} must be one of {', '.join(kinds)}")
    return kinds[kind]


def checked(option: Option, value: Any) -> Any:
    """The value as the program takes it; ValueError says what is wrong with it."""
    check = _CHECKS.get(option.key)
    return check(value) if check is not None else value


def merged(program: ProgramOptions, file: Mapping[str, Any], flags: Mapping[str, Any]) -> Values:
    """Flags win over the file, the file over defaults."""
    return {**program.defaults, **file, **flags}


def changed(program: ProgramOptions, old: Values, new: Values) -> tuple[list[str], list[str]]:
    """The keys whose values differ: those that can be applied at run time, and those that need a restart."""
    differ = [option for option in program.options if old[option.key] != new[option.key]]
    return [one.key for one in differ if one.live], [one.key for one in differ if not one.live]


class _ConfigFile(YamlFile):
    def values(self, root: yaml.Node, program: ProgramOptions, *, installed: bool) -> dict[str, Any]:
        options = program.by_key
        found = self.mapping(root, "", (*_HEAD, *options), required=_HEAD)
        for key, wanted in zip(_HEAD, (API_VERSION, program.kind), strict=True):
            said = self.text(found[key], key)
            if said != wanted:
                self.fail(found[key], key, f"{said!r} must be {wanted}")
            del found[key]
        for key, node in found.items():
            if installed and options[key].set_by:
                self.fail(node, key, f"not in the file of an installation: {options[key].set_by} decides it")
        return {key: self._value(node, options[key]) for key, node in found.items()}

    def _value(self, node: yaml.Node, option: Option) -> Any:
        readers: Mapping[str, Callable[[yaml.Node, Option], Any]] = {
            "text": self._plain,
            "path": self._plain,
            "texts": self._list,
            "names": self._list,
            "seconds": self._seconds,
            "port": self._port,
            "switch": self._switch,
            "choice": self._choice,
        }
        return readers[option.form](node, option)

    def _plain(self, node: yaml.Node, option: Option) -> str:
        text = self.text(node, option.key)
        if not text:
            self.fail(node, option.key, "must not be empty")
        return text

    def _list(self, node: yaml.Node, option: Option) -> tuple[str, ...]:
        found = []
        for number, entry in enumerate(self.sequence(node, option.key)):
            path = f"{option.key}[{number}]"
            text = self.text(entry, path)
            if not text:
                self.fail(entry, path, "must not be empty")
            if option.choices and text not in option.choices:
                self.fail(entry, path, f"unknown name {text!r}{suggestion(text, option.choices)}")
            found.append(text)
        if not found:
            self.fail(node, option.key, "must have at least one entry")
        try:
            return tuple(checked(option, found))
        except ValueError as error:
            self.fail(node, option.key, str(error))

    def _seconds(self, node: yaml.Node, option: Option) -> float:
        text = self.text(node, option.key)
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not (seconds > 0 and math.isfinite(seconds)):
            self.fail(node, option.key, f"{text!r} must be a number of seconds greater than 0")
        return seconds

    def _port(self, node: yaml.Node, option: Option) -> int:
        text = self.text(node, option.key)
        if not text.isdecimal() or int(text) > _MOST_PORT:
            self.fail(node, option.key, f"{text!r} must be an integer from 0 to {_MOST_PORT}")
        return int(text)

    def _switch(self, node: yaml.Node, option: Option) -> bool:
        text = self.text(node, option.key)
        if text not in _TRUTH:
            self.fail(node, option.key, f"{text!r} must be true or false")
        return _TRUTH[text]

    def _choice(self, node: yaml.Node, option: Option) -> str:
        text = self.text(node, option.key)
        if text not in option.choices:
            self.fail(node, option.key, f"{text!r} must be one of {', '.join(option.choices)}")
        return text
