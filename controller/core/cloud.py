"""What the core knows of a cloud: instance types, their offerings, and the five verbs of a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.scheduling.requirements import Requirements


@dataclass(frozen=True, slots=True)
class Commitment:
    """A price that holds for a number of instances alone: of all offerings of the same `rule` together."""

    rule: int
    left: int
    """Instances that may still be launched at the price."""
    otherwise: float
    """$ an hour of those beyond."""


@dataclass(frozen=True, slots=True)
class Offering:
    """One zone and capacity type of an instance type. `price` in $/hour; unavailable ones are never planned."""

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    commitment: Commitment | None = None
    """What `price` holds for; None: for as many instances as are launched."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type under one Provisioner and node template (its kubelet settings change what is allocatable).

    `requirements` hold the labels that every node of the type has (zone and capacity type are not among them: they are
    the offerings'). allocatable = capacity - overhead, per resource.
    """

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: tuple[Offering, ...]

    @property
    def allocatable(self) -> Resources:
        """Capacity less kube-reserved, system-reserved and the eviction threshold; never below 0."""
        return FrozenMap({name: max(0, have - self.overhead.get(name, 0)) for name, have in self.capacity.items()})


Catalog = Mapping[str, tuple[InstanceType, ...]]
"""Instance types by Provisioner name."""


@dataclass(frozen=True, slots=True, order=True)
class PricedOffering:
    """An offering with its type: what a node may be launched as. Sorts by price, then name, zone, capacity type."""

    price: float
    instance_type: str
    zone: str
    capacity_type: str


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One node to launch. `offerings` are in the order of preference, the first is the plan's; where both capacity
    types are among them, the provider asks for spot first.

    `token` names the plan item: the same token never launches twice. `labels` and taints are what the Node must have.
    """

    token: str
    provisioner: Provisioner
    template: AWSNodeTemplate
    offerings: tuple[PricedOffering, ...]
    instance_types: Mapping[str, InstanceType]
    """The Provisioner's types by name: those of `offerings`, and all that the fleet may turn out to have given."""
    labels: FrozenMap[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requests: Resources = EMPTY
    on_record: bool = False
    """The token stands on record elsewhere: the instance must carry it as a tag from the start."""


@dataclass(frozen=True, slots=True)
class CloudInstance:
    """An instance of this cluster, as its tags and the cloud's API describe it."""

    id: str
    provider_id: str
    """aws:///ZONE/ID."""
    node_name: str
    """The name its kubelet registers under; empty while the cloud does not know it yet."""
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str
    state: str
    """pending, running, stopping, stopped, shutting-down; a terminated instance is not found."""
    launched_at: float
    provisioner_name: str
    tags: FrozenMap[str, str] = EMPTY
    labels: FrozenMap[str, str] = field(default=EMPTY)
    """Labels of the Node: those of the instance type, zone, capacity type, image id, provisioner name, and the labels
    that its launch request carried."""
    subnet_id: str = ""
    security_group_ids: tuple[str, ...] = ()
    """Sorted. Both are empty where nobody knows them."""


class TypeSource(Protocol):
    """The one question that planning asks of a cloud."""

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """The types that this Provisioner's template can launch, offerings priced; unavailable ones are marked.

        Raises NodeTemplateError when the template matches no subnet, and other CloudErrors.
        """


class CloudProvider(TypeSource, Protocol):
    """The seam between the controller and a cloud. Implementations translate every error into `CloudError`s."""

    def create(self, request: LaunchRequest) -> CloudInstance:
        """Launch one instance, or return the one that this token launched before.

        Raises InsufficientCapacityError when no offering has capacity (they are unavailable in `instance_types` from
        then on, for a while), NodeTemplateError, CloudUnauthorizedError, CloudThrottledError.
        """

    def get(self, provider_id: str) -> CloudInstance:
        """Raises InstanceNotFoundError when it is terminated or unknown; ValueError for an id that is not ours."""

    def list(self) -> tuple[CloudInstance, ...]:
        """Every live instance that this cluster's controller launched, found by tags."""

    def delete(self, provider_id: str) -> None:
        """Terminate. Raises InstanceNotFoundError when it is gone already; ValueError for an id that is not ours."""
