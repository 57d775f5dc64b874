"""Compare nodes with what their Provisioner and node template would launch now, by the cloud's answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.cloud.catalogs import template_of
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.cloud import Cloud, CloudInstance
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.drift import drift_reason, missing_hashes, network_reason
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.runtime.clock import Clock
from controller.runtime.loops import ItemBackoff

NETWORK_SECONDS = 60.0
"""Maximum age of answers about networks: an instance's subnet never changes, its security groups rarely."""
_INSTANCES = ("instances",)
"""Back-off key of failures to list instances; templates are keyed by name."""


class DriftChecks:
    """Drift reasons from images, subnets and security groups. An answer that is missing never makes a node drift."""

    def __init__(self, cloud: Cloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._failing = ItemBackoff(clock, "drift")
        self._instances: Mapping[str, CloudInstance] = {}
        self._listed_at = float("-inf")
        self._selected: dict[tuple[str, int], tuple[float, tuple[Collection[str], Collection[str]]]] = {}
        """By template (uid, generation): when it was asked (monotonic seconds); ids of subnets and security groups."""

    def reason(self, candidate: Candidate, snapshot: Snapshot) -> str:
        """Return why the node has drifted; empty when it has not, or when its template is not usable."""
        template = self._template(candidate, snapshot)
        if template is None:
            return ""
        node = candidate.node.node
        stated = drift_reason(node, candidate.provisioner, template, self._images_of(template))
        return stated or self._network_reason(node.provider_id, template)

    def missing_hashes(self, candidate: Candidate, snapshot: Snapshot) -> dict[str, str]:
        template = self._template(candidate, snapshot)
        return missing_hashes(candidate.node.node, candidate.provisioner, template) if template else {}

    def _template(self, candidate: Candidate, snapshot: Snapshot) -> AWSNodeTemplate | None:
        try:
            return template_of(snapshot, candidate.provisioner)
        except (CloudError, ValidationError):
            return None  # the Provisioner's condition says why

    def _images_of(self, template: AWSNodeTemplate) -> Collection[str] | None:
        """Return the template's image ids; None while they are not known."""
        if template.launch_template or not self._failing.ready(template.name):
            return None
        try:
            images = self._cloud.image_ids(template)
        except CloudError as error:
            self._failing.failed(
                template.name, error, "Images not known; no node drifts for them", template=template.name
            )
            return None
        self._failing.succeeded(template.name)
        return images

    def _network_reason(self, provider_id: str, template: AWSNodeTemplate) -> str:
        instance = self._listed().get(provider_id)
        if instance is None:
            return ""
        subnets, groups = self._selection(template)
        return network_reason(instance, template, subnets, groups)

    def _selection(self, template: AWSNodeTemplate) -> tuple[Collection[str], Collection[str]]:
        """Return the ids of the subnets and security groups that the template selects, empty where they are not known.

        Asked every NETWORK_SECONDS for each version of a template, however many nodes it has, and also after failures.
        """
        now, key = self._clock.monotonic(), (template.uid, template.generation)
        if now - self._selected.get(key, (float("-inf"), ((), ())))[0] >= NETWORK_SECONDS:
            self._selected = {
                known: entry for known, entry in self._selected.items() if now - entry[0] < NETWORK_SECONDS
            }
            status = self._cloud.template_status(template)
            subnets = frozenset(subnet_id for subnet_id, _ in status.subnets or ())
            self._selected[key] = (now, (subnets, frozenset(status.security_groups or ())))
        return self._selected[key][1]

    def _listed(self) -> Mapping[str, CloudInstance]:
        """Return the instances by provider id; the last list while a newer one cannot be read."""
        now = self._clock.monotonic()
        if now - self._listed_at >= NETWORK_SECONDS and self._failing.ready(_INSTANCES):
            try:
                self._instances = {instance.provider_id: instance for instance in self._cloud.list()}
            except CloudError as error:
                self._failing.failed(_INSTANCES, error, "Instances not known; no node drifts for its network")
            else:
                self._failing.succeeded(_INSTANCES)
                self._listed_at = now
        return self._instances
