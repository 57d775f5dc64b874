"""Events on Provisioners and metrics when a guard binds: launch limits, on-demand mix, headroom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.pod import Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.guards.headroom import HEADROOM_ANNOTATION
from controller.core.guards.mix import BASE_ANNOTATION, PERCENTAGE_ANNOTATION, mix_of
from controller.core.guards.spending import Guards
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan
from controller.core.state.snapshot import Snapshot
from controller.kube.events import EventRecorder, ObjectRef
from controller.runtime.metrics import GUARD_REFUSALS, HEADROOM_UNITS, Recorder


class GuardEvents:
    """Publish the events and metrics of one loop."""

    def __init__(self, events: EventRecorder, recorder: Recorder) -> None:
        self._events = events
        self._recorder = recorder

    def refused(self, guards: Guards, snapshot: Snapshot) -> None:
        """Report launches that a limit refused."""
        for guard, name, refusal in guards.refused:
            self._recorder.count(GUARD_REFUSALS, guard, name)
            message = f"A node was not launched: {refusal}"
            self._publish(snapshot.provisioners[name], "Warning", "LaunchLimited", message, guard)

    def limited(self, plan: SchedulingPlan, snapshot: Snapshot) -> None:
        """Report Provisioners whose spec.limits keep pods pending."""
        waiting = Counter((name, text) for left in plan.unplaced for name, text in left.limited.items())
        for (name, text), pods in sorted(waiting.items()):
            if name in snapshot.provisioners:
                message = f"{pods} pod{' stays' if pods == 1 else 's stay'} pending: {text}"
                self._publish(snapshot.provisioners[name], "Warning", "LimitReached", message, text)

    def mixed(self, provisioner: Provisioner, planned: Sequence[PlannedNode], mixed: Sequence[PlannedNode]) -> None:
        """Report nodes that only the mix makes on-demand: `planned` before it, `mixed` after it, in the same order."""
        turned = sum(one.offering != other.offering for one, other in zip(planned, mixed, strict=True))
        mix = mix_of(provisioner)
        if not turned or mix is None:
            return
        dearer = sum(node.offering.price for node in mixed) - sum(node.offering.price for node in planned)
        asked = mix.problem or f"{BASE_ANNOTATION} {mix.base}, {PERCENTAGE_ANNOTATION} {mix.percentage}"
        message = f"{turned} of {len(planned)} new nodes on demand, at ${dearer:.4f} an hour more: {asked}"
        kind = "Warning" if mix.problem else "Normal"
        self._events.publish(ObjectRef.of(provisioner), kind, "OnDemandMix", message, (provisioner.uid, message))

    def unreadable_headroom(self, provisioner: Provisioner, error: ValueError) -> None:
        """Report an annotation that cannot be parsed: it reserves nothing until it is corrected."""
        message = f"annotation {HEADROOM_ANNOTATION}: {error}"
        self._publish(provisioner, "Warning", "HeadroomInvalid", message, message)

    def headroom(self, units: Mapping[PodKey, Pod], plan: SchedulingPlan, snapshot: Snapshot) -> None:
        """Measure how much of the headroom is kept, and report why the rest is not."""
        wanted = Counter(map(_owner, units.values()))
        kept = Counter(_owner(units[key]) for placement in plan.existing for key in placement.pods)
        counts: dict[tuple[str, ...], float] = {(name, "wanted"): wanted[name] for name in wanted}
        counts.update({(name, "kept"): kept[name] for name in wanted})
        self._recorder.replace(HEADROOM_UNITS, counts)
        for name, reason in {_owner(units[left.pod]): left.reason for left in plan.unplaced}.items():
            message = f"Headroom is not kept: {reason}"
            self._publish(snapshot.provisioners[name], "Warning", "HeadroomUnmet", message, message)

    def _publish(self, provisioner: Provisioner, kind: str, reason: str, message: str, dedupe: str) -> None:
        self._events.publish(ObjectRef.of(provisioner), kind, reason, message, (provisioner.name, dedupe))


def _owner(unit: Pod) -> str:
    return unit.spec.node_selector[PROVISIONER_NAME]
