"""`echelon completion SHELL`: prints the script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

#: The variable through which a shell asks for completions.
_VARIABLE = "_ECHELON_COMPLETE"


@click.command(short_help="Print a script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, files and names in SHELL.

    \b
    Put one of these where your shell starts:
      bash  eval "$(echelon completion bash)"            in ~/.bashrc
      zsh   eval "$(echelon completion zsh)"             in ~/.zshrc, after compinit
      fish  echelon completion fish | source             in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "echelon", _VARIABLE).source())
