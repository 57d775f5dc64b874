"""Names of pods in log lines, bounded so that container runtimes do not split the line."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.api.pod import PodKey

MOST_LOGGED_PODS = 200
"""Names a line: as a rule all of a node's. At their usual length the line stays below the 16 KiB at which container
runtimes split it. `pod_count` counts the others, too."""


def named(keys: Sequence[PodKey]) -> list[str]:
    """NAMESPACE/NAME of the first MOST_LOGGED_PODS."""
    return ["/".join(key) for key in keys[:MOST_LOGGED_PODS]]
