"""One scheduling attempt as a pure function: a node, or kube-scheduler's explanation why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.world.scheduling.filters import first_rejection
from sandbox.world.scheduling.interpod import Attraction, attraction, interpod_filter
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.spread import DomainCounts, hard_spread, spread_filter
from sandbox.world.scheduling.view import ClusterView, PodRejection, Rejection
from sandbox.world.scheduling.volumes import PodVolumes, pod_volumes, volume_filter

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate, "
"""What the DynamicResources plugin of 1.34 puts before the preemption verdict, also where no claims are used."""


NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIMS_ARE_GOING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class Checks:
    """Everything about one pod that is the same for all nodes, computed once per attempt."""

    pod: PodInfo
    view: ClusterView
    volumes: PodVolumes
    domains: tuple[DomainCounts, ...]
    pull: Attraction | None

    @classmethod
    def prepare(cls, pod: PodInfo, view: ClusterView, repelling: Iterable[NodeInfo]) -> Checks | PodRejection:
        """`repelling` are the nodes that hold pods with anti-affinity; a PodRejection where no node could do."""
        volumes = pod_volumes(pod, view) if pod.claim_names else PodVolumes()
        if isinstance(volumes, PodRejection):
            return volumes
        domains = hard_spread(pod, view.nodes.values())
        return cls(pod, view, volumes, domains, attraction(pod, view, repelling))

    def rejection(self, node: NodeInfo) -> Rejection | None:
        """The answer of the first filter that refuses the node, in kube-scheduler's order."""
        found = first_rejection(self.pod, node)
        if found is None and self.pod.claim_names:
            found = volume_filter(self.pod, self.volumes, node, self.view)
        if found is None and self.domains:
            found = spread_filter(self.domains, node)
        if found is None and self.pull is not None:
            found = interpod_filter(self.pull, node)
        return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """`feasible` nodes, or with none of them the `message` of the PodScheduled condition."""

    feasible: tuple[NodeInfo, ...]
    volumes: PodVolumes
    rejections: dict[str, Rejection]
    message: str = ""


def evaluate(pod: PodInfo, view: ClusterView, repelling: Iterable[NodeInfo]) -> Verdict:
    """Run every filter on every node. `repelling` are the nodes that hold pods with anti-affinity."""
    if not view.nodes:
        return Verdict((), PodVolumes(), {}, NO_NODES)
    checks = Checks.prepare(pod, view, repelling)
    if isinstance(checks, PodRejection):
        message = f"0/{len(view.nodes)} nodes are available: {checks.reason}"
        return Verdict((), PodVolumes(), {}, message)
    feasible: list[NodeInfo] = []
    rejections: dict[str, Rejection] = {}
    for node in view.nodes.values():
        rejection = checks.rejection(node)
        if rejection is None:
            feasible.append(node)
        else:
            rejections[node.name] = rejection
    message = "" if feasible else explain(rejections, _without_victims(rejections))
    return Verdict(tuple(feasible), checks.volumes, rejections, message)


def explain(rejections: dict[str, Rejection], preemption: str = "") -> str:
    """kube-scheduler 1.34's FitError text; `preemption` says why none was tried or helped, empty where one did."""
    reasons = Counter(reason for rejection in rejections.values() for reason in rejection.reasons)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    text = f"0/{len(rejections)} nodes are available: {listed}."
    return f"{text} {NO_CLAIMS}preemption: {preemption}" if preemption else text


def _without_victims(rejections: dict[str, Rejection]) -> str:
    """What a preemption says that found no victims."""
    tried = Counter(rejection.resolvable for rejection in rejections.values())
    outcomes = []
    if tried[True]:
        outcomes.append(f"{tried[True]} No preemption victims found for incoming pod")
    if tried[False]:
        outcomes.append(f"{tried[False]} Preemption is not helpful for scheduling")
    return f"0/{len(rejections)} nodes are available: {', '.join(sorted(outcomes))}."
