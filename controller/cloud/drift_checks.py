"""Drift over the cloud: what node templates select now, and whether a node is still what would be launched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.cloud.catalogs import template_of
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.cloud import CloudInstance
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.drift import drift_reason, missing_hashes, network_reason
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.informers import Informers
from controller.runtime.clock import Clock
from controller.runtime.loops import ItemBackoff

Images = Callable[[AWSNodeTemplate], Collection[str]]
Networks = Callable[[AWSNodeTemplate], tuple[Collection[str], Collection[str]]]
"""Ids of the subnets and of the security groups that a template selects now; empty where they cannot be had."""
NETWORK_SECONDS = 60.0
"""How old an answer about networks may be: subnets of instances do not change, security groups seldom."""


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """What templates select, and the instances of the cluster; both may raise CloudErrors."""

    selected: Networks
    instances: Callable[[], Iterable[CloudInstance]]


class Drift:
    """Answers for one node at a time. `images` gives the image ids that nodes of a template may run now.

    Without `network`, subnets and security groups drift by their selectors' hash alone.
    """

    def __init__(
        self, informers: Informers, images: Images, clock: Clock, network: NetworkSource | None = None
    ) -> None:
        self._informers = informers
        self._images = images
        self._clock = clock
        self._network = network
        self._failing = ItemBackoff(clock, "drift")
        self._instances: Mapping[str, CloudInstance] = {}
        self._listed_at = float("-inf")
        self._selected: dict[tuple[str, int], tuple[float, tuple[Collection[str], Collection[str]]]] = {}

    def wanted(self, candidate: Candidate, _now: float = 0.0) -> bool:
        """Whether the node has drifted by what the cluster and the cloud say now."""
        return bool(self.reason(candidate, self._informers.snapshot()))

    def reason(self, candidate: Candidate, snapshot: Snapshot) -> str:
        """Why the node has drifted; empty when it has not, or when its template is not usable."""
        template = self._template(candidate, snapshot)
        if template is None:
            return ""
        node = candidate.node.node
        stated = drift_reason(node, candidate.provisioner, template, self._images_of(template))
        return stated or self._network_reason(node.provider_id, template)

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

    def _network_reason(self, provider_id: str, template: AWSNodeTemplate) -> str:
        if self._network is None:
            return ""
        instance = self._listed(self._network).get(provider_id)
        if instance is None:
            return ""
        subnets, groups = self._selection(self._network, template)
        return network_reason(instance, template, subnets, groups)

    def _selection(self, network: NetworkSource, template: AWSNodeTemplate) -> tuple[Collection[str], Collection[str]]:
        """Asked once a minute for each version of a template, however many nodes it has and whatever the answer was."""
        now, key = self._clock.monotonic(), (template.uid, template.generation)
        if now - self._selected.get(key, (float("-inf"), ((), ())))[0] >= NETWORK_SECONDS:
            self._selected = {
                known: entry for known, entry in self._selected.items() if now - entry[0] < NETWORK_SECONDS
            }
            self._selected[key] = (now, network.selected(template))
        return self._selected[key][1]

    def _listed(self, network: NetworkSource) -> Mapping[str, CloudInstance]:
        """The instances by provider id; the list that was while there is no newer one."""
        now = self._clock.monotonic()
        if now - self._listed_at >= NETWORK_SECONDS and self._failing.ready(NetworkSource):
            try:
                self._instances = {instance.provider_id: instance for instance in network.instances()}
            except CloudError as error:
                self._failing.failed(NetworkSource, error, "Instances not known; no node drifts for its network")
            else:
                self._failing.succeeded(NetworkSource)
                self._listed_at = now
        return self._instances
