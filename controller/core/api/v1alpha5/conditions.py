"""Status conditions of a Provisioner: `Active` says whether the controller can use it, and why not.

The type and the members are those of the v1alpha5 schema, which the peer declares and never writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.core.api.timestamps import format_time

ACTIVE = "Active"


def active_condition(problem: str, now: float, reason: str = "") -> dict[str, Any]:
    """The condition at `now` (Unix seconds): False with the problem's text, or True when there is none."""
    condition = {
        "type": ACTIVE,
        "status": "False" if problem else "True",
        "reason": reason or ("NotUsable" if problem else "Usable"),
        "lastTransitionTime": format_time(now),
    }
    return {**condition, "severity": "Error", "message": problem[:32000]} if problem else condition


def conditions_after(present: Sequence[Mapping[str, Any]], condition: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The list with `condition` in it, or None when it says the same already.

    Others' conditions stay. The transition time moves only when the status does.
    """
    others = [dict(entry) for entry in present if entry.get("type") != condition["type"]]
    mine = next((entry for entry in present if entry.get("type") == condition["type"]), None)
    updated = dict(condition)
    if mine is not None and mine.get("status") == condition["status"]:
        updated["lastTransitionTime"] = mine.get("lastTransitionTime", condition["lastTransitionTime"])
    if mine is not None and dict(mine) == updated:
        return None
    return [*others, updated]
