"""Flags and output of `nodeless help`."""

from __future__ import annotations

import click
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from controller.cli import output
from controller.cli.help import pages
from controller.cli.output import Command


def _begun(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [each for each in pages.topics() if each.startswith(incomplete)]


@click.command(cls=Command)
@click.argument("topic", default="", shell_complete=_begun)
@click.argument("section", default="")
def help(topic: str, section: str) -> None:
    """A page of the documentation in the terminal, without a network.

    Without a TOPIC: the list of them. SECTION is a part of a heading: `nodeless help runbooks NodelessPodsWait`.
    """
    console = output.console()
    if topic:
        console.print(Markdown(pages.text(topic, section), hyperlinks=False))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, title in pages.topics().items():
        table.add_row(Text(name, style="bold"), Text(title))
    console.print(table)
    console.print(
        "\nnodeless help TOPIC shows one, nodeless help TOPIC SECTION a part of it; nodeless --help the commands."
    )
