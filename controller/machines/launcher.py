"""Launch an instance, create its Node, and wait until the cluster state contains it.

The process may crash between these steps. The instance's tags are the write-ahead record: `adopt` creates the Node of
an instance that another process launched. Within one process a launch is *unsettled* until the watch has delivered its
Node. So that no pod gets a second node, a plan that is made meanwhile counts on the node by a stand-in
(`core.machines.on_their_way`), and none is made while an instance's Node could not be created.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import OPENS_WITH, PROVISIONER_NAME, TTL
from controller.core.api.node import Node, Taint
from controller.core.api.parse import parse_node
from controller.core.api.pod import PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Cloud, CloudInstance, LaunchRequest
from controller.core.decisions.launch_outcome import LaunchOutcome, launch_outcome
from controller.core.deprovisioning.drift import hashes
from controller.core.machines.node_documents import LAUNCH_TOKEN, missing_metadata, node_document, ttl_seconds
from controller.core.state.snapshot import Snapshot
from controller.errors import (
    AlreadyExistsError,
    CloudError,
    CloudUnauthorizedError,
    ConflictError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    InvalidObjectError,
    KubeError,
    NodeNameTakenError,
    NodeTemplateError,
    NotFoundError,
)
from controller.kube.client import KubeClient
from controller.kube.informers import Informers
from controller.kube.resources import NODES
from controller.machines.removals import Removals
from controller.runtime.clock import Clock
from controller.runtime.executors import Lock
from controller.runtime.loops import ItemBackoff

NO_POD: PodKey = ("", "")
CLOCKS_SECONDS = 5.0
"""How far EC2's clock may be behind the API server's; its times are whole seconds."""
CONFIRM_SECONDS = 5.0
"""After this long, a created Node that the watch has not delivered is read from the API server."""
BLOCKING_SECONDS = 60.0
"""How long an unsettled launch blocks planning. Later, garbage collection adopts its instance."""
CONSISTENCY_SECONDS = 30.0
"""How long EC2 may not show a new instance."""

REFUSALS = (InsufficientCapacityError, NodeTemplateError, CloudUnauthorizedError)
"""Errors by which nothing was launched for certain."""


@dataclass(frozen=True, slots=True)
class Launched:
    """An instance whose Node is to be created."""

    instance: CloudInstance
    provisioner: Provisioner
    labels: Mapping[str, str]
    token: str
    began: float
    annotations: Mapping[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    """Taints beside those of the Provisioner."""
    written_at: float | None = None
    pods: tuple[PodKey, ...] = ()
    """Pods for which it was launched; empty if not known."""
    name_taken: bool = False
    """A Node of another instance has its name."""


class Launcher:
    """One per process. Thread-safe."""

    def __init__(
        self, *, kube: KubeClient, informers: Informers, cloud: Cloud, removals: Removals, clock: Clock
    ) -> None:
        self._kube, self._informers, self._clock = kube, informers, clock
        self._cloud, self._removals = cloud, removals
        self._log = structlog.get_logger("launcher")
        self._backoff = ItemBackoff(clock, "launcher")
        self._lock = Lock()
        self._unsettled: dict[str, Launched] = {}
        self._registering: set[str] = set()
        """Provider ids of instances that their launcher is about to create the Node of, and to report."""
        self._asked: dict[str, float] = {}
        """Launch tokens of calls without a response yet, and when they were made (Unix seconds)."""
        self._unclear: dict[str, float] = {}
        """Launch tokens of calls that failed with an unknown outcome, and when (monotonic seconds)."""

    def launch(self, request: LaunchRequest, pods: Iterable[PodKey] = ()) -> CloudInstance:
        """Launch one instance for these pods, and create its Node: `create` and `register`."""
        return self.register(self.create(request, pods))

    def create(self, request: LaunchRequest, pods: Iterable[PodKey] = ()) -> Launched:
        """Launch one instance for these pods; the caller is to `register` it. Raises CloudError when that failed."""
        with self._lock:
            self._asked[request.token] = self._clock.now()
        try:
            instance = self._cloud.create(request)
            began = self._clock.monotonic()
            launch = Launched(
                instance,
                request.provisioner,
                request.labels,
                request.token,
                began,
                self._annotations(request),
                request.node_taints,
                pods=tuple(pods),
            )
            with self._lock:
                self._registering.add(instance.provider_id)
            self._note(launch)
        except REFUSALS:
            raise
        except Exception:
            with self._lock:
                self._unclear[request.token] = self._clock.monotonic()
            raise
        finally:
            with self._lock:
                self._asked.pop(request.token, None)
        self._log_outcome(launch_outcome(request, instance))
        return launch

    def _annotations(self, request: LaunchRequest) -> Mapping[str, str]:
        """Return the annotations of the Node of a launch, beside those of its Provisioner."""
        nodes = len(self._informers.snapshot().nodes) + self.under_way()
        opens = {OPENS_WITH: request.opens_with} if request.opens_with else {}
        return FrozenMap({**hashes(request.provisioner, request.template), TTL: str(ttl_seconds(nodes)), **opens})

    def register(self, launch: Launched, then: Callable[[CloudInstance], None] | None = None) -> CloudInstance:
        """Create the Node of a launched instance, and report it by `then`; the launch is under way until both are done.

        Raises KubeError when that is not possible yet: `settle` retries it. If the API server rejects the Node as
        invalid, the instance is terminated at once.
        """
        try:
            instance = self._register(launch)
            if then is not None:
                then(instance)
            return instance
        finally:
            with self._lock:
                self._registering.discard(launch.instance.provider_id)

    def under_way(self) -> int:
        """Count the calls to the cloud without a response, and the instances whose Node is about to be created."""
        with self._lock:
            return len(self._asked) + len(self._registering)

    def unsettled(self) -> str:
        """Return why another process might launch again what this one has launched; empty when it cannot.

        It finds an instance by its Node, or by its tags once the cloud shows it, which takes CONSISTENCY_SECONDS.
        """
        now, seconds = self._clock.monotonic(), CONSISTENCY_SECONDS
        with self._lock:
            unwritten = [each for each in self._unsettled.values() if each.written_at is None]
            hidden = [each for each in unwritten if now - each.began < seconds]
            unclear = [token for token, at in self._unclear.items() if now - at < seconds]
            counts = {
                "calls without an answer": len(self._asked),
                "instances without a Node": len(hidden),
                "calls whose outcome is not known": len(unclear),
            }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)

    def in_hand(self, instance: CloudInstance) -> bool:
        """Return whether a launch of this process is still to create the instance's Node, or may be.

        An instance of a call that several launches were merged into has a tag of its own: it may belong to any call
        without an answer that was made before it was launched.
        """
        with self._lock:
            first = min(self._asked.values(), default=math.inf)
            known = instance.provider_id in self._unsettled or instance.tags.get(LAUNCH_TOKEN) in self._asked
        return known or instance.launched_at >= first - CLOCKS_SECONDS

    def _log_outcome(self, outcome: LaunchOutcome) -> None:
        """Log what was launched, and how it differs from the planned offering."""
        difference = outcome.price_difference_per_hour
        planned = outcome.planned
        self._log.info(
            "Launched instance",
            id=outcome.instance_id,
            node=outcome.node_name,
            provisioner=outcome.provisioner,
            instance_type=outcome.instance_type,
            zone=outcome.zone,
            capacity_type=outcome.capacity_type,
            price_per_hour=outcome.price_per_hour,
            planned="" if outcome.as_planned else f"{planned.instance_type}/{planned.zone}/{planned.capacity_type}",
            price_difference_per_hour=None if difference is None else round(difference, 5),
        )
        if outcome.shortfall or not outcome.checked:
            self._log.warning(
                "Launched instance may not hold its pods; those that do not fit are planned again",
                id=outcome.instance_id,
                instance_type=outcome.instance_type,
                missing=dict(outcome.shortfall) or "its size is not known",
            )

    def adopt(self, instance: CloudInstance, provisioner: Provisioner) -> None:
        """Create the Node of an instance that has none. Raises KubeError."""
        launch = Launched(instance, provisioner, EMPTY, "", self._clock.monotonic())
        self._note(launch)
        self._register(launch)

    def open_tokens(self) -> frozenset[str]:
        """Return launch tokens of instances whose Node is not in the cluster state yet, as of the last `settle`."""
        with self._lock:
            return frozenset(launch.token for launch in self._unsettled.values())

    def settle(self, snapshot: Snapshot, counted: Collection[str] = ()) -> tuple[str, ...]:
        """Continue incomplete launches; return the ids of the instances that block planning.

        `counted`: launch tokens of nodes that the caller's plans count on already.
        """
        with self._lock:
            launches = list(self._unsettled.values())
        now = self._clock.monotonic()
        open_still = [launch for launch in launches if not self._settled(launch, snapshot, now)]
        recent = [launch for launch in open_still if now - launch.began < BLOCKING_SECONDS]
        blocking = [launch for launch in recent if launch.token not in counted]
        held_back = self._held_back(blocking)
        return tuple(launch.instance.id for launch in blocking if not held_back.issuperset(launch.pods or (NO_POD,)))

    def held_back(self) -> frozenset[PodKey]:
        """Return pods whose instance runs and waits for the name of its Node: they are not to be planned for."""
        now = self._clock.monotonic()
        with self._lock:
            launches = list(self._unsettled.values())
        return self._held_back(each for each in launches if now - each.began < BLOCKING_SECONDS)

    def _held_back(self, launches: Iterable[Launched]) -> frozenset[PodKey]:
        return frozenset(key for launch in launches if launch.name_taken for key in launch.pods)

    def _settled(self, launch: Launched, snapshot: Snapshot, now: float) -> bool:
        instance_id = launch.instance.id
        if launch.written_at is None:
            if launch.instance.provider_id not in self._registering and self._backoff.ready(instance_id):
                self._retry(launch)
            return False
        name = launch.instance.node_name
        if name in snapshot.nodes:
            self._forget(launch)
            return True
        if now - launch.written_at >= CONFIRM_SECONDS and self._backoff.ready(instance_id):
            try:
                self._kube.get(NODES, name)
            except NotFoundError:
                self._forget(launch)  # deleted since
                return True
            except KubeError as error:
                self._backoff.failed(instance_id, error, "Node of a launch not confirmed yet", node=name)
        return False

    def _retry(self, launch: Launched) -> None:
        try:
            self._register(launch)
        except (CloudError, KubeError) as error:
            self._backoff.failed(launch.instance.id, error, "Node of a launched instance not made yet")

    def _register(self, launch: Launched) -> CloudInstance:
        if not launch.instance.node_name:
            launch = self._with_name(launch)
        document = node_document(
            launch.instance, launch.provisioner, launch.labels, launch.token, launch.annotations, launch.taints
        )
        try:
            written = self._write(launch.instance, document)
        except InvalidObjectError:
            self._abandon(launch)
            raise
        except NodeNameTakenError:
            self._note(replace(launch, name_taken=True))
            raise
        self._informers.learn(NODES, written)
        self._backoff.succeeded(launch.instance.id)
        self._note(replace(launch, written_at=self._clock.monotonic()))
        return launch.instance

    def _with_name(self, launch: Launched) -> Launched:
        """Return the launch with the node name that the cloud has assigned. Raises CloudError while it has not."""
        instance_id = launch.instance.id
        try:
            instance = self._cloud.get(launch.instance.provider_id)
        except InstanceNotFoundError:
            if self._clock.now() - launch.instance.launched_at >= CONSISTENCY_SECONDS:
                self._forget(launch)
            raise
        if not instance.node_name:
            raise CloudError(f"Instance {instance_id} has no private DNS name yet, and so its Node has no name")
        launch = replace(launch, instance=instance)
        self._note(launch)
        return launch

    def _write(self, instance: CloudInstance, document: Mapping[str, Any]) -> dict[str, Any]:
        seen = self._informers.snapshot().nodes.get(instance.node_name)
        if seen is not None and seen.node.provider_id in ("", instance.provider_id):  # its kubelet was faster
            with suppress(ConflictError, NotFoundError):
                if patch := _lacking(seen.node, document):
                    return self._kube.patch(NODES, seen.name, patch)
        with suppress(AlreadyExistsError):  # the watch has not shown it yet, or an earlier process has made it
            return self._kube.create(NODES, document)
        try:
            return self._complete(instance, document)
        except NodeNameTakenError:
            raise
        except ConflictError:  # while the kubelet joins, it writes as well
            return self._complete(instance, document)

    def _complete(self, instance: CloudInstance, document: Mapping[str, Any]) -> dict[str, Any]:
        """Give a Node that is there what it lacks of the document."""
        name = instance.node_name
        present = self._kube.get(NODES, name)
        node = parse_node(present)
        if node.provider_id and node.provider_id != instance.provider_id:
            self._free_name(node)
            raise NodeNameTakenError(
                f"Node {name} still belongs to {node.provider_id}; "
                f"the Node of {instance.id} is made when that one is gone"
            )
        patch = _lacking(node, document)
        return self._kube.patch(NODES, name, patch) if patch else present

    def _free_name(self, node: Node) -> None:
        """Delete the Node that has a launch's name, if it is ours and its instance is gone.

        EC2 gives an address, and with it a name, again once its instance is terminated.
        """
        if node.deleted_at is not None or PROVISIONER_NAME not in node.labels:
            return
        try:
            if self._removals.departed(node) is not None:
                self._removals.delete(node)
                text = "Deleted the Node of a gone instance: a new one has its name"
                self._log.warning(text, node=node.name, provider_id=node.provider_id)
        except (CloudError, KubeError, ValueError) as error:
            self._log.info("Node that has a launch's name stays", node=node.name, because=str(error))

    def _abandon(self, launch: Launched) -> None:
        try:
            self._removals.abandon(launch.instance)
        except InstanceNotFoundError:
            self._log.info("Instance whose Node is invalid was gone already", id=launch.instance.id)
        self._forget(launch)

    def _note(self, launch: Launched) -> None:
        with self._lock:
            self._unsettled[launch.instance.provider_id] = launch

    def _forget(self, launch: Launched) -> None:
        self._backoff.succeeded(launch.instance.id)
        with self._lock:
            self._unsettled.pop(launch.instance.provider_id, None)


def _lacking(node: Node, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that gives a Node what it lacks of a launch's document; empty when that is nothing.

    The launch's own token replaces that of a call shared by several launches: a registration knows the tag alone.
    """
    patch = missing_metadata(node, document)
    token = document["metadata"]["annotations"].get(LAUNCH_TOKEN)
    if not token or node.annotations.get(LAUNCH_TOKEN) == token:
        return patch
    metadata = patch.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), LAUNCH_TOKEN: token}
    return {**patch, "metadata": {**metadata, "annotations": annotations}}
