"""The `nodeless` command."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click
from click.shell_completion import get_completion_class

import controller
from controller.core.api.settings.readers import boolean, integer, positive
from controller.errors import NodelessError, ValidationError
from controller.operator.options import Option, Options, without_effect
from controller.telemetry.log_levels import LEVELS

MISUSE = 2

VERBS = ("simulate", "rebalance", "explain", "view", "cost", "dump", "convert", "manifests", "check", "help")
"""Commands imported on demand: packages of that name, each with a docstring in one line and a module `command`."""

METAVARS = {boolean: "BOOL", integer: "N", positive: "N", str: "NAME"}
"""How help shows the value of a flag, by its reader; others are ports."""

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """Command group that imports the modules of VERBS on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(f"controller.cli.{cmd_name}.command"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for a word that is none, the command that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5)
            if near:
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from error
            raise

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing their modules."""
        own = [(name, each.get_short_help_str(90)) for name, each in sorted(self.commands.items())]
        verbs = [(name, str(importlib.import_module(f"controller.cli.{name}").__doc__)) for name in VERBS]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *verbs])


def process_options(command: F) -> F:
    """Add a flag for each of the process's Options that can be one; they stay text until Options.parse reads them."""
    for each in reversed(fields(Options)):
        option: Option = each.metadata["option"]
        if option.has_flag:
            default = f", {str(each.default).lower()}" if each.default != "" else ""
            text = f"{option.doc} [env: {option.variable}{default}]"
            metavar = METAVARS.get(option.read, "PORT")
            command = click.option(f"--{option.flag}", metavar=metavar, help=text)(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(controller.__version__, prog_name="nodeless", message="%(prog)s %(version)s")
def main() -> None:
    """NodeLess: an EKS cluster without node groups."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"nodeless {controller.__version__}")


@main.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), metavar="bash|zsh|fish")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for shell completion of commands and options.

    bash: source <(nodeless completion bash), in ~/.bashrc; zsh alike in ~/.zshrc; fish: nodeless completion fish >
    ~/.config/fish/completions/nodeless.fish
    """
    script_class = get_completion_class(shell)
    assert script_class is not None
    click.echo(script_class(ctx.find_root().command, {}, "nodeless", "_NODELESS_COMPLETE").source())


@main.command()
@click.option(
    "--kubeconfig", default="", metavar="PATH", help="Kubeconfig file. [default: KUBECONFIG, else in-cluster]"
)
@process_options
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(list(LEVELS)),
    help="Log level where the ConfigMap config-logging sets none.",
)
@click.option(
    "--log-format",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "json", "console"]),
    help="JSON lines, or text for a terminal.",
)
def run(kubeconfig: str, log_level: str, log_format: str, **flags: str | None) -> None:
    """Run the controller until SIGTERM.

    Settings come from the ConfigMap karpenter-global-settings in the namespace SYSTEM_NAMESPACE, which must be set; the
    process waits until it exists. Changes apply while it runs, or by a restart where needed. Log levels come from the
    ConfigMap config-logging there (or CONFIG_LOGGING_NAME). An API server older than KUBERNETES_MIN_VERSION is refused.
    AWS credentials and region come from the environment or the pod's identity, as for every AWS SDK.
    """
    # Slow to import, and not needed for help and the other commands.
    import structlog

    from controller.operator.process import run as run_operator
    from controller.telemetry.structured_logging import configure

    configure(log_level, "json" if log_format == "json" else "console" if log_format == "console" else "auto")
    given = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
    for variable, because in without_effect(os.environ).items():
        structlog.get_logger("operator").warning("Variable has no effect", variable=variable, because=because)
    try:
        code = run_operator(Options.parse(os.environ, given), kubeconfig=kubeconfig, level=log_level)
    except ValidationError as error:
        click.echo(f"{error.subject}:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        sys.exit(MISUSE)
    except NodelessError as error:
        click.echo(f"nodeless cannot start: {error}", err=True)
        sys.exit(1)
    sys.stdout.flush()
    os._exit(code)  # a thread that hangs in a call to AWS must not keep the process beyond its grace period


if __name__ == "__main__":
    main()
