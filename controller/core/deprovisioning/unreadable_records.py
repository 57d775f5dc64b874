"""Find records on a node that cannot be read: a user edited them, or a later version of the controller wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.core.api.node import Node
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION, RESTING_ANNOTATION, parse_failure, parse_resting
from controller.core.deprovisioning.rebalance.approval import APPROVAL_ANNOTATION, parse_approval
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, parse_record
from controller.core.deprovisioning.versioned_json import NewerRecordError
from controller.core.untrusted_json import UnreadableJsonError


@dataclass(frozen=True, slots=True)
class Unreadable:
    """`key` of the annotation, why it cannot be read, and what happens to it."""

    key: str
    error: str
    consequence: str


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    COMMAND_ANNOTATION: parse_record,
    FAILURE_ANNOTATION: parse_failure,
    RESTING_ANNOTATION: lambda text: parse_resting(text, 0.0),
    APPROVAL_ANNOTATION: parse_approval,
}


def unreadable_records(node: Node) -> tuple[Unreadable, ...]:
    """Return the records on the node that cannot be read."""
    unreadable = []
    for key, read in _READERS.items():
        text = node.annotations.get(key)
        if text is None:
            continue
        try:
            read(text)
        except UnreadableJsonError as error:
            unreadable.append(Unreadable(key, str(error), _consequence(key, error)))
    return tuple(unreadable)


def _consequence(key: str, error: UnreadableJsonError) -> str:
    if key == COMMAND_ANNOTATION:
        return "the command is taken back: the node stays, and is made schedulable again"
    if key == APPROVAL_ANNOTATION:
        return "the node stays, cordoned as it is: `nodeless rebalance --undo` makes it schedulable"
    return "it is ignored" if isinstance(error, NewerRecordError) else "it is removed"
