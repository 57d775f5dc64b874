"""What the engine knows of the stack's past."""

from __future__ import annotations

import pulumi
from pulumi.runtime import invoke

READ_OUTPUTS = "pulumi:pulumi:readStackOutputs"
"""The engine's own look-up, by which stack references read another stack."""


def has_finished() -> bool | None:
    """Whether an `up` of this stack has ended well since it was made: its state has outputs then. None: nobody tells.

    For a program that exports some. Without outputs, either the state was lost or no `up` has come to its end.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        answer = invoke(READ_OUTPUTS, {"name": name}).value
    except Exception as error:  # noqa: BLE001 - Pulumi raises Exception itself: a backend without projects, a token
        pulumi.log.debug(f"the state's outputs are not to be had: {error}")
        return None
    return bool(answer.get("outputs")) if isinstance(answer, dict) else None
