"""Complete contexts for shells; what cannot be read completes to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
import yaml
from click.shell_completion import CompletionItem

from controller.core.api.document import mapping, objects, text


def contexts(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names: list[str] = []
    for file in os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep):
        try:
            document = yaml.safe_load(Path(file).expanduser().read_text())
        except (OSError, ValueError, yaml.YAMLError):
            continue
        names += [text(each.get("name")) for each in objects(mapping(document).get("contexts"))]
    return beginning(names, incomplete)


def beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the candidates that begin like the word so far."""
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]
