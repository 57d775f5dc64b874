"""Spread a workload's spot nodes over spot pools, families and zones where that costs next to nothing.

EC2 reclaims capacity together: of a pool (an instance type in a zone), often of a family, at worst of a zone. So nodes
that carry replicas of one workload name different ones first. None of them should carry more than
`SolveOptions.spot_pool_share` of the replicas, whichever of the offerings named first EC2 picks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from controller.core.api import labels
from controller.core.cloud import PricedOffering
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions

MOST_PREMIUM = 0.03
"""What spreading may add to the expected price of the plan's spot nodes, as a share of it."""
MOST_PREMIUM_OF_NODE = 0.15
"""What it may add to one of them."""
MOST_CANDIDATES = 24
"""Offerings that a node chooses from: the cheapest of these families and zones."""
SWEEPS = 2
"""Times that nodes in domains beyond their share choose anew, when all others have chosen."""

LEAST_REPLICAS = 4
"""Replicas from which on a workload is at risk where one domain carries more than its share."""

Domain = tuple[str, str]
"""What EC2 reclaims together: (instance type, zone), (family, "") or ("", zone)."""


def share_pools(
    plan: SchedulingPlan,
    problem: SchedulingProblem,
    options: SolveOptions,
    snapshot_index: SnapshotIndex,
    premium: float = MOST_PREMIUM,
) -> SchedulingPlan:
    """The plan with a first choice of offerings for the spot nodes that can be spread.

    premium: what that may add to the expected price of the plan's spot nodes, as a share of it.
    """
    if options.spot_pool_share >= 1.0:
        return plan
    carried = [workloads(node.pods) for node in plan.new_nodes]
    sharing = _Sharing(carried, options.spot_pool_share, premium)
    if not sharing.total:
        return plan
    if problem.nodes:
        sharing.count_standing(Standing.of(problem, snapshot_index))
    sharing.choose(plan.new_nodes, carried)
    chosen = {seat.place: seat for seat in sharing.seats}
    return replace(
        plan,
        new_nodes=tuple(
            _with_first_choice(node, chosen[place]) if place in chosen else node
            for place, node in enumerate(plan.new_nodes)
        ),
    )


def domains_of(instance_type: str, zone: str) -> tuple[Domain, Domain, Domain]:
    """The pool, the zone and the family of a spot offering."""
    return (instance_type, zone), ("", zone), (instance_type.partition(".")[0], "")


@dataclass(frozen=True, slots=True)
class Standing:
    """Replicas that run on the nodes of a problem: of each workload in all, and on spot nodes by domain."""

    total: Counter[str]
    load: defaultdict[str, Counter[Domain]]

    @classmethod
    def of(cls, problem: SchedulingProblem, snapshot_index: SnapshotIndex) -> Standing:
        """Count them."""
        every = cls(Counter(), defaultdict(Counter))
        places = {snapshot_index.place[node.name] for node in problem.nodes}
        domains = {place: _domains(snapshot_index.nodes[place].node.labels) for place in places}
        for workload, counts in snapshot_index.replicas.items():
            for place in counts.keys() & places:
                every.total[workload] += counts[place]
                for domain in domains[place]:
                    every.load[workload][domain] += counts[place]
        return every

    def at_risk(self, plan: SchedulingPlan, share: float) -> set[str]:
        """Return the workloads of the plan that the loss of one domain may take over their share of."""
        total, load = Counter[str](), defaultdict[str, Counter[Domain]](Counter)
        for node in plan.new_nodes:
            own = workloads(node.pods)
            total.update(own)
            if node.offering.capacity_type == labels.SPOT:
                domains = {domain for o in node.named for domain in domains_of(o.instance_type, o.zone)}
                for name, count in own.items():
                    load[name].update(dict.fromkeys(domains, count))
        for placement in plan.existing:
            total.update(workloads(placement.pods))
        found = set()
        for name in load:
            most = share * (total[name] + self.total[name])
            every = load[name] + self.load[name]
            if total[name] + self.total[name] >= LEAST_REPLICAS and max(every.values()) > most:
                found.add(name)
        return found


def _domains(own: Mapping[str, str]) -> Collection[Domain]:
    """Return those of a node with these labels; none on demand."""
    if own.get(labels.CAPACITY_TYPE) != labels.SPOT:
        return ()
    return domains_of(own.get(labels.INSTANCE_TYPE, ""), own.get(labels.ZONE, ""))


def expected_cost(plan: SchedulingPlan, *, spot: bool = False) -> float:
    """Return what the new nodes (or those on spot alone) cost in all by EC2's expected choice of offerings, $/hour."""
    cost = 0.0
    for node in plan.new_nodes:
        if node.offering.capacity_type == labels.SPOT:
            cost += fmean(offering.cost for offering in node.named)
        elif not spot:
            cost += node.offering.cost
    return cost


@dataclass(slots=True)
class _Seat:
    """A spot node that can be spread: its place in the plan, its replicas by workload, and what it may name.

    freely: its expected price without a first choice, surplus CPU counted in, $/hour. candidates: cheapest first.
    named: its first choice.
    """

    place: int
    replicas: Mapping[str, int]
    freely: float
    candidates: Sequence[PricedOffering]
    named: list[PricedOffering] = field(default_factory=list)

    @property
    def premium(self) -> float:
        """$/hour that the first choice adds."""
        return fmean(offering.charged for offering in self.named) - self.freely if self.named else 0.0

    @property
    def domains(self) -> frozenset[Domain]:
        """Of all offerings that it names."""
        return frozenset(domain for o in self.named for domain in domains_of(o.instance_type, o.zone))


class _Sharing:
    """Replicas by workload, and how many of them each domain may carry at most.

    total: all replicas by workload. load: by domain and workload, replicas on spot nodes that may be of the domain.
    """

    def __init__(self, carried: Iterable[Mapping[str, int]], share: float, premium: float) -> None:
        self.share = share
        self.premium = premium
        self.total: Counter[str] = Counter()
        self.load: defaultdict[Domain, Counter[str]] = defaultdict(Counter)
        self.seats: list[_Seat] = []
        for replicas in carried:
            self.total.update(replicas)

    def count_standing(self, standing: Standing) -> None:
        """Count the replicas that run already."""
        for workload in tuple(self.total):
            self.total[workload] += standing.total[workload]
            for domain, count in standing.load[workload].items():
                self.load[domain][workload] += count

    def choose(self, nodes: Sequence[PlannedNode], carried: Sequence[Mapping[str, int]]) -> None:
        """Choose an offering for each node that can be spread, then further ones where that fills no domain."""
        found: dict[tuple[PricedOffering, int], tuple[float, list[PricedOffering]]] = {}
        for place, (node, own) in enumerate(zip(nodes, carried, strict=True)):
            if node.offering.capacity_type != labels.SPOT:
                continue
            # Workloads with one replica, or with more on this node than a domain may carry, cannot be spread.
            replicas = {name: n for name, n in own.items() if self.total[name] >= 2 and n <= self._most(name)}
            if replicas:
                # Equal nodes share their alternatives, which the plan keeps alive.
                key = (node.offering, id(node.alternatives))
                if key not in found:
                    found[key] = fmean(offering.charged for offering in node.named), _candidates(node)
                self.seats.append(_Seat(place, replicas, *found[key]))
        budget = self.premium * sum(seat.freely for seat in self.seats if nodes[seat.place].first_choice)
        packed = [seat for seat in self.seats if nodes[seat.place].first_choice]
        for seat in packed:
            self._name(seat, list(nodes[seat.place].first_choice))
        for seat in self.seats:
            if seat.named:
                continue
            # What later nodes may need is kept for them.
            budget += self.premium * seat.freely
            self._name(seat, [self._best(seat, budget)])
            budget -= seat.premium
        for _ in range(SWEEPS):
            for seat in self.seats:
                if beyond := self._beyond(seat):
                    budget += seat.premium
                    self._take_back(seat)
                    self._name(seat, [self._best(seat, budget, seat.replicas.keys() - beyond)])
                    budget -= seat.premium
        for seat in self.seats:
            budget += seat.premium
            self._add_more(seat, nodes[seat.place].flexibility.spot_offerings, budget)
            budget -= seat.premium

    def _beyond(self, seat: _Seat) -> set[str]:
        """Return the workloads of the seat of which a domain of the seat carries more than its share."""
        most = {workload: self._most(workload) for workload in seat.replicas}
        return {workload for workload in most if any(self.load[d][workload] > most[workload] for d in seat.domains)}

    def _best(self, seat: _Seat, budget: float, kept: Collection[str] = ()) -> PricedOffering:
        """The affordable offering that fills domains beyond their share least; then the cheapest; then the emptiest.

        kept: workloads of which no domain gets more than its share for the sake of others, if that can be had.
        """
        excess: dict[Domain, tuple[int, int, int]] = {}
        for offering in seat.candidates:
            for domain in domains_of(offering.instance_type, offering.zone):
                if domain not in excess:
                    excess[domain] = self._excess(seat, domain, kept)

        def rank(offering: PricedOffering) -> tuple[int, int, float, int, PricedOffering]:
            each = [excess[domain] for domain in domains_of(offering.instance_type, offering.zone)]
            lost, over, held = map(sum, zip(*each, strict=True))
            return lost, over, offering.charged, held, offering

        affordable = [o for o in seat.candidates if o.charged - seat.freely <= max(0.0, budget)]
        return min(affordable or seat.candidates[:1], key=rank)

    def _excess(self, seat: _Seat, domain: Domain, kept: Collection[str] = ()) -> tuple[int, int, int]:
        """Replicas beyond the share of workloads if the seat is of the domain: of those kept, of all of the seat's;
        and the domain's load of them."""
        load, lost, over, held = self.load[domain], 0, 0, 0
        for workload, count in seat.replicas.items():
            held += load[workload]
            beyond = max(0, load[workload] + count - self._most(workload))
            over += beyond
            lost += beyond if workload in kept else 0
        return lost, over, held

    def _add_more(self, seat: _Seat, wanted: int, budget: float) -> None:
        """Name further offerings of the same zone, `wanted` in all, where no domain gets more than its share."""
        for offering in seat.candidates:
            if len(seat.named) >= wanted:
                return
            new = frozenset(domains_of(offering.instance_type, offering.zone)) - seat.domains
            if offering in seat.named or ("", offering.zone) in new or any(self._excess(seat, d)[1] for d in new):
                continue
            dearer = fmean(o.charged for o in (*seat.named, offering)) - seat.freely
            if dearer <= max(seat.premium, min(budget, MOST_PREMIUM_OF_NODE * seat.freely)):
                named = [*seat.named, offering]
                self._take_back(seat)
                self._name(seat, named)

    def _name(self, seat: _Seat, named: list[PricedOffering]) -> None:
        seat.named = named
        for domain in seat.domains:
            self.load[domain].update(seat.replicas)

    def _take_back(self, seat: _Seat) -> None:
        for domain in seat.domains:
            self.load[domain].subtract(seat.replicas)
        seat.named = []

    def _most(self, workload: str) -> int:
        return max(1, int(self.share * self.total[workload]))


def _candidates(node: PlannedNode) -> list[PricedOffering]:
    """The spot offerings that a node may name first, cheapest first."""
    spot = sorted(o for o in (node.offering, *node.alternatives) if o.capacity_type == labels.SPOT)
    most = (1.0 + MOST_PREMIUM_OF_NODE) * fmean(offering.charged for offering in node.named)
    cheapest: dict[tuple[Domain, ...], PricedOffering] = {}
    for offering in spot:
        if offering.charged <= most:
            cheapest.setdefault(domains_of(offering.instance_type, offering.zone)[1:], offering)
    return list(cheapest.values())[:MOST_CANDIDATES] or spot[:1]


def _with_first_choice(node: PlannedNode, seat: _Seat) -> PlannedNode:
    """The node as it is planned after `_Sharing.choose`."""
    if set(seat.named) == set(node.named):
        return node
    first, *_ = sorted(seat.named)
    others = tuple(sorted(o for o in (node.offering, *node.alternatives) if o != first))
    why = f"{node.reason}; {first.instance_type} in {first.zone} first, as other nodes of its workloads are elsewhere"
    return replace(node, offering=first, alternatives=others, first_choice=tuple(sorted(seat.named)), reason=why)
