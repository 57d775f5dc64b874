"""Find what `nodeless explain` was asked about: kinds as kubectl takes them, short names of nodes, near misses."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.completion import beginning
from controller.cli.inputs.objects import kube_client, read_objects
from controller.core.api.document import mapping, text
from controller.core.api.strict import Report
from controller.errors import NodelessError, NotFoundError, Problem, ValidationError
from controller.kube.resources import NODES, PODS, PROVISIONERS, SERVICES

RESOURCES = {"pod": PODS, "node": NODES, "provisioner": PROVISIONERS, "service": SERVICES}
KINDS = tuple(RESOURCES)
ALIASES = {
    "po": "pod", "no": "node", "svc": "service", "prov": "provisioner", "pods": "pod", "nodes": "node",
    "services": "service", "provisioners": "provisioner", "provisioners.karpenter.sh": "provisioner",
}  # fmt: skip
SHOWN = 5
"""The most names that an error lists."""


def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the kinds of `explain`, then the names of the kind's objects in the cluster or the dump of `--from`."""
    words = ctx.params.get("words") or ()
    if not words:
        return beginning(KINDS, incomplete)
    kind = ALIASES.get(words[0], words[0])
    try:
        return beginning(_names(kind, ctx.params), incomplete)
    except NodelessError:
        return []


def _names(kind: str, flags: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of a kind's objects in the cluster, or in the dump of `--from`; none for other kinds.

    With a namespace, where they have one and it is not the default one. Raises KubeError, ValidationError.
    """
    resource = RESOURCES.get(kind)
    if resource is None:
        return
    if file := flags.get("file"):
        documents = [each.document for each in read_objects([file], Report()).located if each.kind == resource.kind]
    else:
        documents = list(kube_client(flags.get("kubeconfig") or "", flags.get("context") or "").list(resource))
    for document in documents:
        metadata = mapping(document.get("metadata"))
        namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
        yield f"{namespace}/{name}" if resource.namespaced and namespace not in ("", "default") else name


def subject(words: tuple[str, ...], namespace: str) -> tuple[str, str, str]:
    """Return (kind, namespace, name) of `pod NAME`, `pod/NAME`, `pod NAMESPACE/NAME`. Raises ValidationError."""
    first, *more = words
    kind, slash, rest = first.partition("/")
    named = [*([rest] if slash else []), *more]
    word = kind.lower()
    if (known := ALIASES.get(word, word)) not in KINDS:
        near = difflib.get_close_matches(word, [*KINDS, *ALIASES], n=1)
        hint = f"did you mean {ALIASES.get(near[0], near[0])}? " if near else ""
        raise _misuse("KIND", f"{kind!r} cannot be explained", f"{hint}one of {', '.join(KINDS)}")
    if len(named) != 1 or not named[0]:
        raise _misuse("NAME", f"one {known} is explained at a time", f"write `nodeless explain {known} NAME`")
    before, slash, last = named[0].partition("/")
    return (known, before, last) if slash else (known, namespace, named[0])


def node_name(cluster: ClusterView, name: str) -> str:
    """Return the full name of a node that `name` begins, where it is the only one; else `name` as it is."""
    names = cluster.snapshot.nodes
    begun = [each for each in names if each.startswith(f"{name}.")]
    return begun[0] if name not in names and len(begun) == 1 else name


def not_found(kind: str, name: str, known: Iterable[str], hint: str = "") -> NotFoundError:
    """Return the error for a name that is not there, with the names that look like it."""
    listed = sorted(known)
    near = difflib.get_close_matches(name, listed, n=3, cutoff=0.6) or [each for each in listed if name in each][:3]
    if near:
        tail = f"did you mean {' or '.join(near)}?"
    elif len(listed) <= SHOWN:
        tail = f"there are: {', '.join(listed)}" if listed else "there is none"
    else:
        tail = f"there are {len(listed)}"
    return NotFoundError(f"There is no {kind} {name}; {tail}{f'; {hint}' if hint else ''}")


def _misuse(path: str, message: str, remedy: str) -> ValidationError:
    return ValidationError("nodeless explain", [Problem(path, message, remedy)])
