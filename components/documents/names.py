"""Names that derive from the cluster's, within AWS's lengths."""

from __future__ import annotations

import hashlib

MAX_NAME = 64
"""IAM and STS quotas, EventBridge's reference: names of roles and of rules."""


def bounded(name: str, limit: int = MAX_NAME) -> str:
    """The name, or where it is too long its beginning and a hash of all of it: cut names alone would be taken twice."""
    if len(name) <= limit:
        return name
    suffix = "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return name[: limit - len(suffix)].rstrip("-_") + suffix
