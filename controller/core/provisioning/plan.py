"""SchedulingProblem, SolveOptions and SchedulingPlan: frozen values; each part of a plan carries its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, PricedOffering
from controller.core.provisioning.flexibility import PRICE_SPREAD, SPOT_OFFERINGS, expected_price
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode

PREFERENCE_PREMIUM = 2.0
"""Three times the price: what on-item costs beside spot is mostly within it, a node for each small pod is not."""


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How to solve."""

    budget_seconds: float = 1.0
    """A work limit, given as the seconds that it is about worth (the core has no clock): 0 returns the first plan,
    which packs class by class; more fills nodes by what pods are worth, and looks at more candidates."""
    weight_premium: float | None = 0.05
    """The heaviest Provisioner is taken unless it costs more than this share above the lightest's price; None: it is
    always taken."""
    preference_premium: float | None = PREFERENCE_PREMIUM
    """A preference that relaxation may give up is honoured unless the pod then costs more than this share above what it
    costs without; None: it is honoured at any price."""
    node_cost_per_hour: float = 0.002
    """What a node costs beside its price (daemons, image pulls, addresses, attention), in $/hour: it keeps a thousand
    tiny nodes from winning by a cent."""
    max_alternatives: int = 60
    """Offerings kept for each new node, the planned one included."""
    price_spread: float = PRICE_SPREAD
    """Offerings that cost more than the cheapest by over this share are not asked for at first; 0.25 is 25 %."""
    spot_offerings: int = SPOT_OFFERINGS
    """So many offerings a spot node asks for where it can, up to twice the spread."""
    spot_pool_share: float = 0.5
    """The part of a workload's replicas that one spot pool (type and zone) may carry, where spread is free; 1: all."""


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """Everything a solver may look at.

    `pending` are the pods to place. `nodes` are the nodes that may take pods (those that are leaving are left out; pods
    on them are counted by topology through `snapshot`). `provisioners` are the usable ones; `skipped` says why others
    are not.
    """

    pending: Sequence[Pod]
    nodes: tuple[StateNode, ...]
    provisioners: tuple[Provisioner, ...]
    catalog: Catalog
    snapshot: Snapshot
    """For what stands around: namespaces, volumes, DaemonSets, pods on nodes of every origin."""
    skipped: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    without_nodes: frozenset[str] = frozenset()
    """Nodes to think away (a simulation of their removal): they take no pods and count in no topology."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to launch."""

    provisioner: str
    offering: PricedOffering
    """What the plan counts on: the cheapest that fits."""
    alternatives: tuple[PricedOffering, ...]
    """Further offerings that would hold the same pods, cheapest first, the planned one left out."""
    requirements: Requirements
    """The Provisioner's and the pods' requirements together, with the topology domains that were committed."""
    labels: FrozenMap[str, str]
    """Labels of the Node that the plan settled: the Provisioner's own, and values chosen for custom keys."""
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    pods: Sequence[PodKey]
    """Sorted."""
    requests: Resources
    """Of the pods and of the daemons that will run there."""
    reason: str
    """What was chosen, the runner-up, and the difference."""
    runner_up: PricedOffering | None = None
    """The cheapest of another type or capacity type that would hold the same pods; None: there is none."""
    price_spread: float = PRICE_SPREAD
    spot_offerings: int = SPOT_OFFERINGS

    @property
    def expected_price(self) -> float:
        """$ an hour that EC2's choice among what is asked for comes to on the mean; `offering.price` is the least."""
        return expected_price(self.offering, self.alternatives, self.price_spread, self.spot_offerings)


@dataclass(frozen=True, slots=True)
class ExistingPlacement:
    """Pods for which a node that exists, or is on its way, has room."""

    node: str
    pods: Sequence[PodKey]
    """Sorted."""
    reason: str


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod that the plan leaves pending. `reason` says which rule, on which Provisioner, and what would help."""

    pod: PodKey
    reason: str


@dataclass(frozen=True, slots=True)
class DearPreference:
    """A preference that was not asked for, since it costs more than preferences may."""

    preference: str
    """Which: `node affinity to topology.kubernetes.io/zone In [eu-west-1a]`."""
    premium: float
    """What it costs, as a share of the pod's price without it."""
    pods: tuple[PodKey, ...]
    """Those of its class that go to new nodes, in the plan's order."""

    def said(self, allowed: float | None) -> str:
        """For people. `allowed`: the premium that preferences may cost."""
        most = "" if allowed is None else f", and preferences may cost {allowed:.0%} (preferencePremium)"
        return f"Preferred {self.preference} is not paid for: it costs {self.premium:.0%} more{most}"


@dataclass(frozen=True, slots=True)
class SchedulingPlan:
    """A solver's answer. Same problem, same plan, byte for byte, in whatever order the objects came (invariant 1)."""

    new_nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingPlacement, ...] = ()
    unplaced: tuple[UnplacedPod, ...] = ()
    too_dear: tuple[DearPreference, ...] = ()
    """What pods of the plan's new nodes prefer and do not get, for its price."""

    @property
    def price_per_hour(self) -> float:
        """$ an hour of the new nodes, at their planned offerings: the least that they can cost."""
        return sum(node.offering.price for node in self.new_nodes)

    @property
    def expected_price_per_hour(self) -> float:
        """$ an hour of the new nodes, as EC2 is expected to choose among their offerings."""
        return sum(node.expected_price for node in self.new_nodes)


@dataclass(frozen=True, slots=True)
class SolvedProblem:
    """A problem and its plan, for whoever judges the plan."""

    problem: SchedulingProblem
    plan: SchedulingPlan
