"""Explain pods with affinity over kubernetes.io/hostname whose matching pods run on nodes that cannot take them.

Kube-scheduler binds pods one by one. It may bind the pod that a plan put beside this one to another node, which has
room for one of them only; from then on no new node can take this pod. Only a person can resolve that, by moving pods,
so the reason names the matching pods, their nodes, and what prevents the pod from joining them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.core.api import labels
from controller.core.api.quantity import in_words
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.offerings.snapshot_index import RunningPod
from controller.core.provisioning.pods.slots import is_slot
from controller.core.provisioning.resource_space import Floats, ResourceSpace
from controller.core.provisioning.topology.groups import RuleKind, TopologyGroup
from controller.core.provisioning.topology.running_pods import RunningPods

SHOWN = 3
"""Matching pods that a reason names; of the others it gives the number."""


class Partners:
    """Reasons about running pods. free: R x E, what the plan leaves free on existing nodes."""

    def __init__(self, running_pods: RunningPods, existing: ExistingNodes, free: Floats, space: ResourceSpace) -> None:
        self.running_pods = running_pods
        self.existing = existing
        self.free = free
        self.space = space

    def reason(self, group: TopologyGroup, mask: Mask, request: Floats) -> str:
        """Return why no node of a matching pod takes the pod, and what would help; empty if no matching pod runs.

        request: R, of the pod.
        """
        if group.key.kind is not RuleKind.AFFINITY or group.key.key != labels.HOSTNAME:
            return ""
        partners = [one for one in self.running_pods.matching(group.key.selectors) if not one.pod.terminating]
        if not partners:
            return ""
        shown = [
            f"{one.pod.namespace}/{one.pod.name} on {self._hindrance(one, mask, request)}" for one in partners[:SHOWN]
        ]
        more = f" and {len(partners) - SHOWN} more" if len(partners) > SHOWN else ""
        return (
            f"its pod affinity over {group.key.key} asks for the node of a matching pod, and none takes it: "
            f"{'; '.join(shown)}{more}. No new node helps: free room there, or cordon that node and delete the pod "
            "it must run beside, so that both are placed on one node"
        )

    def _hindrance(self, one: RunningPod, mask: Mask, request: Floats) -> str:
        name = self.running_pods.nodes[one.node].name
        row = self.existing.rows.get(name)
        if row is None:
            return f"{name}, which takes no more pods"
        if not mask.existing[row]:
            return f"{name}, which its selectors or tolerations do not match"
        short = np.flatnonzero(self.free[:, row] < request).tolist()
        return f"{name} ({_lacks(self.space, short, self.free[:, row])})"


def _lacks(space: ResourceSpace, short: Iterable[int], free: Floats) -> str:
    names = [(space.names[int(column)], float(free[int(column)])) for column in short]
    lacking = [f"{in_words(name, max(0, int(left)))} free" for name, left in names if not is_slot(name)]
    lacking += ["a host port or volume attachment is taken" for name, _ in names if is_slot(name)][:1]
    return ", ".join(lacking) or "other rules of its pods keep it away"
