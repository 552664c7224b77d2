"""Flags of `echelon scheduler` and `echelon controllers`, made from the rows of `base.program_options`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ...base.program_options import Option, ProgramOptions
from ..failures import Refusal

if TYPE_CHECKING:
    from ...runtime.operations.live_configuration import LiveConfiguration

F = TypeVar("F", bound=Callable[..., Any])


def program_options(program: ProgramOptions) -> Callable[[F], F]:
    """Add `--config` and a flag for every row; the command gets them as keywords."""

    def add(command: F) -> F:
        for option in reversed(program.options):
            command = _flag(option)(command)
        return click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            help=f"A file of kind {program.kind}; flags win over it. It is read again when it changes.",
        )(command)

    return add


def configuration(program: ProgramOptions, config: Path | None, given: Mapping[str, Any]) -> LiveConfiguration:
    """What the command was asked to run with; bad input is one line."""
    from ...deploy.configuration import BadConfiguration
    from ...runtime.operations.live_configuration import LiveConfiguration

    context = click.get_current_context()
    flags = {
        option.key: _checked(option, given[_parameter(option)])
        for option in program.options
        if context.get_parameter_source(_parameter(option)) is not ParameterSource.DEFAULT
    }
    verbose = context.find_root().params.get("verbose") or 0
    if verbose:
        flags.setdefault("logLevel", "info" if verbose == 1 else "debug")
    try:
        return LiveConfiguration(program, flags, config)
    except BadConfiguration as error:
        raise Refusal(str(error)) from error


def _flag(option: Option) -> Callable[[F], F]:
    text = f"{option.help}  [default: {option.default_text}]" if option.default_text else option.help
    kinds: dict[str, dict[str, Any]] = {
        "text": {},
        "path": {"type": click.Path(path_type=Path, dir_okay=False)},
        "texts": {"multiple": True},
        "names": {"metavar": "NAMES"},
        "seconds": {"type": click.FloatRange(min=0, min_open=True)},
        "port": {"type": click.IntRange(0, 65535)},
        "switch": {},
        "choice": {"type": click.Choice(list(option.choices))},
    }
    flag = f"{option.flag}/--no-{option.flag[2:]}" if option.form == "switch" else option.flag
    default = ",".join(option.default) if option.form == "names" and option.default else option.default
    shown: dict[str, Any] = {"default": default, "show_default": option.default is not None}
    return click.option(flag, _parameter(option), help=text, **kinds[option.form], **shown)


def _parameter(option: Option) -> str:
    return option.flag[2:].replace("-", "_")


def _checked(option: Option, value: Any) -> Any:
    """The value as a file would give it."""
    from ...deploy.configuration import checked

    if option.form == "names":
        value = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        unknown = [name for name in value if option.choices and name not in option.choices]
        if unknown or not value:
            wrong = f"unknown name {', '.join(unknown)}" if unknown else "no name given"
            known = f"; known are {', '.join(option.choices)}" if option.choices else ""
            raise Refusal(f"{option.flag}: {wrong}{known}")
    if (option.form == "texts" and not all(value)) or value == "":
        raise Refusal(f"{option.flag}: must not be empty")
    try:
        return checked(option, value)
    except ValueError as error:
        raise Refusal(f"{option.flag}: {error}") from error
