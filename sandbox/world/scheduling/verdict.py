"""One scheduling attempt as a pure function: a node, or kube-scheduler's explanation why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.world.scheduling.filters import first_rejection
from sandbox.world.scheduling.interpod import attraction, interpod_filter
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.spread import hard_spread, spread_filter
from sandbox.world.scheduling.view import ClusterView, PodRejection, Rejection
from sandbox.world.scheduling.volumes import PodVolumes, pod_volumes, volume_filter

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate, "
"""What the DynamicResources plugin of 1.34 puts before the preemption verdict, also where no claims are used."""


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
    volumes = pod_volumes(pod, view) if pod.claim_names else PodVolumes()
    if isinstance(volumes, PodRejection):
        message = f"0/{len(view.nodes)} nodes are available: {volumes.reason}"
        return Verdict((), PodVolumes(), {}, message)
    domains = hard_spread(pod, view.nodes.values())
    pull = attraction(pod, view, repelling)
    feasible: list[NodeInfo] = []
    rejections: dict[str, Rejection] = {}
    for node in view.nodes.values():
        rejection = first_rejection(pod, node)
        if rejection is None and pod.claim_names:
            rejection = volume_filter(pod, volumes, node, view)
        if rejection is None and domains:
            rejection = spread_filter(domains, node)
        if rejection is None and pull is not None:
            rejection = interpod_filter(pull, node)
        if rejection is None:
            feasible.append(node)
        else:
            rejections[node.name] = rejection
    message = "" if feasible else explain(rejections)
    return Verdict(tuple(feasible), volumes, rejections, message)


def explain(rejections: dict[str, Rejection]) -> str:
    """kube-scheduler 1.34's FitError text, with the verdict of a preemption that found no victims."""
    total = len(rejections)
    reasons = Counter(reason for rejection in rejections.values() for reason in rejection.reasons)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    tried = Counter(rejection.resolvable for rejection in rejections.values())
    outcomes = []
    if tried[True]:
        outcomes.append(f"{tried[True]} No preemption victims found for incoming pod")
    if tried[False]:
        outcomes.append(f"{tried[False]} Preemption is not helpful for scheduling")
    preemption = f"{NO_CLAIMS}preemption: 0/{total} nodes are available: {', '.join(sorted(outcomes))}."
    return f"0/{total} nodes are available: {listed}. {preemption}"
