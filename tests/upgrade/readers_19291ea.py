"""The readers of records at commit 19291ea, by their own rules: what a controller that is rolled back makes of ours.

They are kept as they were. A change that makes one of them misread a record of today needs another version of it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any


def read_command(text: str) -> dict[str, Any]:
    """Raises what the old reader caught: the command was then rolled back."""
    members = json.loads(text)
    return {
        "id": str(members["id"]),
        "method": str(members["method"]),
        "reason": str(members["reason"]),
        "nodes": tuple(sorted(str(name) for name in members["nodes"])),
        "replacements": tuple(str(token) for token in members["replacements"]),
        "started_at": float(members["startedAt"]),
        "cordoned": bool(members["cordoned"]),
    }


def read_failure(text: str) -> tuple[str, int, float, int]:
    """Method, generation, time and count. Raises what the old reader caught: there was then no back-off."""
    stored = json.loads(text)
    return str(stored["method"]), int(stored["generation"]), float(stored["at"]), max(1, int(stored["count"]))


def resting(text: str, now: float) -> set[str]:
    """Raises what the old reader caught: no workload then cooled down."""
    stored = {str(uid): float(until) for uid, until in json.loads(text).items()}
    return {uid for uid, until in stored.items() if until > now}


def read_decisions(packed: bytes) -> list[dict[str, Any]]:
    """The entries. Raises for one that the old reader left out."""
    return [_entry(json.loads(line)) for line in gzip.decompress(packed).splitlines()]


def _entry(document: Mapping[str, Any]) -> dict[str, Any]:
    kind = document["kind"]
    if kind not in ("launch", "skip", "remove"):
        raise ValueError(f"kind {kind!r}")
    texts = {name: str(document.get(name, "")) for name in ("reason", "provisioner", "inputs", "action")}
    prices = {name: document.get(name) for name in ("pricePerHourBefore", "pricePerHourAfter")}
    return {
        **texts,
        **{name: None if price is None else float(price) for name, price in prices.items()},
        "kind": kind,
        "method": str(document["method"]),
        "subject": str(document["subject"]),
        "pods": tuple(map(str, document.get("pods", ()))),
        "podCount": int(document.get("podCount", 0)),
        "details": {str(key): str(value) for key, value in dict(document.get("details", {})).items()},
        "number": int(document["number"]),
        "at": float(document.get("at", 0.0)),
        "times": int(document.get("times", 1)),
        "lastAt": float(document.get("lastAt", document.get("at", 0.0))),
    }


def read_memory(data: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Bytes by instance type and image; other keys were left out."""
    parts = ((key.partition("_"), text) for key, text in data.items())
    return {(name, image): int(text) for (name, _, image), text in parts if name and image and text.isdecimal()}
