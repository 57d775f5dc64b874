"""Documents as a user would create them."""

from __future__ import annotations

from typing import Any


def fresh(document: dict[str, Any]) -> dict[str, Any]:
    """Without what the API server fills in."""
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    return {**document, "metadata": {key: value for key, value in document["metadata"].items() if key in kept}}
