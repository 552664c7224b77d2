"""How commands fail: one clear line on standard error and the right exit code."""

from __future__ import annotations

from typing import IO, Any

import click

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_BLOCKED = 3
EXIT_INTERRUPTED = 130


class Refusal(click.ClickException):
    """Bad input: said once, nothing half-done."""

    exit_code = EXIT_BAD_INPUT

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"echelon: {self.format_message()}", file=file, err=file is None)
