"""Write the status of node templates: the subnets and security groups that the selectors match, or why none.

Fields for which AWS gives no answer keep their value; such a template is retried with exponential back-off.
"""

from __future__ import annotations

from typing import Any

from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import TemplateStatus
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ConflictError, KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import AWS_NODE_TEMPLATES
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.metrics import SUBNET_FREE_ADDRESSES, ZONE_LEFT

REFRESH_SECONDS = 300.0
"""Between two reads of an unchanged template (Karpenter v0.27's interval)."""
SHIFT_SECONDS = 30.0
"""Between two reads of the zones that zonal shifts leave, as the provider knows them."""


class NodeTemplatesReconciler(ContextReconciler):
    """Write the status of valid templates. The conditions of invalid ones are ConditionsReconciler's."""

    name = "nodetemplates"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}
        """By name: uid and generation, and when it is due again (monotonic seconds)."""
        self._free: dict[str, dict[tuple[str, ...], float]] = {}
        """By name of the template: free addresses by (subnet, zone)."""
        self._left: frozenset[str] = frozenset()
        """Zones that a zonal shift leaves, as last published."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Resolve templates that changed, and all of them every REFRESH_SECONDS; report zonal shifts."""
        names = set(snapshot.node_templates)
        self._items.keep(names)
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        self._free = {name: free for name, free in self._free.items() if name in names}
        now = self._clock.monotonic()
        for name, template in snapshot.node_templates.items():
            version, due_at = self._seen.get(name, (None, 0.0))
            changed = version != (template.uid, template.generation)
            if (changed or now >= due_at) and self._items.ready(name):
                self._refresh(template)
        self._report_shifts(snapshot)
        soonest = min((due_at for _, due_at in self._seen.values()), default=now + REFRESH_SECONDS)
        return max(0.0, min(soonest - now, self._items.next_try_seconds(), SHIFT_SECONDS))

    def _report_shifts(self, snapshot: Snapshot) -> None:
        """Publish on every template which zones a zonal shift starts or stops leaving, and set the metric."""
        left = self._cloud.zones_left()
        self._recorder.replace(ZONE_LEFT, {(zone,): 1.0 for zone in left})
        templates = [ObjectRef.of(template) for template in snapshot.node_templates.values()]
        for zone in sorted(left - self._left):
            self._log.warning("A zonal shift leaves the zone", zone=zone)
            message = f"a zonal shift leaves {zone}: no node is launched there, and none is removed voluntarily"
            for template in templates:
                self._events.publish(template, "Warning", "ZoneLeft", message, (zone,))
        for zone in sorted(self._left - left):
            self._log.info("The zonal shift is over", zone=zone)
            for template in templates:
                self._events.publish(
                    template, "Normal", "ZoneBack", f"the zonal shift that left {zone} is over", (zone,)
                )
        self._left = left

    def _refresh(self, template: AWSNodeTemplate) -> None:
        status = self._cloud.template_status(template)
        self._report_addresses(template.name, status)
        try:
            changed = self._write(template, status)
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Node template changed meanwhile", node_template=template.name, error=str(error))
            return
        except KubeError as error:
            self._items.failed(template.name, error, "Status could not be written", node_template=template.name)
            return
        if status.problems and changed:
            message = " | ".join(status.problems)
            self._log.warning("Node template cannot be used", node_template=template.name, problems=message)
            self._events.publish(ObjectRef.of(template), "Warning", "NotUsable", message, (message,))
        if status.unanswered:
            silence = CloudError(" | ".join(status.unanswered))
            self._items.failed(template.name, silence, "AWS gives no answer", node_template=template.name)
            return
        self._items.succeeded(template.name)
        due_at = self._clock.monotonic() + REFRESH_SECONDS
        self._seen[template.name] = ((template.uid, template.generation), due_at)

    def _report_addresses(self, name: str, status: TemplateStatus) -> None:
        """Set the gauge; subnets of a template that AWS does not answer for keep their last count."""
        if status.subnets is not None:
            counted = status.free_addresses
            every = (*status.subnets, *status.pod_subnets)
            self._free[name] = {key: counted[key[0]] for key in every if key[0] in counted}
            together: dict[tuple[str, ...], float] = {
                key: count for free in self._free.values() for key, count in free.items()
            }
            self._recorder.replace(SUBNET_FREE_ADDRESSES, together)

    def _write(self, template: AWSNodeTemplate, status: TemplateStatus) -> bool:
        """Write what differs; return whether the condition does."""
        present = self._kube.get(AWS_NODE_TEMPLATES, template.name).get("status") or {}
        wanted: dict[str, Any] = {
            key: value for key, value in _document(status).items() if (present.get(key) or []) != value
        }
        conditions = None
        if status.problems or not status.unanswered:
            held, problem = present.get("conditions") or [], " | ".join(status.problems)
            conditions = V1ALPHA5.conditions(held, problem, self._clock.now())
        if conditions is not None:
            wanted["conditions"] = conditions
        if wanted:
            self._kube.patch(AWS_NODE_TEMPLATES, template.name, {"status": wanted}, subresource="status")
        return conditions is not None


def _document(status: TemplateStatus) -> dict[str, Any]:
    """Return the known part of AWSNodeTemplate.status, as the API server takes it."""
    document: dict[str, Any] = {"amiFamily": status.ami_family} if status.ami_family else {}
    if status.subnets is not None:
        document["subnets"] = [{"id": subnet_id, "zone": zone} for subnet_id, zone in status.subnets]
    if status.security_groups is not None:
        document["securityGroups"] = [{"id": group_id} for group_id in status.security_groups]
    return document
