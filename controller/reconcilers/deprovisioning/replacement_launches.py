"""The launches of a command's replacements: what is asked for, and how each of them ended in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from controller.cloud.catalogs import CatalogView, template_of
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Resources
from controller.core.cloud import CloudInstance, LaunchRequest
from controller.core.decisions.decision import replacement_launched
from controller.core.decisions.launch_outcome import launch_outcome
from controller.core.guards.mix import with_mix
from controller.core.machines.launching import allot, launch_request, launch_token, tokens_in_use
from controller.core.machines.provisioner_limits import usage
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import CloudError, ConflictError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.node_writes import STATE_TIMEOUT_SECONDS
from controller.runtime.executors import Job

WORKERS = 10


class Replacements:
    """Launches by command id. What another process launched is known by the tokens on record alone."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._informers, self._events, self._ledger = context.informers, context.events, context.ledger
        self._launcher, self._stop = context.launcher, context.stop
        self._launches: dict[str, list[Job[CloudInstance]]] = {}
        self._executor = context.executors.executor("replace", WORKERS)

    def begin(self, command_id: str, requests: Iterable[LaunchRequest], method: str, text: str) -> None:
        """Launch all of them side by side. `text` is the command in words."""
        self._launches[command_id] = [
            self._executor.submit(self._launch, request, method, text) for request in requests
        ]

    def began(self, command_id: str) -> bool:
        """Whether this process launched for the command."""
        return command_id in self._launches

    def under_way(self, command_id: str) -> bool:
        """Whether a launch of this process has not ended."""
        return not all(job.done() for job in self._launches.get(command_id, ()))

    def failure(self, command_id: str) -> str:
        """What the first launch that failed says; empty when none did."""
        for job in self._launches.get(command_id, ()):
            if job.done() and (error := job.exception()) is not None:
                return str(error)
        return ""

    def keep(self, command_ids: Collection[str]) -> None:
        """Forget the launches of commands that are over."""
        self._launches = {
            key: jobs for key, jobs in self._launches.items() if key in command_ids or self.under_way(key)
        }

    def _launch(self, request: LaunchRequest, method: str, text: str) -> CloudInstance:
        if self._stop.is_set():
            raise CloudError("the process stops; nothing is launched any more")
        instance = self._launcher.launch(request)
        self._ledger.record(replacement_launched(method, text, launch_outcome(request, instance)))
        node = self._informers.submit(lambda _: None).result(STATE_TIMEOUT_SECONDS).nodes.get(instance.node_name)
        if node is not None:
            ref = ObjectRef.of(node.node)
            self._events.publish(ref, "Normal", "DeprovisioningLaunching", f"Launched to {text}", (node.node.uid,))
        return instance


def launch_requests(
    planned: Sequence[PlannedNode],
    going: Sequence[StateNode],
    view: CatalogView,
    snapshot: Snapshot,
    own: Collection[str] = (),
) -> list[LaunchRequest]:
    """What to launch. The limits do not count the nodes that go: they may be exceeded while both run.

    `own` are the tokens of a command on record: a planned node that has one of them, and is there, is left out.
    Raises ConflictError when a Provisioner went away or its limits refuse, and other NodelessErrors of its template.
    """
    in_use = tokens_in_use(snapshot)
    found: list[LaunchRequest] = []
    for name in sorted({node.provisioner for node in planned}):
        provisioner = snapshot.provisioners.get(name)
        if provisioner is None or provisioner.deleted_at is not None:
            raise ConflictError(f"Provisioner {name} went away before the launch")
        template = template_of(snapshot, provisioner)
        types = {entry.name: entry for entry in view.types.get(name, ())}
        leaving = [node for node in going if node.provisioner_name == name]
        mine = [node for node in planned if node.provisioner == name]
        tokens = {
            node.pods: launch_token(provisioner, template, _uids(node, snapshot), in_use - frozenset(own))
            for node in mine
        }
        missing = [node for node in mine if tokens[node.pods] not in in_use]
        mixed = with_mix(missing, provisioner, types, snapshot, {node.name for node in leaving})
        for allotment in allot(mixed, provisioner, types, _less(usage(snapshot, name), leaving)):
            if allotment.refusal:
                raise ConflictError(f"Replacement not launched: {allotment.refusal}")
            node, offerings = allotment.planned, allotment.offerings
            request = launch_request(node, provisioner, template, offerings, types, tokens[node.pods])
            found.append(replace(request, on_record=True))
    return found


def _uids(node: PlannedNode, snapshot: Snapshot) -> list[str]:
    return [snapshot.pods[key].uid for key in node.pods if key in snapshot.pods]


def _less(used: Resources, nodes: Iterable[StateNode]) -> Resources:
    amounts = dict(used)
    for node in nodes:
        if not node.leaving:
            for name, amount in node.capacity.items():
                amounts[name] = amounts.get(name, 0) - amount
    return FrozenMap(amounts)
