"""Collect instances without a Node and Nodes without an instance; adopt the launches of an earlier process.

The first pass of a new leader adopts what its predecessor launched without creating the Node yet; provisioning begins
once all of it is in the cluster state. Later passes keep instances and Nodes consistent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from controller.core.api.frozen import FrozenMap
from controller.core.api.parse import parse_node
from controller.core.cloud import CloudInstance
from controller.core.decisions.decision import Decision, instance_details, node_details
from controller.core.machines.cluster_proof import GOING, NOT_YET, Standing
from controller.core.machines.collection import (
    ADOPTABLE,
    CollectionPlan,
    CollectionTimes,
    Removal,
    instance_gone,
    plan_collection,
)
from controller.core.machines.registration import joined
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import CloudError, ConflictError, InstanceNotFoundError, KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.metrics import CONSISTENCY_ERRORS

MOST_SHARE = 0.01
"""Share of the time that listing instances may take: in a large cluster the first passes come less often."""
WORKERS = 10
"""Instances looked up concurrently; the lookups of one moment are one call."""


@dataclass(frozen=True, slots=True)
class GarbageTimes:
    """`first_passes` passes, one every `first_seconds`; then one every `then_seconds` (as in later Karpenter)."""

    first_seconds: float = 10.0
    first_passes: int = 20
    then_seconds: float = 120.0
    retry_seconds: float = 0.5
    """Between passes while instances are still being adopted after a start."""
    collection: CollectionTimes = field(default_factory=CollectionTimes)
    sight_seconds: float = 10.0
    """How long EC2 may not list a new instance (eventual consistency). Shorter than the lease that others wait for."""
    adoption_seconds: float = 60.0
    """How long planning waits for one instance's adoption, which may fail for a reason of that instance alone."""


class GarbageCollectionReconciler(ContextReconciler):
    """Compare the cloud's instances with the Nodes when a pass is due; changes in between do nothing."""

    name = "garbagecollection"

    def __init__(self, context: ReconcilerContext, times: GarbageTimes | None = None) -> None:
        """Sets the context's `adopted` after the first pass that finds a Node for every instance."""
        super().__init__(context)
        self._launcher, self._adopted = context.launcher, context.adopted
        self._open_waits = context.waits
        self._cluster = context.settings.current.cluster_name
        self._executor = context.executors.executor("collect", WORKERS)
        self._adopting: dict[str, float] = {}
        """Since when each adoption is tried (monotonic seconds), by provider id."""
        self._times = times or GarbageTimes()
        self.unsynced_seconds = self._times.retry_seconds
        self._passes = 0
        self._sure_at = self._clock.monotonic()

    def wait_until_visible(self) -> None:
        """Delay planning: a process crashed just now, and EC2 may not list its last launches yet."""
        self._sure_at = self._clock.monotonic() + self._times.sight_seconds

    def _pass(self, snapshot: Snapshot) -> float:
        """Make one pass when it is due; return the seconds until the next."""
        now = self._clock.monotonic()
        if now < self._due_at:
            return self._due_at - now
        if (verdict := self._removals.proof).standing is Standing.DISPROVED or verdict is NOT_YET:
            return self._due_in(self._times.retry_seconds)  # the listed instances may be another cluster's
        instances = self._cloud.list()
        listing_seconds = self._clock.monotonic() - now
        plan = plan_collection(snapshot, instances, self._clock.now(), self._times.collection)
        plan = self._permitted(plan, snapshot)
        if self._adopted.is_set():  # before, nothing is launched, and nobody else goes on with what was adopted
            plan = replace(plan, adopt=self._left_alone(plan.adopt))
        removals = (*plan.terminate, *plan.delete_nodes)
        self._items.keep({entry.provider_id for entry in plan.adopt} | {entry.provider_id for entry in removals})
        self._carry_out(plan, snapshot)
        if not self._adopted.is_set():
            if self._waits(plan, now):
                return self._due_in(self._times.retry_seconds)
            self._adopted.set()
        self._passes += 1
        times = self._times
        early = times.first_seconds if self._passes < times.first_passes else times.then_seconds
        return self._due_in(min(times.then_seconds, max(early, listing_seconds / MOST_SHARE)))

    def _left_alone(self, instances: tuple[CloudInstance, ...]) -> tuple[CloudInstance, ...]:
        """Return instances of no launch of this process that have no Node by now: listing them may take seconds."""
        orphans = [each for each in instances if not self._launcher.in_hand(each)]
        nodes = self._informers.snapshot().nodes.values() if orphans else ()
        present = {node.node.provider_id for node in nodes}
        return tuple(each for each in orphans if each.provider_id not in present)

    def _permitted(self, plan: CollectionPlan, snapshot: Snapshot) -> CollectionPlan:
        """Return the plan without removals, unless the cluster is proven by what the cloud answers now."""
        if not (plan.terminate or plan.delete_nodes or plan.unlisted) or self._removals.check(snapshot).proven:
            return plan
        return replace(plan, terminate=(), delete_nodes=(), unlisted=())

    def _waits(self, plan: CollectionPlan, now: float) -> bool:
        """Return whether planning must wait: for adoptions, a limited time each, and for what EC2 may not list yet."""
        ids = {entry.provider_id for entry in plan.adopt}
        self._adopting = {key: self._adopting.get(key, now) for key in ids}
        open_still = sorted(key for key, since in self._adopting.items() if now - since < self._times.adoption_seconds)
        what = f"{len(open_still)} instances get their Node: {', '.join(open_still[:5])}" if open_still else ""
        if not what and now < self._sure_at:
            what = "EC2 may not list yet what a process that crashed launched last"
        self._open_waits.note("adoption", what)
        if not what and ids:
            self._log.error("Planning goes on without instances that could not be adopted", ids=sorted(ids)[:20])
        return bool(what)

    def _carry_out(self, plan: CollectionPlan, snapshot: Snapshot) -> None:
        for instance in plan.adopt:
            self._attempt(instance.provider_id, "Adoption failed", partial(self._adopt, instance, snapshot))
        for removal in self._still_without_node(plan.terminate):
            self._attempt(removal.provider_id, "Termination failed", partial(self._terminate, removal, snapshot))
        answers = self._executor.map(self._find, plan.unlisted)
        for node, answer in zip(plan.unlisted, answers, strict=True):
            self._unlisted(node, answer, snapshot)
        for removal in plan.delete_nodes:
            self._attempt(removal.provider_id, "Node not deleted", partial(self._delete_node, removal, snapshot))

    def _still_without_node(self, removals: tuple[Removal, ...]) -> list[Removal]:
        """Return removals whose Node the API server does not have either: the cache may lag behind."""
        if not removals:
            return []
        present = [parse_node(entry) for entry in self._kube.list(NODES)]
        known = {node.provider_id for node in present} | {node.name for node in present}
        return [entry for entry in removals if entry.provider_id not in known and entry.name not in known]

    def _attempt(self, key: str, message: str, act: Callable[[], None]) -> None:
        if self._items.ready(key):
            self._items.attempt(key, act, message, KubeError, CloudError, ValueError, provider_id=key)

    def _adopt(self, listed: CloudInstance, snapshot: Snapshot) -> None:
        try:
            instance = self._cloud.get(listed.provider_id)
        except InstanceNotFoundError:
            return  # terminated since it was listed
        provisioner = snapshot.provisioners.get(instance.provisioner_name)
        if instance.state not in ADOPTABLE or provisioner is None:
            self._log.info("Instance not adopted", id=instance.id, state=instance.state)
            return
        self._launcher.adopt(instance, provisioner)
        self._log.info("Adopted instance", id=instance.id, node=instance.node_name, provisioner=provisioner.name)

    def _terminate(self, removal: Removal, snapshot: Snapshot) -> None:
        try:
            instance = self._cloud.get(removal.provider_id)
            self._removals.terminate(instance)
        except InstanceNotFoundError:
            return
        self._log.warning("Terminated leaked instance", id=instance.id, because=removal.reason)
        subject, details = f"Instance/{instance.id}", instance_details(instance)
        self._record("LeakedInstance", subject, removal.reason, instance.provisioner_name, details)
        if (provisioner := snapshot.provisioners.get(instance.provisioner_name)) is not None:
            message = f"Terminated instance {instance.id} ({removal.name}): {removal.reason}"
            ref = ObjectRef.of(provisioner)
            self._events.publish(ref, "Warning", "TerminatedLeakedInstance", message, (instance.id,))

    def _delete_node(self, removal: Removal, snapshot: Snapshot) -> None:
        seen = snapshot.nodes[removal.name]
        node = seen.node
        try:
            self._removals.delete(node)
        except (NotFoundError, ConflictError):
            return
        self._log.warning("Deleted node", node=node.name, because=removal.reason)
        reason = "InstanceGone" if joined(node) else "FailedRegistration"
        self._record(reason, f"Node/{node.name}", removal.reason, seen.provisioner_name, node_details(seen))
        self._events.publish(ObjectRef.of(node), "Warning", reason, f"Deleting node: {removal.reason}", (node.uid,))

    def _record(self, check: str, subject: str, because: str, owner: str, details: FrozenMap[str, str]) -> None:
        self._recorder.count(CONSISTENCY_ERRORS, check)
        self._ledger.record(Decision("remove", self.name, subject, because, owner, action="delete", details=details))

    def _find(self, node: StateNode) -> CloudInstance | CloudError | ValueError | None:
        try:
            return self._cloud.find(node.node.provider_id)
        except (CloudError, ValueError) as error:
            return error

    def _unlisted(
        self, node: StateNode, instance: CloudInstance | CloudError | ValueError | None, snapshot: Snapshot
    ) -> None:
        """Delete the Node of an instance that is gone; report one that lacks the cluster's tag and runs."""
        key, ref = node.node.provider_id, ObjectRef.of(node.node)
        if isinstance(instance, Exception):
            self._log.debug("Instance of a Node not looked up", node=node.name, error=str(instance))
        elif because := instance_gone(node, instance):
            removal = Removal(node.name, key, because)
            self._attempt(key, "Node not deleted", partial(self._delete_node, removal, snapshot))
        elif instance is not None and not instance.owned and instance.state not in GOING:
            tag = f"kubernetes.io/cluster/{self._cluster}=owned"
            message = (
                f"Instance {instance.id} runs without the tag {tag}; put it back: the controller may not be allowed to "
                "terminate an instance without it"
            )
            self._recorder.count(CONSISTENCY_ERRORS, "LostTag")
            self._log.warning("Instance lacks the cluster's tag", node=node.name, id=instance.id)
            self._events.publish(ref, "Warning", "InstanceTagLost", message, (node.node.uid,))
