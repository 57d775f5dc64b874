"""Records of commands, as annotations of the nodes that they remove.

Each of the nodes carries the whole record, written together with the cordon in one patch before anything is launched:
if the controller dies at any point, the next leader finds on the nodes what was begun. Replacements are named by their
launch tokens, which are tags of the instances and annotations of their Nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.deprovisioning.removal_command import CONSOLIDATION
from controller.core.deprovisioning.versioned_json import RecordFormat
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.untrusted_json import UnreadableJsonError, number

COMMAND_ANNOTATION: Final = "karpenter.sh/deprovisioning-command"


@dataclass(frozen=True, slots=True)
class Record:
    """`nodes`: names of all nodes that the command removes; `replacements`: launch tokens; `started_at`: Unix seconds.

    `cordoned`: the command made the node that carries this record unschedulable, so that a rollback undoes it.
    `unknown`: members that another version of the controller added.
    """

    id: str
    method: str
    reason: str
    nodes: tuple[str, ...]
    replacements: tuple[str, ...]
    started_at: float
    cordoned: bool = True
    unknown: FrozenMap[str, Any] = field(default=EMPTY, hash=False)


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command on record, as the cluster shows it. `carriers`: nodes that carry its record, sorted by name.

    `replacements`: nodes that exist, by launch token. `torn`: one of its nodes exists and carries no record.
    """

    record: Record
    carriers: tuple[StateNode, ...]
    replacements: Mapping[str, StateNode]
    torn: bool

    @property
    def committed(self) -> bool:
        """Whether one of its nodes is being deleted or gone: the command cannot be rolled back any more."""
        gone = len(self.carriers) < len(self.record.nodes) and not self.torn
        return gone or any(node.node.deleted_at is not None for node in self.carriers)

    @property
    def fails_if_rolled_back(self) -> bool:
        """Whether a rollback now counts as a failure.

        Not for a consolidation that launched nothing, or of which some nodes are removed: the cluster has changed.
        """
        in_vain = bool(self.record.replacements) and not self.committed
        return in_vain or self.record.method != CONSOLIDATION


_FORMAT: Final = RecordFormat(
    Record,
    {
        "id": ("id", str),
        "method": ("method", str),
        "reason": ("reason", str),
        "nodes": ("nodes", lambda names: tuple(sorted(map(str, names)))),
        "replacements": ("replacements", lambda tokens: tuple(map(str, tokens))),
        "started_at": ("startedAt", number),
        "cordoned": ("cordoned", bool),
    },
)
write_record, parse_record = _FORMAT.write, _FORMAT.parse


def read_record(node: StateNode) -> Record | None:
    """Return the record on a node; None without one.

    A record that cannot be parsed (a user edited it, or a later version wrote it) becomes a command of an unknown
    method, which is rolled back.
    """
    text = node.node.annotations.get(COMMAND_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_record(text)
    except UnreadableJsonError:
        return Record(f"unreadable-{node.node.uid}", "unreadable", "the record cannot be read", (node.name,), (), 0.0)


def recorded_commands(snapshot: Snapshot) -> tuple[RecordedCommand, ...]:
    """Return every command on record, the oldest first."""
    carriers: dict[str, list[StateNode]] = {}
    records: dict[str, Record] = {}
    for node in snapshot.nodes.values():
        record = read_record(node)
        if record is not None:
            carriers.setdefault(record.id, []).append(node)
            records.setdefault(record.id, record)
    if not records:
        return ()
    tokens = ((node.node.annotations.get(LAUNCH_TOKEN, ""), node) for node in snapshot.nodes.values())
    by_token = {token: node for token, node in tokens if token}
    return tuple(
        RecordedCommand(
            record=record,
            carriers=tuple(carriers[record.id]),
            replacements={token: by_token[token] for token in record.replacements if token in by_token},
            torn=bool({n for n in record.nodes if n in snapshot.nodes} - {n.name for n in carriers[record.id]}),
        )
        for record in sorted(records.values(), key=lambda each: (each.started_at, each.id))
    )


def engaged(snapshot: Snapshot) -> frozenset[str]:
    """Return names of nodes that a command on record removes or has launched: no other command may remove them."""
    commands = recorded_commands(snapshot)
    return frozenset(node.name for each in commands for node in (*each.carriers, *each.replacements.values()))
