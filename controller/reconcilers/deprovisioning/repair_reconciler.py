"""Remove unhealthy nodes, and nodes that do not initialize, in a separate loop: they never wait for a consolidation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from controller.core.api.frozen import EMPTY
from controller.core.cloud import Catalog
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.repair import Repair
from controller.core.machines.node_health import Census
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import KubeError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents
from controller.reconcilers.deprovisioning.executor import CommandExecutor
from controller.runtime.loops import IDLE_SECONDS, ItemBackoff
from controller.runtime.metrics import ACTIONS_PERFORMED, REPAIR_BLOCKED, UNHEALTHY_NODES


class RepairReconciler:
    """Idle until the first lists of all watches are in, all instances have their Nodes, and pods were planned once."""

    name = "repair"

    def __init__(self, context: ReconcilerContext, repair: Repair, executor: CommandExecutor) -> None:
        self._repair, self._executor = repair, executor
        self._events, self._removals = context.events, RemovalEvents(context.events)
        self._catalogs, self._clock, self._recorder = context.catalogs, context.clock, context.recorder
        self._adopted, self._planned = context.adopted, context.planned
        self._log = structlog.get_logger(self.name)
        self._failing = ItemBackoff(self._clock, self.name)
        self._held: frozenset[str] = frozenset()
        """Provisioners whose repairs are held back, since too many nodes are unhealthy at once."""

    def reconcile(self, snapshot: Snapshot) -> float:
        """Remove what is due; return the seconds until the next node may be."""
        if not snapshot.synced or not self._adopted.is_set() or not self._planned.is_set():
            return 1.0
        self._failing.keep({node.node.uid for node in snapshot.nodes.values()})
        unwell = [node for node in snapshot.nodes.values() if _unwell(node)]
        self._count(unwell)
        catalog, now = self._catalog(unwell, snapshot), self._clock.now()
        given = MethodInput(
            simulator=Simulator(snapshot, EMPTY),
            gate=Gate(snapshot, now),
            candidates=candidates(snapshot, catalog, now, unwell),
            now=now,
            held_back=frozenset(node.name for node in unwell if not self._failing.ready(node.node.uid)),
        )
        proposal = self._repair.decide(given)
        self._report(proposal, snapshot)
        for command in proposal.commands:
            uid = command.candidates[0].node.node.uid
            self._failing.attempt(uid, partial(self._remove, command, catalog), "Node not removed", KubeError)
        return max(0.1, min(IDLE_SECONDS, proposal.again_seconds, self._failing.next_try_seconds()))

    def _catalog(self, unwell: list[StateNode], snapshot: Snapshot) -> Catalog:
        """Return instance types, if a late node is Ready: they are needed to know which resources it lacks."""
        late = {node.provisioner_name for node in unwell if node.no_room and not node.initialized and node.node.ready}
        return self._catalogs.view(snapshot, late).types if late else EMPTY

    def _remove(self, command: Command, catalog: Catalog) -> None:
        if self._executor.delete_at_once(command, catalog):
            self._recorder.count(ACTIONS_PERFORMED, f"{command.method}/{command.action}", command.method)
            self._log.warning("Deleted unhealthy node", node=command.candidates[0].name, because=command.because)

    def _count(self, unwell: list[StateNode]) -> None:
        counts = Counter(
            (node.provisioner_name, condition.type)
            for node in unwell
            if node.provisioner_name and node.initialized
            for condition in node.node.unhealthy
        )
        self._recorder.replace(UNHEALTHY_NODES, {key: float(count) for key, count in counts.items()})

    def _report(self, proposal: Proposal, snapshot: Snapshot) -> None:
        """Publish what blocks single nodes on them, and too many unhealthy nodes once on each Provisioner."""
        census = Census(snapshot)
        owners = {candidate.provisioner.name for candidate, _ in proposal.blocked}
        held = {name: refusal for name in sorted(owners) if (refusal := census.refusal(name))}
        single = tuple((each, why) for each, why in proposal.blocked if each.provisioner.name not in held)
        self._removals.proposed(replace(proposal, blocked=single), ())
        self._recorder.replace(REPAIR_BLOCKED, {(name,): 1.0 for name in held})
        self._report_outbreaks(held, snapshot)

    def _report_outbreaks(self, held: Mapping[str, str], snapshot: Snapshot) -> None:
        for name, refusal in held.items():
            owner = snapshot.provisioners[name]
            message = f"No unhealthy node is replaced: {refusal}"
            self._events.publish(ObjectRef.of(owner), "Warning", "NodeRepairBlocked", message, (owner.uid,))
            if name not in self._held:
                self._log.warning("Node repair held back", provisioner=name, because=refusal)
        for name in sorted(self._held - held.keys()):
            self._log.info("Node repair goes on", provisioner=name)
        self._held = frozenset(held)


def _unwell(node: StateNode) -> bool:
    """Return whether the node is unhealthy, or missed its deadline to be initialized (core/state/effective.py)."""
    return bool(node.node.unhealthy if node.initialized else node.no_room)
