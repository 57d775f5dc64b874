"""The record of a command, on the very nodes that it removes (invariant 8).

One annotation per node holds all of the command, and is written together with the cordon in one patch: a controller
that dies at any point is followed by one that finds on the nodes what was begun. Replacements are named by their
launch tokens, which are tags of the instances and annotations of their Nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot, StateNode

COMMAND_ANNOTATION: Final = "karpenter.sh/deprovisioning-command"


@dataclass(frozen=True, slots=True)
class Record:
    """`nodes` are all that the command removes, by name; `replacements` launch tokens; `started_at` Unix seconds.

    `cordoned`: the node that carries this was schedulable before, so that a rollback makes it so again.
    """

    id: str
    method: str
    reason: str
    nodes: tuple[str, ...]
    replacements: tuple[str, ...]
    started_at: float
    cordoned: bool = True


@dataclass(frozen=True, slots=True)
class Recorded:
    """A command as the cluster shows it. `carriers` are the nodes that carry its record, by name, sorted.

    `replacements` are the nodes of its tokens that exist. `torn`: some node of it exists and carries no record.
    """

    record: Record
    carriers: tuple[StateNode, ...]
    replacements: Mapping[str, StateNode]
    torn: bool

    @property
    def committed(self) -> bool:
        """The first of its nodes is going: from here on there is no way back."""
        gone = len(self.carriers) < len(self.record.nodes) and not self.torn
        return gone or any(node.node.deleted_at is not None for node in self.carriers)


def write_record(record: Record) -> str:
    """The annotation's value."""
    return json.dumps(
        {
            "id": record.id,
            "method": record.method,
            "reason": record.reason,
            "nodes": list(record.nodes),
            "replacements": list(record.replacements),
            "startedAt": record.started_at,
            "cordoned": record.cordoned,
        },
        sort_keys=True,
    )


def read_record(node: StateNode) -> Record | None:
    """The record on a node; None without one.

    One that cannot be read (somebody edited it) is a command of that node alone, begun long ago: it is rolled back.
    """
    text = node.node.annotations.get(COMMAND_ANNOTATION)
    if text is None:
        return None
    try:
        return _parse(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Record(f"unreadable-{node.node.uid}", "unreadable", "the record cannot be read", (node.name,), (), 0.0)


def _parse(members: Mapping[str, Any]) -> Record:
    return Record(
        id=str(members["id"]),
        method=str(members["method"]),
        reason=str(members["reason"]),
        nodes=tuple(sorted(str(name) for name in members["nodes"])),
        replacements=tuple(str(token) for token in members["replacements"]),
        started_at=float(members["startedAt"]),
        cordoned=bool(members["cordoned"]),
    )


def recorded(snapshot: Snapshot) -> tuple[Recorded, ...]:
    """Every command that is on record, oldest first."""
    carriers: dict[str, list[StateNode]] = {}
    records: dict[str, Record] = {}
    for node in snapshot.nodes.values():
        record = read_record(node)
        if record is not None:
            carriers.setdefault(record.id, []).append(node)
            records.setdefault(record.id, record)
    if not records:
        return ()
    by_token = _by_token(snapshot)
    return tuple(
        Recorded(
            record=record,
            carriers=tuple(carriers[record.id]),
            replacements={token: by_token[token] for token in record.replacements if token in by_token},
            torn=bool({n for n in record.nodes if n in snapshot.nodes} - {n.name for n in carriers[record.id]}),
        )
        for record in sorted(records.values(), key=lambda each: (each.started_at, each.id))
    )


def _by_token(snapshot: Snapshot) -> dict[str, StateNode]:
    nodes = ((node.node.annotations.get(LAUNCH_TOKEN, ""), node) for node in snapshot.nodes.values())
    return {token: node for token, node in nodes if token}


def engaged(snapshot: Snapshot) -> frozenset[str]:
    """Names of nodes that a command removes or has launched: nothing else may remove them meanwhile."""
    names: set[str] = set()
    for command in recorded(snapshot):
        names.update(node.name for node in command.carriers)
        names.update(node.name for node in command.replacements.values())
    return frozenset(names)
