"""How commands fail: one line on standard error and an exit code."""

from __future__ import annotations

from typing import IO, Any

import click

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_BLOCKED = 3
EXIT_INTERRUPTED = 130


class Refusal(click.ClickException):
    """Bad input or a failed start: one line, exit code 2."""

    exit_code = EXIT_BAD_INPUT

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"echelon: {self.format_message()}", file=file, err=file is None)
