"""`nodeless completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from controller.cli.output import Command

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes the shell complete commands and options.

    bash: source <(nodeless completion bash), in ~/.bashrc; zsh alike in ~/.zshrc; fish: nodeless completion fish >
    ~/.config/fish/completions/nodeless.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    root = ctx.find_root()
    click.echo(made(root.command, {}, "nodeless", "_NODELESS_COMPLETE").source())
