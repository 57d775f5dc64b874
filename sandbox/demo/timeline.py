"""What happened when: changes of pods and nodes become lines that a person can follow, with durations."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from sandbox.world.informer import Informer
from sandbox.world.resources import Obj

PROVISIONER_NAME = "karpenter.sh/provisioner-name"
INITIALIZED = "karpenter.sh/initialized"
EMPTINESS = "karpenter.sh/emptiness-timestamp"


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline; `at` in seconds since the demo's start."""

    at: float
    what: str
    detail: str


class Timeline:
    """Collects moments and prints each as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = time.monotonic()
        self.moments: list[Moment] = []

    def add(self, what: str, detail: str = "") -> None:
        """Something happened now."""
        at = time.monotonic() - self._start
        since = at - self.moments[-1].at if self.moments else 0.0
        self.moments.append(Moment(at, what, detail))
        line = f"[dim]{at:6.1f} s  +{since:4.1f}[/]  {escape(what)}" + (f"  [dim]{escape(detail)}[/]" if detail else "")
        self._console.print(line, soft_wrap=True)

    def title(self, text: str) -> None:
        """A heading between moments."""
        self._console.print(f"\n[bold]{escape(text)}[/]")


class Observer:
    """Watches pods of one app and the nodes of Provisioners, and tells the timeline."""

    def __init__(
        self,
        timeline: Timeline,
        pods: Informer,
        nodes: Informer,
        app: str,
        check: Callable[[], None],
        status: Status,
    ) -> None:
        """`check` raises when waiting on makes no sense, because a part of the sandbox has died, say; `status` shows
        what is waited for."""
        self._timeline = timeline
        self._check = check
        self._status = status
        self._pods, self._nodes, self._app = pods, nodes, app
        self._said_pods: dict[str, int] = {}
        self._changed = asyncio.Event()
        self.seen_nodes: dict[str, Obj] = {}
        """Every node of a Provisioner that ever was, as last seen."""
        pods.add_handler(self._on_pod)
        nodes.add_handler(self._on_node)

    async def wait(self, condition: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        """Until `condition` holds. Raises TimeoutError naming `what` and what stands instead."""
        self._status.update(f"Waiting for {what}…")
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            self._check()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(f"{what} did not happen within {timeout_seconds:.0f} s ({self._standing()})")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(remaining, 1.0))
            except TimeoutError:
                continue

    def _standing(self) -> str:
        states = self.pod_states()
        nodes = ", ".join(n["metadata"]["name"] for n in self.nodes()) or "none"
        return f"pods: {dict(states) or 'none'}; nodes: {nodes}"

    def nodes(self) -> list[Obj]:
        """The nodes that a Provisioner made and that stand now."""
        return [n for n in self._nodes if PROVISIONER_NAME in (n["metadata"].get("labels") or {})]

    def app_pods(self) -> list[Obj]:
        """The app's pods."""
        return [p for p in self._pods if (p["metadata"].get("labels") or {}).get("app") == self._app]

    def pod_states(self) -> Counter[str]:
        """How many of the app's pods are in which state."""
        return Counter(_pod_state(pod) for pod in self.app_pods())

    def _on_pod(self, _old: Obj | None, _new: Obj | None) -> None:
        states = self.pod_states()
        total = sum(states.values())
        for state in ("Unschedulable", "Bound", "Running"):
            count = states[state]
            if count == total > self._said_pods.get(state, 0):
                self._timeline.add(_POD_LINES[state].format(count=count))
                self._said_pods[state] = count
        if not total and self._said_pods:
            self._timeline.add("Pods are gone")
            self._said_pods.clear()
        self._changed.set()

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        labels = ((new or old or {})["metadata"]).get("labels") or {}
        if PROVISIONER_NAME in labels:
            if new is None and old is not None:
                self._timeline.add("Node is gone", old["metadata"]["name"])
            elif new is not None:
                self.seen_nodes[new["metadata"]["name"]] = new
                for line in _node_news(old, new):
                    self._timeline.add(*line)
        self._changed.set()


_POD_LINES = {
    "Unschedulable": "{count} pods are Pending: no node has room (Unschedulable)",
    "Bound": "{count} pods are bound by the scheduler",
    "Running": "{count} pods are Running",
}


def _pod_state(pod: Obj) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status", {})
    if status.get("phase") == "Running":
        return "Running"
    if pod["spec"].get("nodeName"):
        return "Bound"
    waiting = any(c.get("reason") == "Unschedulable" for c in status.get("conditions") or ())
    return "Unschedulable" if waiting else "Pending"


def _node_news(old: Obj | None, new: Obj) -> list[tuple[str, str]]:
    name = new["metadata"]["name"]
    facts: list[tuple[bool, bool, str]] = [
        (old is not None, True, "Node object is created"),
        (_registered(old), _registered(new), "Kubelet has joined"),
        (_ready(old), _ready(new), "Node is Ready"),
        (INITIALIZED in _labels(old), INITIALIZED in _labels(new), "Node is initialized"),
        (_annotated(old, EMPTINESS), _annotated(new, EMPTINESS), "Node is empty: emptiness-timestamp set"),
        (_cordoned(old), _cordoned(new), "Node is cordoned"),
        (_leaving(old), _leaving(new), "Node is being deleted: drain, then terminate"),
    ]
    lines = [(text, name) for before, after, text in facts if after and not before]
    if old is None:
        labels = _labels(new)
        kind = labels.get("node.kubernetes.io/instance-type", "?")
        where = labels.get("topology.kubernetes.io/zone", "?")
        lines[0] = (lines[0][0], f"{name}: {kind}, {labels.get('karpenter.sh/capacity-type', '?')}, {where}")
    return lines


def _labels(node: Obj | None) -> dict[str, str]:
    return ((node or {}).get("metadata") or {}).get("labels") or {}


def _annotated(node: Obj | None, key: str) -> bool:
    return key in (((node or {}).get("metadata") or {}).get("annotations") or {})


def _registered(node: Obj | None) -> bool:
    return bool(((node or {}).get("status") or {}).get("nodeInfo", {}).get("kubeletVersion"))


def _ready(node: Obj | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _cordoned(node: Obj | None) -> bool:
    return bool(((node or {}).get("spec") or {}).get("unschedulable"))


def _leaving(node: Obj | None) -> bool:
    return bool(((node or {}).get("metadata") or {}).get("deletionTimestamp"))
