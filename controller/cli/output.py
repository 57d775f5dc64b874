"""How the commands speak: tables for people, JSON and YAML for programs, progress and errors on standard error.

Colours go when the output is piped or NO_COLOR is set (https://no-color.org); a pipe gets lines as long as they need.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console

from controller.errors import NodelessError, ValidationError

FAILED = 1
"""A cluster or AWS does not answer, or refuses."""
MISUSE = 2
"""Flags or files are wrong: all problems are listed."""
FOUND = 3
"""The command worked and what it looked for is there: pods that cannot be placed, checks that fail."""

PIPE_COLUMNS = 200

F = TypeVar("F", bound=Callable[..., Any])


def console(*, stderr: bool = False) -> Console:
    """A console of this process's output as it is now: tests and pipes change it."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS") or PIPE_COLUMNS)
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def structured(document: Any, form: str) -> None:
    """Print a document of JSON values as `json` or `yaml`."""
    if form == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)


def note(text: str) -> None:
    """A remark that is no part of the output: programs that read the output don't see it."""
    console(stderr=True).print(text, style="dim", markup=False)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show on a terminal what is going on; elsewhere nothing is printed."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(what):
        yield


class Command(click.Command):
    """A command whose foreseen errors become messages and exit codes instead of stack traces."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; ends the process with FAILED or MISUSE for the errors of `controller.errors`."""
        try:
            return super().invoke(ctx)
        except ValidationError as error:
            click.echo(f"{error.subject}:", err=True)
            for problem in error.problems:
                click.echo(f"  {problem}", err=True)
            ctx.exit(MISUSE)
        except NodelessError as error:
            click.echo(f"nodeless {self.name}: {error}", err=True)
            ctx.exit(FAILED)


def output_option(*more: str) -> Callable[[F], F]:
    """`--output`: table, json or yaml, and `more`."""
    return click.option(
        "-o",
        "--output",
        "form",
        default="table",
        show_default=True,
        type=click.Choice(["table", "json", "yaml", *more]),
        help="For people, or for programs.",
    )


def cluster_options(command: F) -> F:
    """`--kubeconfig` and `--context`, as kubectl has them."""
    command = click.option(
        "--kubeconfig", default="", metavar="PATH", help="Kubeconfig file. [default: KUBECONFIG, else ~/.kube/config]"
    )(command)
    return click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.")(command)
