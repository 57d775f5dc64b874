"""The status condition `Active`: whether the controller can use a Provisioner or node template, and why not.

The type and its members are in Karpenter v0.27's schema of the Provisioner; v0.27 itself never writes the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.core.api.timestamps import format_time

ACTIVE = "Active"
MAX_MESSAGE = 32_000
"""Characters; the API allows 32,768."""


def conditions_after(present: Sequence[Mapping[str, Any]], problem: str, now: float) -> list[dict[str, Any]] | None:
    """Return the object's conditions with Active as of `now` (Unix seconds), or None if nothing changes.

    Active is False with `problem` as its message, True when there is none. Other conditions stay. The transition time
    changes only when the status does.
    """
    active: dict[str, Any] = {
        "type": ACTIVE,
        "status": "False" if problem else "True",
        "reason": "NotUsable" if problem else "Usable",
        "lastTransitionTime": format_time(now),
    }
    if problem:
        active |= {"severity": "Error", "message": problem[:MAX_MESSAGE]}
    before = next((entry for entry in present if entry.get("type") == ACTIVE), {})
    if before.get("status") == active["status"]:
        active["lastTransitionTime"] = before.get("lastTransitionTime", active["lastTransitionTime"])
    if dict(before) == active:
        return None
    return [*(dict(entry) for entry in present if entry.get("type") != ACTIVE), active]
