"""Choose the nodes whose taint has kube-scheduler place elsewhere pods that need no on-demand node (ADR 79).

kube-scheduler prefers the emptiest node. Pods that may run on spot would take the room that was planned for pods which
may not, and these would then need another on-demand node.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, SPOT
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, PodKey, PodSpec
from controller.core.provisioning.plan import PlannedNode
from controller.core.provisioning.pods.relaxation import required_choices
from controller.core.scheduling.requirements import Requirements
from controller.core.scheduling.taints import ON_DEMAND_TAINT


def node_taints(planned: PlannedNode, pods: Mapping[PodKey, Pod]) -> tuple[Taint, ...]:
    """Return the taint, if the node is on demand because some of its pods must be; `pods`: those of the plan."""
    if planned.offering.capacity_type != ON_DEMAND or _allow_spot(planned.requirements):
        return ()
    specs = {id(spec): spec for spec in (pods[key].spec for key in planned.pods if key in pods)}
    return (ON_DEMAND_TAINT,) if any(map(_must_be_on_demand, specs.values())) else ()


def _must_be_on_demand(spec: PodSpec) -> bool:
    """Return whether a pod's node selector or required node affinity excludes spot."""
    return any(not any(map(_allow_spot, terms)) for terms in required_choices(spec))


def _allow_spot(requirements: Requirements) -> bool:
    return CAPACITY_TYPE not in requirements or requirements[CAPACITY_TYPE].accepts(SPOT)
