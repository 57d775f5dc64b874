"""Apply the on-demand mix and the launch limits to a plan, as the controller would before it launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.cli.cluster.cluster_view import ClusterView
from controller.core.api.pod import PodKey
from controller.core.guards.spending import Guards, LaunchLimits, within_limits
from controller.core.provisioning import PlannedNode, SchedulingPlan


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a plan.

    `launched`: its new nodes after the on-demand mix, without those that a limit refuses. `refused`: for each pod of a
    refused node, the limit.
    """

    plan: SchedulingPlan
    launched: tuple[PlannedNode, ...]
    refused: Mapping[PodKey, str]
    guards: frozenset[tuple[str, str]] = frozenset()
    """(guard, Provisioner) of each refusal, see `guards.spending.Guards.refused`."""

    def reasons(self) -> Mapping[PodKey, str]:
        """Return the outcome for each pending pod, in a few words."""
        reasons = {left.pod: left.reason for left in self.plan.unplaced}
        reasons.update((key, f"fits on {each.node}") for each in self.plan.existing for key in each.pods)
        reasons.update((key, f"not launched: {why}") for key, why in self.refused.items())
        for node in self.launched:
            what = f"would get a {node.offering.instance_type} {node.offering.capacity_type} of {node.provisioner}"
            reasons.update(dict.fromkeys(node.pods, what))
        return reasons


def dry_run(cluster: ClusterView, plan: SchedulingPlan, now: float) -> DryRun:
    """Apply the mix and the limits to a plan; `now` in Unix seconds."""
    snapshot, launched = cluster.snapshot, []
    refused: dict[PodKey, str] = {}
    guards = Guards(cluster.settings.launch_limits or LaunchLimits(), snapshot, cluster.view.types, now)
    for name in sorted({node.provisioner for node in plan.new_nodes}):
        provisioner = snapshot.provisioners[name]
        types = {entry.name: entry for entry in cluster.view.types[name]}
        own = [node for node in plan.new_nodes if node.provisioner == name]
        for allotment in within_limits(own, provisioner, types, snapshot, guards=guards):
            if allotment.refusal:
                refused.update(dict.fromkeys(allotment.planned.pods, allotment.refusal))
            else:
                launched.append(allotment.planned)
    return DryRun(plan, tuple(launched), refused, frozenset((guard, name) for guard, name, _ in guards.refused))
