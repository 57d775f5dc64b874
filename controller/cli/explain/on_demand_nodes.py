"""Lines about the soft taint of nodes that are on demand because pods must be (setting `onDemandTaint`, ADR 79)."""

from __future__ import annotations

from collections.abc import Iterator

from controller.cli.cluster.cluster_view import ClusterView
from controller.core.api.labels import CAPACITY_TYPE, SPOT
from controller.core.api.pod import Pod
from controller.core.provisioning.pods.relaxation import term_requirements
from controller.core.scheduling.taints import ON_DEMAND_TAINT, untolerated
from controller.core.state.snapshot import StateNode

TAINT = f"{ON_DEMAND_TAINT.key}:{ON_DEMAND_TAINT.effect}"


def of_node(cluster: ClusterView, node: StateNode) -> Iterator[str]:
    """Yield what the taint of this node means; nothing without it."""
    if ON_DEMAND_TAINT not in node.node.taints:
        return
    yield f"taint {TAINT}: kube-scheduler places pods that do not tolerate it elsewhere while there is room"
    now = "" if cluster.settings.on_demand_taint else "; it is off now, and nodes that have the taint keep it"
    yield f"it was launched on demand because pods must be, for which its room is kept (setting onDemandTaint{now})"


def of_pod(cluster: ClusterView, pod: Pod) -> Iterator[str]:
    """Yield why a pod that prefers on-demand nodes, and need not have one, may be placed elsewhere."""
    tainted = sum(ON_DEMAND_TAINT in node.node.taints for node in cluster.snapshot.nodes.values())
    if (
        not tainted
        or not _prefers(pod)
        or untolerated((ON_DEMAND_TAINT,), pod.spec.tolerations, preferences=True) is None
    ):
        return
    yield f"it prefers on-demand nodes, and {tainted} of them have the taint {TAINT} (setting onDemandTaint)"
    yield (
        "kube-scheduler weighs taints higher than preferred node affinity: the preference counts there once the pod "
        f"tolerates the taint (tolerations: [{{key: {ON_DEMAND_TAINT.key}, operator: Exists}}])"
    )


def _prefers(pod: Pod) -> bool:
    """Return whether a preferred node affinity term excludes spot."""
    terms = (term_requirements(each.term) for each in pod.spec.preferred_node_affinity)
    return any(CAPACITY_TYPE in each and not each[CAPACITY_TYPE].accepts(SPOT) for each in terms)
