"""The cloud as the controller sees it: instance types and offerings, instances, and the CloudProvider protocol.

Everything that the controller asks of a cloud is a member of CloudProvider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.scheduling.requirements import Requirements


@dataclass(frozen=True, slots=True)
class Commitment:
    """A price that holds for a limited number of instances, shared by all offerings with the same `rule`."""

    rule: int
    left: int
    """Instances that may still be launched at the price."""
    otherwise: float
    """$ an hour of further instances."""


@dataclass(frozen=True, slots=True)
class CpuCredits:
    """The CPU that a burstable or flex type really has: `baseline` vCPUs, and more for a while.

    surplus_price: $ for a vCPU-hour beyond the baseline: what AWS charges or, where no more CPU is to be had, its
    worth to the pods that lack it.
    """

    baseline: float
    surplus_price: float

    def surplus(self, used: float) -> float:
        """Return the $/hour for an average use of so many vCPUs."""
        return max(0.0, used - self.baseline) * self.surplus_price


@dataclass(frozen=True, slots=True)
class Offering:
    """One zone and capacity type of an instance type. `price` in $/hour; unavailable ones are never planned."""

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    commitment: Commitment | None = None
    """The limit of `price`; None: it holds for any number of instances."""
    beside: float = 0.0
    """$/hour that AWS charges for a node beside the price: its volumes, a public address."""


@dataclass(frozen=True, slots=True)
class Interfaces:
    """The network interfaces of a node that pods take addresses of: `most` of them, each with so many IPv4 addresses,
    its own included; with `prefixes`, each of the others is a prefix of 16."""

    most: int
    addresses: int
    prefixes: bool = False


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type under one Provisioner and node template (its kubelet settings change what is allocatable).

    `requirements` are on the labels that every node of the type has, except zone and capacity type,
    which the offerings have. allocatable = capacity - overhead, per resource.
    """

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: tuple[Offering, ...]
    credits: CpuCredits | None = None
    """Only burstable and flex types have them."""
    interfaces: Interfaces | None = None

    @property
    def allocatable(self) -> Resources:
        """Capacity less kube-reserved, system-reserved and the eviction threshold; never below 0."""
        return FrozenMap({name: max(0, have - self.overhead.get(name, 0)) for name, have in self.capacity.items()})


Catalog = Mapping[str, tuple[InstanceType, ...]]
"""Instance types by Provisioner name."""


@dataclass(frozen=True, slots=True)
class PricedOffering:
    """An offering with its instance type. Sorts by cost, then price, type, zone, capacity type.

    Equal offerings have the same price; what they cost beside it depends on the node and its load.
    """

    price: float
    instance_type: str
    zone: str
    capacity_type: str
    beside: float = field(default=0.0, compare=False)
    """$/hour that a node costs beside its price, independent of its pods: volumes, a public address, agents."""
    surplus: float = field(default=0.0, compare=False)
    """$/hour of CPU beyond the baseline of a burstable or flex type, at the load it is planned for."""

    @property
    def cost(self) -> float:
        """Total $/hour: what plans minimise."""
        return self.price + self.beside + self.surplus

    @property
    def charged(self) -> float:
        """$/hour that depend on the type: the price and surplus CPU."""
        return self.price + self.surplus

    @property
    def in_words(self) -> str:
        """The price, and what else the node costs."""
        text = f"${self.price:.4f}/h"
        if self.surplus > 0:
            return f"{text} (${self.cost:.4f}/h in all, ${self.surplus:.4f}/h of it for CPU beyond its baseline)"
        return f"{text} (${self.cost:.4f}/h in all)" if self.beside > 0 else text

    def __lt__(self, other: PricedOffering) -> bool:
        return self.order < other.order

    @property
    def order(self) -> tuple[float, float, str, str, str]:
        """The sort key: sorting by it computes it once an offering, not at each comparison."""
        return self.cost, self.price, self.instance_type, self.zone, self.capacity_type


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One node to launch. `offerings` are in order of preference, the plan's first; where both capacity types are among
    them, the provider asks for spot first.

    The same `token` never launches twice. `labels` and taints are those of the Node.
    """

    token: str
    provisioner: Provisioner
    template: AWSNodeTemplate
    offerings: tuple[PricedOffering, ...]
    instance_types: Mapping[str, InstanceType]
    """The Provisioner's types by name: those of `offerings`, and all that the fleet may launch instead."""
    labels: FrozenMap[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requests: Resources = EMPTY
    on_record: bool = False
    """The token is recorded on a Node: the instance must have it as a tag from the start."""
    first_choice: tuple[PricedOffering, ...] = ()
    """Offerings to ask for first; the others only if none of these has capacity. Empty: any."""
    node_taints: tuple[Taint, ...] = ()
    """Further taints, which the Node is created with; its kubelet does not register with them."""
    opens_with: str = ""
    """What the nodes share that are opened to pods together (`core.machines.opening`). Empty: the node is open."""


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
    owned: bool = True
    """Whether it has this cluster's ownership tag. Without it, `list` and `get` do not show the instance."""
    subnet_id: str = ""
    security_group_ids: tuple[str, ...] = ()
    """Sorted. Empty, as `subnet_id` is, where unknown."""


@dataclass(frozen=True, slots=True)
class CloudIdentity:
    """The region and cluster to which the process's calls go, as the cloud reports them."""

    region: str
    cluster_arn: str = ""
    """ARN of the cluster with the settings' name: partition, region, account and name."""


@dataclass(frozen=True, slots=True)
class TemplateStatus:
    """What an AWSNodeTemplate's selectors match now. An empty tuple: nothing matches. None: the cloud did not answer.

    `problems` are for the template's author, or for whoever grants the controller its permissions; `unanswered` are
    requests that failed for a transient reason.
    """

    subnets: tuple[tuple[str, str], ...] | None = ()
    """(id, zone), most free addresses first."""
    security_groups: tuple[str, ...] | None = ()
    """Ids, sorted."""
    problems: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    ami_family: str = ""
    """AMI family of its nodes; empty if not known."""
    free_addresses: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Free addresses by subnet, as last read from EC2."""
    pod_subnets: tuple[tuple[str, str], ...] = ()
    """(id, zone) of those that pods of its nodes take addresses of instead (custom networking)."""
    closed_subnets: frozenset[str] = frozenset()
    """Subnets in which nothing is launched: by their tag, or because a zonal shift leaves their zone."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message of the interruption queue; `receipt` is what deletes it."""

    body: str
    receipt: str = ""


class InterruptionQueue(Protocol):
    """Messages about interruptions and state changes of instances; one that is not deleted is delivered again."""

    def receive(self, *, wait: bool = True) -> tuple[QueueMessage, ...]:
        """Take a few messages. With `wait`, wait for a limited time while there are none. Raises CloudError.

        Without `wait`, no answer is no proof that the queue is empty.
        """

    def delete(self, messages: Collection[QueueMessage]) -> int:
        """Delete messages that were handled; return how many are deleted, the others come again. Raises CloudError."""


class EmptyQueue:
    """The InterruptionQueue of a cluster that configured none."""

    def receive(self, *, wait: bool = True) -> tuple[QueueMessage, ...]:  # noqa: ARG002 - there is nothing to wait for
        """Return no messages, at once."""
        return ()

    def delete(self, messages: Collection[QueueMessage]) -> int:
        """Do nothing: there are no messages."""
        return len(messages)


class TypeSource(Protocol):
    """The part of a cloud that planning needs."""

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """Return the types that this Provisioner's template can launch, offerings priced; unavailable ones are marked.

        Raises NodeTemplateError when the template matches no subnet, and other CloudErrors.
        """


class Cloud(TypeSource, Protocol):
    """What loops may ask of a cloud. Only `controller.machines.removals` may terminate instances."""

    def identity(self) -> CloudIdentity:
        """Return where the process's calls go. Raises CloudErrors."""

    def create(self, request: LaunchRequest) -> CloudInstance:
        """Launch one instance, or return the one that this token launched before.

        Raises InsufficientCapacityError when no offering has capacity (they are unavailable in `instance_types` from
        then on, for a while), NodeTemplateError, CloudUnauthorizedError, CloudThrottledError.
        """

    def get(self, provider_id: str) -> CloudInstance:
        """Return the live instance, if it is this cluster's by its tags.

        Raises InstanceNotFoundError when it is terminated, unknown or not tagged; ValueError for an id that is not
        ours.
        """

    def find(self, provider_id: str) -> CloudInstance | None:
        """Return the instance by id, regardless of tags and state; None if the cloud does not know the id.

        Raises CloudErrors; ValueError for an id that is not ours.
        """

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        """Return those ids whose instance the cloud shows, regardless of tags and state. Raises CloudErrors."""

    def list(self) -> tuple[CloudInstance, ...]:
        """Return every live instance that this cluster's controller launched, found by tags."""

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        """Return ids of the images that the template's nodes may run now, sorted: a node of another image has drifted.

        Raises NodeTemplateError when there is none, and other CloudErrors.
        """

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        """Return what the template's selectors match now. Raises nothing: failures are part of the status."""

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        """Return one sentence for each setting of the two that is valid and has no effect.

        Raises NodeTemplateError for a template that cannot be used.
        """

    @property
    def interruptions(self) -> InterruptionQueue:
        """The interruption queue; an EmptyQueue where none is configured."""

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        """Treat this spot offering as unavailable for a while, since an instance of it is being interrupted."""

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        """Learn the memory of instance types from initialized nodes of this cluster's instances. Raises CloudError.

        Returns all that is known, as the data of a ConfigMap for `restore_memory`.
        """

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        """Restore what an earlier process learned; entries that cannot be parsed are ignored."""

    def zones_left(self) -> frozenset[str]:
        """Return the zones, by name, that a zonal shift leaves, as last read: no node is launched there."""

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        """Count addresses of pods in these subnets (ids by zone, of custom networking), elsewhere in the nodes'."""

    def price_book(self) -> Mapping[str, Any]:
        """Return the list prices of offerings as a JSON document with region, source and time; empty if not known."""

    def refresh(self) -> None:
        """Refresh cached data that is due; where a read fails, the cached data stays."""

    def check_permissions(self) -> None:
        """Try the calls that the controller makes. Raises CloudErrors; CloudUnauthorizedError names those refused."""


class CloudProvider(Cloud, Protocol):
    """The interface between the controller and a cloud. Implementations translate every error into a `CloudError`."""

    def delete(self, provider_id: str) -> None:
        """Terminate. Raises InstanceNotFoundError when it is gone already; ValueError for an id that is not ours."""
