"""RFC 3339 times as Kubernetes writes them in annotations and events, from and to Unix seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(unix_seconds: float) -> str:
    """`2023-04-01T12:00:00Z`, whole seconds, as metav1.Time prints it."""
    return datetime.fromtimestamp(int(unix_seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float | None:
    """Unix seconds, or None when `text` is no RFC 3339 time (a user may have written it by hand)."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None
