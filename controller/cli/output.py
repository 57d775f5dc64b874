"""Output of the commands: tables, JSON and YAML on standard output, progress and errors on standard error.

Piped output, and any with NO_COLOR set (https://no-color.org), has no colours.
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

from controller.cli.completion import contexts
from controller.errors import NodelessError, ValidationError

FAILED = 1
"""The cluster or AWS does not answer, or refuses."""
MISUSE = 2
"""Flags or files are wrong."""
FOUND = 3
"""The command worked and reports a finding: pods that cannot be placed, failed checks."""

PIPE_COLUMNS = 200

F = TypeVar("F", bound=Callable[..., Any])


def console(*, stderr: bool = False) -> Console:
    """Return a console on the present standard output or error."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS") or PIPE_COLUMNS)
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def structured(document: Any, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)


def note(text: str) -> None:
    """Print a remark on standard error."""
    console(stderr=True).print(text, style="dim", markup=False)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show a spinner, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(what):
        yield


class Command(click.Command):
    """A command that turns NodelessErrors into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run; exit with MISUSE for a ValidationError, FAILED for any other error, all of them without a traceback.

        NODELESS_TRACEBACK=1 shows the traceback of an unexpected error.
        """
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except ValidationError as error:
            click.echo("\n  ".join([f"{error.subject}:", *map(str, error.problems)]), err=True)
            ctx.exit(MISUSE)
        except NodelessError as error:
            text = str(error)
        except OSError as error:
            text = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
        except Exception as error:
            if os.environ.get("NODELESS_TRACEBACK"):
                raise
            fault = "a fault of nodeless: report it with what NODELESS_TRACEBACK=1 adds"
            text = f"{type(error).__name__}: {error}; {fault}"
        click.echo(f"nodeless {self.name}: {text}", err=True)
        raise click.exceptions.Exit(FAILED)


def output_option(*more: str) -> Callable[[F], F]:
    """Add `--output`: table, json or yaml, and `more`."""
    return click.option(
        "-o",
        "--output",
        "form",
        default="table",
        show_default=True,
        type=click.Choice(["table", "json", "yaml", *more]),
        help="Format of the output.",
    )


def cluster_options(command: F) -> F:
    command = click.option(
        "--kubeconfig", default="", metavar="PATH", help="Kubeconfig file. [default: KUBECONFIG, else ~/.kube/config]"
    )(command)
    context = click.option(
        "--context", default="", metavar="NAME", help="Context of the kubeconfig.", shell_complete=contexts
    )
    return context(command)


def choice_option(name: str, *words: str, text: str) -> Callable[[F], F]:
    """Add a flag that takes one of `words`; its value is empty where it is not given."""
    kind = click.Choice(words)
    return click.option(name, metavar="|".join(words), type=kind, callback=lambda _, __, word: word or "", help=text)


def catalog_option(command: F) -> F:
    text = "Types and prices: of this release, or of AWS now. [default: the dump's, else shipped]"
    return choice_option("--catalog", "shipped", "live", text=text)(command)


def location_options(command: F) -> F:
    """Add the flags that make a ClusterLocation: a cluster or a dump, with types and prices."""
    dump = click.option("--from", "file", default="", metavar="FILE", help="A dump to read instead of a cluster.")
    return cluster_options(dump(catalog_option(command)))
