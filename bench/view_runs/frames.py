"""Draw `nodeless view` of clusters of some sizes: what the first frame, each later one and a reading take."""

from __future__ import annotations

import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from controller.cli.cluster.cluster_view import ClusterLocation, read_cluster_view
from controller.cli.view.screen import Page, starting
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import assess, view_of

COLUMNS, LINES = 140, 40
TAKEN = "2026-03-01T12:00:00Z"
NOW = 1772366400.0
"""TAKEN in Unix seconds."""
REPEATS = 9
HEAD = (
    "# Frames of the view\n\nWritten by `python -m bench view`: medians, of processor time, on a terminal of "
    f"{COLUMNS} × {LINES}. A frame is what\neach key and each reading draws; a reading is made in a thread of its own, "
    "so that keys do not wait for it. The first\nframe is drawn before anything is known of the cluster.\n\n"
    "| nodes | pods | first frame, ms | a frame, ms | frame, times that of the fewest nodes | a reading, ms |\n"
    "|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of processor time, of a cluster with so many nodes and pods."""

    nodes: int
    pods: int
    first: float
    frame: float
    reading: float


def dump(nodes: int, pods_a_node: int) -> dict[str, Any]:
    """A ClusterDump: nodes of four types in three zones, and what runs on them."""
    types = (("m5.large", 2, 8), ("m5.xlarge", 4, 16), ("c5.2xlarge", 8, 16), ("r5.xlarge", 4, 32))
    objects: list[dict[str, Any]] = []
    for number in range(nodes):
        kind, cpu, memory = types[number % len(types)]
        name = f"ip-10-0-{number // 250}-{number % 250}.eu-west-1.compute.internal"
        room = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "58"}
        labels = {
            "node.kubernetes.io/instance-type": kind,
            "topology.kubernetes.io/zone": f"eu-west-1{'abc'[number % 3]}",
            "topology.kubernetes.io/region": "eu-west-1",
            "karpenter.sh/capacity-type": ("spot", "on-demand")[number % 5 == 0],
            "karpenter.sh/provisioner-name": "default",
            "karpenter.sh/initialized": "true",
        }
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": TAKEN}
        objects.append({
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "creationTimestamp": TAKEN},
            "status": {"capacity": room, "allocatable": room, "conditions": [condition]},
        })  # fmt: skip
        requests = {"cpu": f"{cpu * 800 // pods_a_node}m", "memory": f"{memory * 700 // pods_a_node}Mi"}
        objects += [
            {
                "kind": "Pod",
                "metadata": {"name": f"web-{number}-{each}", "namespace": "shop"},
                "spec": {"nodeName": name, "containers": [{"name": "c", "resources": {"requests": requests}}]},
                "status": {"phase": "Running"},
            }
            for each in range(pods_a_node)
        ]
    return {"kind": "ClusterDump", "taken": TAKEN, "objects": objects}


def measure(nodes: int, pods_a_node: int) -> Figures:
    """Read the dump, then draw it again and again, a node further each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        path.write_text(json.dumps(dump(nodes, pods_a_node)))
        cluster = read_cluster_view(ClusterLocation(file=str(path)))
    assessment = assess(cluster, NOW)
    view = view_of(cluster, assessment, (), NOW)
    screen = ScreenState("price")

    def frame() -> None:
        screen.press("down", view)
        _drawn(Page(view, screen, LINES, keys=True))

    return Figures(
        nodes,
        nodes * pods_a_node,
        _median(lambda: _drawn(starting(0))),
        _median(frame),
        _median(lambda: view_of(cluster, assessment, (), NOW)),
    )


def _drawn(page: RenderableType) -> None:
    Console(file=io.StringIO(), width=COLUMNS, height=LINES, force_terminal=True).print(page)


def _median(work: Callable[[], object]) -> float:
    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    once()
    return statistics.median(once() for _ in range(REPEATS))


def page(figures: Sequence[Figures]) -> str:
    """A page of Markdown; the first figures are those of the fewest nodes."""
    rows = (
        f"| {f.nodes:,} | {f.pods:,} | {f.first * 1000:.1f} | {f.frame * 1000:.0f} | "
        f"{f.frame / figures[0].frame:.1f} | {f.reading * 1000:.0f} |\n"
        for f in figures
    )
    return HEAD + "".join(rows)
