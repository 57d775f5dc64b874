"""Write the conditions of Provisioners and of invalid node templates, with every reason why one cannot be used."""

from __future__ import annotations

from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.machines.cluster_proof import Standing
from controller.core.state.snapshot import InvalidObject, Snapshot
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

CHECK_SECONDS = 30.0
"""Between two checks of the catalogs: the matches of selectors may change."""

RESOURCES = {resource.kind: resource for resource in (PROVISIONERS, AWS_NODE_TEMPLATES)}


class ConditionsReconciler(ContextReconciler):
    """Write conditions. The status of valid node templates is NodeTemplatesReconciler's."""

    name = "conditions"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._written: dict[tuple[str, str], tuple[str, int, str]] = {}
        """By (kind, name): uid, generation and problem as last written."""
        self._checked: tuple[object, ...] = ()
        """The generations of all objects at the last check."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Write conditions that changed; check when an object changed, and every CHECK_SECONDS."""
        generations = _generations(snapshot)
        if generations == self._checked and (left := self._left_seconds()) > 0:
            return left
        pause = self._check(snapshot)
        self._checked = generations
        return self._due_in(pause)

    def _check(self, snapshot: Snapshot) -> float:
        states = {key: entry for key, entry in snapshot.invalid.items() if key[0] in RESOURCES}
        problems, proof = self._catalogs.view(snapshot).problems, self._removals.proof
        elsewhere = f"Nothing is launched or removed: {proof.because}" if proof.standing is Standing.DISPROVED else ""
        for name, provisioner in snapshot.provisioners.items():
            problem = problems.get(name, "") or elsewhere
            states["Provisioner", name] = InvalidObject(
                "Provisioner", name, provisioner.uid, provisioner.generation, problem
            )
        self._written = {key: state for key, state in self._written.items() if key in states}
        self._items.keep(set(states))
        for key, entry in sorted(states.items()):
            state = (entry.uid, entry.generation, entry.error)
            if self._written.get(key) != state and self._items.ready(key):
                self._write(key, entry, state)
        return min(CHECK_SECONDS, self._items.next_try_seconds())

    def _write(self, key: tuple[str, str], entry: InvalidObject, state: tuple[str, int, str]) -> None:
        try:
            changed = self._write_condition(entry)
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Object changed meanwhile", kind=entry.kind, object=entry.name, error=str(error))
            return
        except KubeError as error:
            self._items.failed(key, error, "Condition could not be written", kind=entry.kind, object=entry.name)
            return
        self._items.succeeded(key)
        _, _, before = self._written.get(key, ("", 0, ""))
        self._written[key] = state
        if before and not entry.error:
            self._log.info("Object can be used again", kind=entry.kind, object=entry.name)
        if entry.error and changed:
            self._log.warning("Object cannot be used", kind=entry.kind, object=entry.name, problems=entry.error)
            ref = ObjectRef(RESOURCES[entry.kind].api_version, entry.kind, entry.name, entry.uid)
            dedupe = (entry.uid, str(entry.generation), entry.error)
            self._events.publish(ref, "Warning", "NotUsable", entry.error, dedupe)

    def _write_condition(self, entry: InvalidObject) -> bool:
        """Write the condition; returns whether it changed."""
        resource = RESOURCES[entry.kind]
        present = self._kube.get(resource, entry.name).get("status", {}).get("conditions") or []
        conditions = V1ALPHA5.conditions(present, entry.error, self._clock.now())
        if conditions is None:
            return False
        self._kube.patch(resource, entry.name, {"status": {"conditions": conditions}}, subresource="status")
        return True


def _generations(snapshot: Snapshot) -> tuple[object, ...]:
    """Return a value that changes with the Provisioners and node templates, but not with their status."""
    return (
        tuple((entry.uid, entry.generation) for entry in snapshot.provisioners.values()),
        tuple((entry.uid, entry.generation, entry.deleted_at) for entry in snapshot.node_templates.values()),
        tuple(snapshot.invalid.items()),
    )
