"""Drift over the cloud: what node templates select now, and whether a node is still what would be launched."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controller.catalogs import template_of
from controller.clock import Clock
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.drift import drift_reason, missing_hashes
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.informers import Informers
from controller.loops import ItemBackoff

Images = Callable[[AWSNodeTemplate], Collection[str]]


class Drift:
    """Answers for one node at a time. `images` gives the image ids that nodes of a template may run now."""

    def __init__(self, informers: Informers, images: Images, clock: Clock) -> None:
        self._informers = informers
        self._images = images
        self._failing = ItemBackoff(clock, "drift")

    def wanted(self, candidate: Candidate, _now: float = 0.0) -> bool:
        """Whether the node has drifted by what the cluster and the cloud say now."""
        return bool(self.reason(candidate, self._informers.snapshot()))

    def reason(self, candidate: Candidate, snapshot: Snapshot) -> str:
        """Why the node has drifted; empty when it has not, or when its template is not usable."""
        template = self._template(candidate, snapshot)
        if template is None:
            return ""
        return drift_reason(candidate.node.node, candidate.provisioner, template, self._images_of(template))

    def missing(self, candidate: Candidate, snapshot: Snapshot) -> dict[str, str]:
        """Annotations that the node should get."""
        template = self._template(candidate, snapshot)
        return missing_hashes(candidate.node.node, candidate.provisioner, template) if template else {}

    def _template(self, candidate: Candidate, snapshot: Snapshot) -> AWSNodeTemplate | None:
        try:
            return template_of(snapshot, candidate.provisioner)
        except (CloudError, ValidationError):
            return None  # the Provisioner's condition says why

    def _images_of(self, template: AWSNodeTemplate) -> Collection[str] | None:
        """None while they cannot be had: nothing is removed for want of an answer (invariant 5)."""
        if template.launch_template or not self._failing.ready(template.name):
            return None
        try:
            found = self._images(template)
        except CloudError as error:
            self._failing.failed(
                template.name, error, "Images not known; no node drifts for them", template=template.name
            )
            return None
        self._failing.succeeded(template.name)
        return found
