"""Registration and initialization: add the metadata that a joined node lacks, and label it once it is initialized.

While kube-scheduler still binds a burst, the label waits: these writes would make the last pods later.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from controller.cloud.catalogs import CatalogView
from controller.core.api.frozen import EMPTY
from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.node import Node
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.machines.cluster_proof import GOING
from controller.core.machines.node_documents import node_document
from controller.core.machines.registration import needs_instance, only_initializes, registration_patch
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import CloudError, ConflictError, KubeError, NotFoundError
from controller.kube.resources import NODES
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

CATALOG_RETRY_SECONDS = 5.0
WORKERS = 8
"""Nodes written at once: with one after the other, 500 nodes of a burst took most of a minute at 100 ms a request."""
MANY_PODS = 20
"""The label waits while at least this many pods wait for their plan or their binding: fewer are bound in a second."""
LABEL_SECONDS = 60.0
"""The longest that the label of one node waits."""
UNSEEN: dict[str, Any] = {}
"""In place of a document: the cloud does not list the instance (yet)."""
ENDING: dict[str, Any] = {}
"""In place of a document: the instance terminates, or did. Its kubelet made the Node anew after its removal; with our
finalizer it would have to be drained again."""

Due = tuple[StateNode, dict[str, Any] | None]
"""A node, and what is to be written; None: the cloud is to be asked first."""


class RegistrationReconciler(ContextReconciler):
    """Patch nodes that are not being deleted, nor their Provisioner."""

    name = "registration"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._complete: dict[str, tuple[str, str]] = {}
        """Of nodes that lacked nothing and are initialized or not Ready, by uid: version, and Provisioner's uid."""
        self._label_due: dict[str, float] = {}
        """When a node that lacks the label alone gets it at the latest, by uid."""
        self._planning = context.planning
        self._executor = context.executors.executor("initialize", WORKERS)

    def _pass(self, snapshot: Snapshot) -> float:
        """Bring every node's metadata up to date."""
        owned = [node for node in snapshot.nodes.values() if _concerns_us(node, snapshot)]
        uids = {node.node.uid for node in owned}
        self._items.keep(uids)
        self._complete = {uid: seen for uid, seen in self._complete.items() if uid in uids}
        starting = {node.provisioner_name for node in owned if node.node.ready and not node.initialized}
        view = self._catalogs.view(snapshot, starting) if starting else CatalogView()
        ready = [node for node in owned if self._items.ready(node.node.uid)]
        due = [(node, patch) for node in ready if (patch := self._lacks(node, snapshot, view)) != {}]
        due, label_seconds = self._without_labels_that_wait(due, snapshot)
        list(self._executor.map(lambda each: self._update(each[0].node, _owner(each[0], snapshot), view, each[1]), due))
        waiting_for_catalog = any(name not in view.types for name in starting)
        catalog_seconds = CATALOG_RETRY_SECONDS if waiting_for_catalog else float("inf")
        return min(self._items.next_try_seconds(), catalog_seconds, label_seconds)

    def _without_labels_that_wait(self, due: list[Due], snapshot: Snapshot) -> tuple[list[Due], float]:
        """Return those that are written now, and the seconds until the first label may wait no longer."""
        now = self._clock.monotonic()
        last = {node.node.uid: now + LABEL_SECONDS for node, patch in due if patch and only_initializes(patch)}
        if not last or not self._many_wait(snapshot):
            self._label_due.clear()
            return due, float("inf")
        self._label_due = {uid: self._label_due.get(uid, at) for uid, at in last.items()}
        waiting = {uid: at - now for uid, at in self._label_due.items() if at > now}
        return [each for each in due if each[0].node.uid not in waiting], min(waiting.values(), default=float("inf"))

    def _many_wait(self, snapshot: Snapshot) -> bool:
        """Return whether many pods wait: planned ones, and any while plans or launches go on."""
        planning = self._planning
        more = planning.unplanned or planning.launching
        waiting = islice((pod for pod in snapshot.unbound if more or pod.uid in planning.expected), MANY_PODS)
        return sum(1 for _ in waiting) == MANY_PODS

    def _lacks(self, node: StateNode, snapshot: Snapshot, view: CatalogView) -> dict[str, Any] | None:
        """What is to be written; None: the cloud is to be asked first. A node that lacks nothing is forgotten."""
        owner, uid, version = _owner(node, snapshot), node.node.uid, node.node.resource_version
        if self._complete.get(uid) == (version, owner.uid):
            return {}
        if needs_instance(node.node):
            return None
        try:
            patch = _patch(node.node, owner, view, None)
        except ValueError as error:
            self._items.failed(uid, error, "Registration failed", node=node.name)
            return {}
        if not patch:
            self._items.succeeded(uid)
            if node.initialized or not node.node.ready:
                self._complete[uid] = version, owner.uid
        return patch

    def _update(self, node: Node, provisioner: Provisioner, view: CatalogView, patch: dict[str, Any] | None) -> None:
        """Write the patch; None: the one with what the instance tells."""
        document = None
        try:
            if patch is None:
                document = self._instance_document(node, provisioner)
                patch = {} if document is ENDING else _patch(node, provisioner, view, document)
            written = self._kube.patch(NODES, node.name, patch) if patch else None
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Node changed during its registration", node=node.name, error=str(error))
            return
        except (KubeError, CloudError, ValueError) as error:
            self._items.failed(node.uid, error, "Registration failed", node=node.name)
            return
        if document is UNSEEN or document is ENDING:
            self._items.postpone(node.uid)
        else:
            self._items.succeeded(node.uid)
        if written is None:
            return
        self._informers.learn(NODES, written)
        initializes = INITIALIZED in patch.get("metadata", {}).get("labels", {})
        done = "Initialized node" if initializes else "Registered node"
        self._log.info(done, node=node.name, provisioner=provisioner.name)

    def _instance_document(self, node: Node, provisioner: Provisioner) -> dict[str, Any] | None:
        """Labels known from the instance alone, for a kubelet that registered before its Node was created."""
        if not node.provider_id:
            return None
        instance = self._cloud.find(node.provider_id)
        if instance is not None and instance.state in GOING:
            return ENDING
        return UNSEEN if instance is None or not instance.owned else node_document(instance, provisioner)


def _patch(node: Node, provisioner: Provisioner, view: CatalogView, document: dict[str, Any] | None) -> dict[str, Any]:
    """The patch. A node is not labelled initialized while its instance or its expected capacity is unknown."""
    known = provisioner.name in view.types and document is not UNSEEN
    return registration_patch(node, provisioner, _expected(node, view) if known else None, document)


def _owner(node: StateNode, snapshot: Snapshot) -> Provisioner:
    return snapshot.provisioners[node.provisioner_name]


def _concerns_us(node: StateNode, snapshot: Snapshot) -> bool:
    provisioner = snapshot.provisioners.get(node.provisioner_name)
    return node.node.deleted_at is None and provisioner is not None and provisioner.deleted_at is None


def _expected(node: Node, view: CatalogView) -> Resources:
    types = view.types.get(node.labels.get(PROVISIONER_NAME, ""), ())
    return next((entry.capacity for entry in types if entry.name == node.instance_type), EMPTY)
