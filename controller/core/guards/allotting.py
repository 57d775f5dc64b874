"""What planned nodes may be launched as: the on-demand mix, the Provisioner's limits and the guards, in this order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.guards.mix import with_mix
from controller.core.guards.spending import Guards
from controller.core.machines.launching import Allotment, allot
from controller.core.machines.provisioner_limits import usage
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import Snapshot


def within_limits(
    planned: Sequence[PlannedNode],
    provisioner: Provisioner,
    types: Mapping[str, InstanceType],
    snapshot: Snapshot,
    leaving: Collection[str] = (),
    guards: Guards | None = None,
) -> tuple[Allotment, ...]:
    """One allotment for each of the Provisioner's `planned` nodes, in their order; nodes named in `leaving` count for
    nothing."""
    mixed = with_mix(planned, provisioner, types, snapshot, leaving)
    allotments = allot(mixed, provisioner, types, usage(snapshot, provisioner.name, leaving))
    return tuple(guards.judge(each, provisioner, types) for each in allotments) if guards else allotments
