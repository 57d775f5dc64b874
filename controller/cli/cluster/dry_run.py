"""What the controller would do for pods that wait: its plan, the on-demand mix, and the guards that forbid launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.cli.cluster.cluster_view import Present
from controller.core.api.pod import PodKey
from controller.core.guards.allotting import within_limits
from controller.core.guards.spending import Guards, LaunchLimits
from controller.core.provisioning import PlannedNode, SchedulingPlan


@dataclass(frozen=True, slots=True)
class Foresight:
    """`plan` is the packer's; of its new nodes `launched` are those that nothing forbids, on demand where the mix says
    so. `refused` has the rule for each pod whose node is forbidden."""

    plan: SchedulingPlan
    launched: tuple[PlannedNode, ...]
    refused: Mapping[PodKey, str]
    guards: frozenset[tuple[str, str]] = frozenset()
    """Guards that forbade a launch (see `guards.spending.GUARDS`), each with the Provisioner."""

    def reasons(self) -> Mapping[PodKey, str]:
        """Of each pod that waits, what becomes of it, in a few words."""
        reasons = {left.pod: left.reason for left in self.plan.unplaced}
        reasons.update((key, f"has a place on {each.node}") for each in self.plan.existing for key in each.pods)
        reasons.update((key, f"not launched: {why}") for key, why in self.refused.items())
        for node in self.launched:
            what = f"a {node.offering.instance_type} {node.offering.capacity_type} of {node.provisioner} would do"
            reasons.update(dict.fromkeys(node.pods, what))
        return reasons


def foresee(present: Present, plan: SchedulingPlan, now: float) -> Foresight:
    """What becomes of a plan; `now` in Unix seconds."""
    snapshot, launched = present.snapshot, []
    refused: dict[PodKey, str] = {}
    guards = Guards(present.settings.launch_limits or LaunchLimits(), snapshot, present.view.types, now)
    for name in sorted({node.provisioner for node in plan.new_nodes}):
        provisioner = snapshot.provisioners[name]
        types = {entry.name: entry for entry in present.view.types[name]}
        own = [node for node in plan.new_nodes if node.provisioner == name]
        for allotment in within_limits(own, provisioner, types, snapshot, guards=guards):
            if allotment.refusal:
                refused.update(dict.fromkeys(allotment.planned.pods, allotment.refusal))
            else:
                launched.append(allotment.planned)
    return Foresight(plan, tuple(launched), refused, frozenset((guard, name) for guard, name, _ in guards.refused))
