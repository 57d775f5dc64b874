"""Even out the zones of a plan's nodes, within the zone balance of their Provisioners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from statistics import fmean

from controller.core.api.labels import SPOT, ZONE
from controller.core.cloud import Catalog, PricedOffering
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.state.snapshot import StateNode
from controller.core.zones.balance import Load, Move, PlannedZones, ZoneBalance, ZoneChoice, moves
from controller.core.zones.hints import EXCLUDED_LABELS

CPU = "cpu"


def even_zones(plan: SchedulingPlan, problem: SchedulingProblem, options: SolveOptions) -> SchedulingPlan:
    """Return the plan whose new nodes are in such zones that none has more than its share of a Provisioner's CPU.

    A node moves by naming the offerings of its new zone first; all others are named where those have no capacity, so
    that no pod waits for the balance. A node that only one zone allows stays there.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, node in enumerate(plan.new_nodes):
        places[node.provisioner].append(place)
    nodes = list(plan.new_nodes)
    for name in sorted(places):
        aim = options.zone_balance.of(problem.snapshot.provisioners[name].object_annotations)
        for place, node in list(_evened(nodes, places[name], problem, aim)):
            nodes[place] = node
    return replace(plan, new_nodes=tuple(nodes)) if tuple(nodes) != plan.new_nodes else plan


def _evened(
    nodes: Sequence[PlannedNode], places: Sequence[int], problem: SchedulingProblem, aim: ZoneBalance
) -> Iterator[tuple[int, PlannedNode]]:
    """Yield the nodes at these places that change; all are of one Provisioner."""
    name = nodes[places[0]].provisioner
    if aim.max_share >= 1.0:
        return
    load = zone_load(problem.snapshot.nodes.values(), name, aim, problem.without_nodes)
    if aim.cluster:
        load = load.plus(planned_load([node for node in nodes if node.provisioner != name], problem.catalog))
    if load.nodes + len(places) < aim.from_nodes:
        return
    cpu = {kind.name: kind.allocatable.get(CPU, 0) for kind in problem.catalog.get(name, ())}
    members: defaultdict[tuple[PricedOffering, int, tuple[PricedOffering, ...]], list[int]] = defaultdict(list)
    for place in places:  # equal nodes share their alternatives, which the plan keeps alive
        node = nodes[place]
        members[(node.offering, id(node.alternatives), node.first_choice)].append(place)
    groups = list(members.values())
    targets = [_targets(nodes[group[0]], aim.premium) for group in groups]
    planned = [
        _planned_zones(nodes[group[0]], len(group), zones, cpu) for group, zones in zip(groups, targets, strict=True)
    ]
    made = moves(load.cpu, planned, aim)
    crowded = {planned[move.group].zone for move in made}
    for index, group in enumerate(groups):
        left = list(group)
        for move in made:
            if move.group == index:
                for place in left[: move.count]:
                    yield place, _moved(nodes[place], targets[index][move.zone], move, planned[index])
                left = left[move.count :]
        if made:
            yield from ((place, _kept(nodes[place], crowded)) for place in left)


def zone_load(nodes: Iterable[StateNode], provisioner: str, aim: ZoneBalance, without: Set[str] = frozenset()) -> Load:
    """Return the CPU by zone of the Provisioner's nodes, or of all that topology hints count, without nodes that leave.

    Nodes of ours that still start count, since they will be Ready.
    """
    return Load.of(
        (node.node.labels.get(ZONE, ""), node.allocatable.get(CPU, 0))
        for node in nodes
        if node.name not in without and _counts(node, provisioner, aim)
    )


def planned_load(nodes: Sequence[PlannedNode], catalog: Catalog) -> Load:
    """Return the CPU by zone of planned nodes."""
    names = {node.provisioner for node in nodes}
    cpu = {(name, kind.name): kind.allocatable.get(CPU, 0) for name in names for kind in catalog.get(name, ())}
    return Load.of((node.offering.zone, cpu.get((node.provisioner, node.offering.instance_type), 0)) for node in nodes)


def _counts(node: StateNode, provisioner: str, aim: ZoneBalance) -> bool:
    if node.provisioner_name == provisioner:
        return node.takes_pods
    hinted = not any(label in node.node.labels for label in EXCLUDED_LABELS)
    return aim.cluster and hinted and not node.leaving and (bool(node.provisioner_name) or node.node.ready)


def _targets(node: PlannedNode, premium: float) -> dict[str, tuple[PricedOffering, ...]]:
    """Return, by zone, the offerings that the node would name there: as many as now at most, within the premium."""
    named = node.named
    most = (1.0 + premium) * _cost(node.offering, named)
    by_zone: defaultdict[str, list[PricedOffering]] = defaultdict(list)
    for offering in node.alternatives:
        if offering.capacity_type == node.offering.capacity_type and offering.zone != node.offering.zone:
            by_zone[offering.zone].append(offering)
    targets = {}
    for zone, offerings in by_zone.items():
        chosen: list[PricedOffering] = []
        for offering in sorted(offerings)[: len(named)]:
            if fmean(each.cost for each in (*chosen, offering)) <= most:
                chosen.append(offering)
        if chosen:
            targets[zone] = tuple(chosen)
    return targets


def _planned_zones(
    node: PlannedNode, count: int, targets: Mapping[str, Sequence[PricedOffering]], cpu: Mapping[str, int]
) -> PlannedZones:
    now = _cost(node.offering, node.named)
    others = {
        zone: ZoneChoice(cpu.get(offerings[0].instance_type, 0), _cost(offerings[0], offerings) - now)
        for zone, offerings in targets.items()
    }
    return PlannedZones(node.offering.zone, cpu.get(node.offering.instance_type, 0), count, others)


def _cost(first: PricedOffering, named: Sequence[PricedOffering]) -> float:
    """Return what EC2's choice among the offerings costs, $/hour: on demand it is the first, for spot any of them."""
    return first.cost if first.capacity_type != SPOT else fmean(offering.cost for offering in named)


def _moved(node: PlannedNode, named: tuple[PricedOffering, ...], move: Move, before: PlannedZones) -> PlannedNode:
    first = named[0]
    others = tuple(sorted(o for o in (node.offering, *node.alternatives) if o != first))
    extra = before.others[move.zone].extra
    cost = f"${extra:.4f}/h more" if extra > 0 else "no more"
    why = f"{node.reason}; in {move.zone} as {before.zone} has its share of the CPU (zone balance, {cost})"
    return replace(node, offering=first, alternatives=others, first_choice=named, reason=why, zone_extra=extra)


def _kept(node: PlannedNode, crowded: Set[str]) -> PlannedNode:
    """Return a node that stays where it is planned: EC2 may choose no crowded zone for it, nor, in one, another."""
    own = node.offering.zone
    named = tuple(o for o in node.named if o.zone == own or not {own, o.zone} & crowded)
    return node if named == node.named else replace(node, first_choice=named)
