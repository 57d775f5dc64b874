"""PodDisruptionBudget status: how many pods may be evicted now (what the Eviction API decides by)."""

from __future__ import annotations

from datetime import timedelta

from sandbox.world.clock import parse_timestamp
from sandbox.world.controllers.base import Context, Controller, is_deleting, is_ready, scaled, with_condition
from sandbox.world.resources import (
    DEPLOYMENTS,
    PDBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Key,
    Obj,
    controller_of,
    key_of,
)
from sandbox.world.scheduling.selectors import LabelSelector

EVICTION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod that has not begun to go is counted as disrupted (disruption controller's
DeletionTimeout)."""


class UnknownScaleError(Exception):
    """A pod has no controller whose scale is known, so percentages and maxUnavailable have no base."""


class DisruptionController(Controller):
    """Writes status under the resourceVersion that it read: the Eviction API writes there too."""

    name = "disruption"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.budgets = self.watch(PDBS)
        self.pods = self.informers.of(PODS)
        self.pods.add_index("namespace", lambda pod: [pod["metadata"]["namespace"]])
        self.pods.add_handler(self._on_pod)
        self.owners = {kind.kind: self.informers.of(kind) for kind in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)}
        for informer in self.owners.values():
            informer.add_handler(self._on_owner)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        for budget in self.budgets:
            if any(obj is not None and _covers(budget, obj) for obj in (old, new)):
                self.queue.add(key_of(budget))

    def _on_owner(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and new is not None and old["spec"].get("replicas") == new["spec"].get("replicas"):
            return
        namespace = (new or old or {})["metadata"]["namespace"]
        for budget in self.budgets:
            if budget["metadata"]["namespace"] == namespace:
                self.queue.add(key_of(budget))

    async def sync(self, key: Key) -> float | None:
        """Count, and write what differs; look again when a pending eviction times out."""
        budget = self.budgets.get(key)
        if budget is None:
            return None
        pods = [pod for pod in self.pods.by("namespace", key[0]) if _covers(budget, pod)]
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            is_ready(pod) and not is_deleting(pod) and pod["metadata"]["name"] not in disrupted for pod in pods
        )
        try:
            expected, desired = self._desired(budget, pods)
        except (UnknownScaleError, ValueError) as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self.recorder.publish(
                PDBS, budget, "CalculateExpectedPodCountFailed", message, component="controllermanager", warning=True
            )
            await self._fail_safe(budget, message)
            return None
        allowed = max(0, healthy - desired) if expected > 0 else 0
        verdict = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        status = {
            "observedGeneration": budget["metadata"].get("generation"),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "conditions": with_condition(budget, "DisruptionAllowed", *verdict, "", self.now()),
            **({"disruptedPods": disrupted} if disrupted else {}),
        }
        await self._write(budget, status)
        return EVICTION_TIMEOUT.total_seconds() * self.clock.scale if disrupted else None

    def _disrupted(self, budget: Obj, pods: list[Obj]) -> dict[str, str]:
        """Evictions that were granted and have not begun: they count as gone for two minutes."""
        present = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
        known = (budget.get("status") or {}).get("disruptedPods") or {}
        now = self.clock.now()
        return {
            name: at for name, at in known.items() if name in present and now - parse_timestamp(at) < EVICTION_TIMEOUT
        }

    def _desired(self, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
        """(expectedPods, desiredHealthy). Raises UnknownScaleError."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - scaled(spec["maxUnavailable"], expected, round_up=True, default=0))
        least = spec.get("minAvailable")
        if isinstance(least, str) and least.endswith("%"):
            expected = self._scale(pods)
            return expected, scaled(least, expected, round_up=True, default=0)
        return len(pods), int(least or 0)

    def _scale(self, pods: list[Obj]) -> int:
        """The replicas that the controllers of the pods want, each controller counted once."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = self._top_owner(pod)
            wanted[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
        return sum(wanted.values())

    def _top_owner(self, pod: Obj) -> Obj:
        reference = controller_of(pod)
        owner = self._owner(pod, reference)
        if owner is None:
            kind = reference["kind"] if reference is not None else "no controller"
            raise UnknownScaleError(f"pod {pod['metadata']['name']} is owned by {kind}, which has no known scale")
        return self._owner(owner, controller_of(owner)) or owner

    def _owner(self, obj: Obj, reference: Obj | None) -> Obj | None:
        informer = self.owners.get(reference["kind"]) if reference is not None else None
        if informer is None or reference is None:
            return None
        found = informer.get((obj["metadata"]["namespace"], reference["name"]))
        return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None

    async def _fail_safe(self, budget: Obj, message: str) -> None:
        """Unknown numbers allow no disruption."""
        status = {
            **(budget.get("status") or {}),
            "disruptionsAllowed": 0,
            "observedGeneration": budget["metadata"].get("generation"),
            "conditions": with_condition(budget, "DisruptionAllowed", "False", "SyncFailed", message, self.now()),
        }
        for field in ("currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
        await self._write(budget, status)

    async def _write(self, budget: Obj, status: Obj) -> None:
        if (budget.get("status") or {}) == status:
            return
        self.budgets.absorb(await self.client.replace(PDBS, {**budget, "status": status}, "status"))


def _covers(budget: Obj, pod: Obj) -> bool:
    """policy/v1: an empty selector covers every pod of the namespace, an absent one none."""
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector = LabelSelector.parse(budget["spec"].get("selector"))
    return selector is not None and selector.matches(pod["metadata"].get("labels") or {})
