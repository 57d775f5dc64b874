"""A scale run as a table (Markdown) and a picture (SVG)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.control_plane.scale import ScaleRun

WIDTH, HEIGHT, MARGIN = 760, 420, 60
CURVES = (("created", "pods created", "#4f5d75"), ("launched", "nodes launched", "#c8553d"),
          ("ready", "nodes Ready", "#b8860b"), ("bound", "pods bound", "#1b6ca8"))  # fmt: skip
MOST_CALLS = 8
HEAD = """# Pods that all wait at once, on a real control plane

`python -m bench scale`, and its [picture](scale.svg): etcd, kube-apiserver, kube-scheduler and kube-controller-manager
are the real ones, EC2 and the kubelets the sandbox's, all on one machine. Other work there (the load) makes the times
longer, and to a lesser degree the controller's processor time, but not its memory and requests. Pods of 1500m on nodes
of 16 vCPUs: ten fill one; from launch to Ready a node takes nine seconds, kube-scheduler and kube-controller-manager
are limited to 300 requests a second. `--side FILE` prints another controller's figures beside them, ours with setting
`planAheadOwners`, which needs not wait until all pods are made, and the limit: what kube-scheduler takes for the same
pods, on the same nodes, without a controller. Where all processes' processor time is about the seconds until the last
pod is bound times the machine's cores, its processors were busy throughout: the run then takes as long as their work.
The table of programs says whose it is; joining nodes (kubelets, kube-controller-manager, kube-apiserver) add most. The
last line leaves the controller's own time out, and not what it makes others do; a machine whose speed changes between
the two runs moves it as it does the seconds. With `--rounds N` the page shows the middle one of N runs, each of which
has a limit of its own.

"""


def table(run: ScaleRun) -> str:
    """What the run came to."""
    waits = run.waited
    rows = [
        ("pods, nodes", f"{len(run.bound):,}, {len(run.launched):,}"),
        ("last pod created, s", f"{run.created[-1]:.0f}"),
        ("last instance launched, s", f"{run.launched[-1]:.0f}"),
        ("last Node created, s", f"{run.known[-1]:.0f}"),
        ("last node Ready, s", f"{run.ready[-1]:.0f}"),
        ("last pod bound, s", f"{run.bound[-1]:.0f}"),
        ("a pod's wait from Pending to bound, s: median, 90 %, longest",
         f"{share(waits, 0.5):.0f}, {share(waits, 0.9):.0f}, {waits[-1]:.0f}"),
        ("controller's memory at most, MiB", f"{run.rss_bytes / 2**20:.0f}"),
        ("controller's processor time, s", f"{run.processor_seconds:.0f}"),
        ("API requests of the controller a node", f"{run.calls_per_node:.1f}"),
        ("processor time of all processes on the machine, s", f"{run.spent.machine:.0f}"),
        ("load of the machine, 5 min", f"{run.load:.1f}"),
    ]  # fmt: skip
    calls = [(f"of these {name}", f"{n / len(run.launched):.2f}") for name, n in run.calls.most_common(MOST_CALLS)]
    lines = [f"| {name} | {value} |" for name, value in (*rows[:-1], *calls, rows[-1])]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def share(values: Sequence[float], part: float) -> float:
    """The value that this part of the sorted values does not exceed."""
    return values[min(len(values) - 1, int(part * len(values)))]


def picture(run: ScaleRun) -> str:
    """Seconds to the right; upwards the share of all pods, or of all nodes, that are so far."""
    longest = max(run.bound[-1], run.ready[-1], 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">share of {len(run.bound):,} pods, of {len(run.launched):,} nodes: '
        "up to 100 %</text>",
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 30}" text-anchor="end">seconds, up to {longest:.0f}</text>',
    ]
    for number, (name, words, colour) in enumerate(CURVES):
        line = " ".join(_points(getattr(run, name), longest))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - 150}" y="{HEIGHT - MARGIN - 80 + 16 * number}" fill="{colour}">{words}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _points(values: Sequence[float], longest: float, most: int = 200) -> list[str]:
    """A rising curve through at most so many of the values."""
    step = max(1, len(values) // most)
    chosen = [(0.0, 0), *((values[rank - 1], rank) for rank in range(step, len(values) + 1, step))]
    chosen.append((values[-1], len(values)))
    return [
        f"{MARGIN + (WIDTH - 2 * MARGIN) * at / longest:.1f},"
        f"{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * rank / len(values):.1f}"
        for at, rank in chosen
    ]
