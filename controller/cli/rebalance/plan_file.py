"""A plan as `nodeless rebalance --plan -o json` printed it, read for its approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from controller.core.deprovisioning.rebalance.approval import MOST_SAVED, MOST_STEPS
from controller.core.deprovisioning.rebalance.approving import NodeToGo, PlanToApprove
from controller.core.untrusted_json import UnreadableJsonError, number, read_object, whole
from controller.errors import Problem, ValidationError

VERSION: Final = 1
"""Version of the plan's form: a later one is refused."""
MOST_BYTES: Final = 2**26


def read_plan(path: str) -> PlanToApprove:
    """Return the plan in the file. Raises ValidationError."""
    remedy = "give what `nodeless rebalance --plan -o json` printed"
    try:
        text = Path(path).read_bytes()
        document = read_object(text, MOST_BYTES)
        if whole(document.get("version"), 1) > VERSION:
            raise UnreadableJsonError("was made by a later nodeless")
        steps = document["steps"]
        nodes = tuple(node for at, step in enumerate(steps, start=1) for node in _nodes(step, at))
        return PlanToApprove(nodes, whole(len(steps), 0, MOST_STEPS))
    except OSError as error:
        raise ValidationError("Plan", [Problem(path, f"cannot be read: {error.strerror}", remedy)]) from None
    except (UnreadableJsonError, KeyError, TypeError, AttributeError) as error:
        raise ValidationError("Plan", [Problem(path, f"is no plan: {error}", remedy)]) from None


def _nodes(step: Mapping[str, Any], at: int) -> Iterator[NodeToGo]:
    """Yield the nodes of a step, each with the same share of what the step saves."""
    removes = step["removes"]
    for each in removes:
        pods = frozenset(str(digest) for digest in each["pods"])
        saves = number(step["savedPerHour"], -MOST_SAVED) / len(removes)
        yield NodeToGo(str(each["node"]), str(each["uid"]), at, pods, saves)
