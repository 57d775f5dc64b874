"""SchedulingProblem, SolveOptions and SchedulingPlan: frozen values; each part of a plan carries its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, PricedOffering
from controller.core.provisioning.flexibility import Flexibility
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.zones.balance import ZoneBalance


@dataclass(frozen=True, slots=True)
class Beside:
    """What is counted beside prices.

    node: $/hour of every node. cpu_use: the part of the CPU requested that pods use, on the mean; 0: burstable and flex
    types are not told from others. charges: whether what AWS charges beside the price counts (`Offering.beside`).
    """

    node: float = 0.0
    cpu_use: float = 0.0
    charges: bool = True


NOTHING_BESIDE = Beside(charges=False)


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How to solve. ADRs 21 to 24 give the figures behind the defaults."""

    budget_seconds: float = 1.0
    """Work that a solve may do, in seconds of one core at about 3 GHz; 0: only the first plan, made greedily.

    The core reads no clock, so that equal problems get equal plans: the budget is held against work that is counted,
    not against time (`optimize/work_budget.py`). A core half as fast takes twice as long for the same plan. The default
    is as long as pods wait anyway for the batch window to close."""
    weight_premium: float | None = 0.05
    """What a Provisioner's weight is worth, as a share of the price. 0.05: the heaviest Provisioner is used unless it
    costs over 5 % more than one without weight, so that weight decides between about equal prices only. None: the
    heaviest that fits always wins, as in Karpenter v0.27 (the controller's default, `weightPremium`)."""
    preference_premium: float | None = 2.0
    """What honouring one preference may cost (preferred affinity, ScheduleAnyway, PreferNoSchedule), as a share of the
    pod's price without it. 2.0 allows three times that price: on-demand instead of spot is mostly within it, a node for
    each small pod is not. None: preferences are honoured at any price."""
    node_cost_per_hour: float = 0.02
    """What a node costs beside all that AWS charges for it, in $/hour: agents that are billed by host, image pulls.
    Without it many tiny nodes would win over a few large ones by a fraction of a cent. ADR 24 says where the default
    comes from."""
    cpu_use: float = 0.5
    """The part of the CPU requested that pods use, on the mean: burstable types' surplus credits are priced by it."""
    charges: bool = True
    """Whether plans count what AWS charges for a node beside its price: volumes, a public address."""
    max_alternatives: int = 60
    """Offerings kept for each new node, the planned one included. It bounds the size of plans and launch requests."""
    flexibility: Flexibility = field(default_factory=Flexibility)
    """Which of a node's offerings EC2 is asked for, and so what the node is expected to cost."""
    spot_pool_share: float = 0.5
    """Largest share of a workload's replicas on nodes of one spot pool (instance type and zone), where other pools cost
    about the same. 0.5: when EC2 reclaims a whole pool, half of the replicas keep running. 1.0: no such rule."""
    zone_balance: ZoneBalance = field(default_factory=ZoneBalance)
    """How even the zones of a Provisioner's nodes shall be, where its annotations do not say."""

    @property
    def beside(self) -> Beside:
        """What is counted beside prices."""
        return Beside(self.node_cost_per_hour, self.cpu_use, self.charges)

    def of_prices_alone(self) -> SolveOptions:
        """Return these options with prices as all that counts: for bounds on prices."""
        return replace(self, node_cost_per_hour=0.0, cpu_use=0.0, charges=False)


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """All input of a solve."""

    pending: Sequence[Pod]
    """The pods to place."""
    nodes: tuple[StateNode, ...]
    """The existing nodes that may take pods. Nodes that are being removed are missing here; topology still counts their
    pods, through `snapshot`."""
    provisioners: tuple[Provisioner, ...]
    """The Provisioners that can be used."""
    catalog: Catalog
    snapshot: Snapshot
    """The cluster: namespaces, volumes, DaemonSets, and the pods of all nodes."""
    skipped: Mapping[str, str] = EMPTY
    """Why each of the other Provisioners cannot be used, by name."""
    without_nodes: frozenset[str] = frozenset()
    """Names of nodes treated as removed, to simulate their removal: they take no pods and topology ignores them."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to launch."""

    provisioner: str
    offering: PricedOffering
    """The cheapest offering that holds the pods."""
    alternatives: tuple[PricedOffering, ...]
    """Further offerings that hold the same pods, cheapest first."""
    requirements: Requirements
    """The Provisioner's and the pods' requirements combined, with the topology domains that were allocated."""
    labels: FrozenMap[str, str]
    """Labels that the plan determines: the Provisioner's own, and values chosen for the labels it leaves open."""
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    pods: Sequence[PodKey]
    """The pods planned for the node, sorted by namespace and name."""
    requests: Resources
    """Requests of the pods and of the DaemonSet pods that will run there."""
    reason: str
    """What was chosen, the runner-up, and the difference in price."""
    flexibility: Flexibility = field(default_factory=Flexibility)
    first_choice: tuple[PricedOffering, ...] = ()
    """The spot offerings that its launch names first, so that a workload's nodes are of different ones; the others are
    named if none of these has capacity. Empty: `flexibility` decides."""
    zone_extra: float | None = None
    """What it costs more, $/hour, in the zone that zone balance moved it to; None: it was not moved."""

    @property
    def runner_up(self) -> PricedOffering | None:
        """The cheapest alternative of another instance type or capacity type; None: there is none."""
        planned = (self.offering.instance_type, self.offering.capacity_type)
        return next((o for o in self.alternatives if (o.instance_type, o.capacity_type) != planned), None)

    @property
    def named(self) -> tuple[PricedOffering, ...]:
        """The offerings that its launch names first; of the planned one's capacity type."""
        every = (self.offering, *self.alternatives)
        chosen = tuple(offering for offering in every if offering in self.first_choice)
        own = [offering for offering in every if offering.capacity_type == self.offering.capacity_type]
        return chosen or tuple(self.flexibility.named(own))

    @property
    def expected_price(self) -> float:
        """$/hour: mean price of the offerings EC2 chooses from; `offering.price` is the least of them."""
        return self.flexibility.expected_price(self.offering, self.named)


@dataclass(frozen=True, slots=True)
class ExistingPlacement:
    """Pods placed on an existing node, which may still be starting."""

    node: str
    pods: Sequence[PodKey]
    """The pods planned for the node, sorted by namespace and name."""
    reason: str


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod that stays pending. `reason` names the rule that binds on each Provisioner, and what would help."""

    pod: PodKey
    reason: str
    limited: Mapping[str, str] = EMPTY
    """By Provisioner, the limit of its spec that is reached, in words."""


@dataclass(frozen=True, slots=True)
class DearPreference:
    """A preference that the plan ignores because it costs more than `SolveOptions.preference_premium`."""

    preference: str
    """For instance `node affinity to topology.kubernetes.io/zone In [eu-west-1a]`."""
    premium: float
    """What it costs, as a share of the pod's price without it."""
    pods: tuple[PodKey, ...]
    """The pods of the class that go to new nodes, in the plan's order."""

    def said(self, allowed: float | None) -> str:
        """Return a sentence for events and reports. `allowed`: the preference premium."""
        most = "" if allowed is None else f", and preferences may cost {allowed:.0%} (preferencePremium)"
        return f"Preferred {self.preference} is not paid for: it costs {self.premium:.0%} more{most}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proven of a plan's cost ($/hour, as the solver counts it: see `SolveOptions`).

    least: no plan that places the same pods, honours the same preferences and whose rules hold once all pods are placed
    costs less; above 0 unless the cost is 0, too. spread: what nodes cost more on top of `cost` as they name offerings
    of other spot pools or zones than the cheapest, which is asked for whatever is optimal.
    """

    cost: float
    least: float
    spread: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether no plan costs less."""
        return self.cost <= self.least * (1.0 + 1e-6) + 1e-9

    @property
    def gap(self) -> float:
        """What the plan may cost above the optimum at most, as a share of `least`: 0.02 for 2 %."""
        return 0.0 if self.optimal else self.cost / self.least - 1.0

    def __str__(self) -> str:
        text = "optimal" if self.optimal else f"at most {self.gap:.1%} above the optimum"
        return f"{text}, plus ${self.spread:.4f}/h to spread nodes over spot pools and zones" if self.spread else text


@dataclass(frozen=True, slots=True)
class SchedulingPlan:
    """A solver's answer. Equal problems give equal plans, in whatever order their objects came (invariant 1)."""

    new_nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingPlacement, ...] = ()
    unplaced: tuple[UnplacedPod, ...] = ()
    too_dear: tuple[DearPreference, ...] = ()
    """Preferences of pods on new nodes that are ignored for their price."""
    proof: Proof | None = None
    """Of small batches: how far the plan is from the optimum at most; None: not known."""

    @property
    def price_per_hour(self) -> float:
        """$/hour of the new nodes at their planned offerings: the least that they can cost."""
        return sum(node.offering.price for node in self.new_nodes)

    @property
    def cost_per_hour(self) -> float:
        """$/hour of the new nodes, all in all: price, what they cost beside it, surplus CPU. Plans minimise this."""
        return sum(node.offering.cost for node in self.new_nodes)

    @property
    def expected_price_per_hour(self) -> float:
        """$/hour of the new nodes at the prices expected from EC2's choice among their offerings."""
        return sum(node.expected_price for node in self.new_nodes)


@dataclass(frozen=True, slots=True)
class SolvedProblem:
    """A problem and its plan, for the audit."""

    problem: SchedulingProblem
    plan: SchedulingPlan
