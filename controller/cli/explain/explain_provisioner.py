"""Explain a Provisioner: what its requirements, limits and disruption budgets leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.limits_report import LimitStatus, provisioner_limit_statuses
from controller.cli.cluster.node_facts import node_facts
from controller.cli.explain.answer import Answer, Section
from controller.cli.explain.history import events_section
from controller.cli.explain.subjects import not_found
from controller.cli.formatting import count, money, percent
from controller.core.api.disruption import REASONS
from controller.core.api.labels import CAPACITY_TYPE, ZONE
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, PricedOffering
from controller.core.deprovisioning.gate import allowance
from controller.core.provisioning.offerings.usable import meets
from controller.core.provisioning.solver.zone_shares import zone_load
from controller.core.scheduling.requirements import Requirements

SHOWN = 5
EVERY_NODE_HAS = ("cpu", "memory", "$ an hour")


def explain_provisioner(cluster: ClusterView, name: str, now: float) -> Answer:
    """Explain a Provisioner. Raises NotFoundError."""
    snapshot = cluster.snapshot
    provisioner, invalid = snapshot.provisioners.get(name), snapshot.invalid.get(("Provisioner", name))
    events = events_section(cluster.kube, "Provisioner", name, "", now)
    if provisioner is None and invalid is not None:
        broken = Section("Broken rules", tuple(invalid.error.split(" | ")))
        return Answer(f"Provisioner {name}", "is not valid: it launches nothing", {}, (broken, events))
    if provisioner is None:
        raise not_found("Provisioner", name, snapshot.provisioners)
    problem = cluster.view.problems.get(name, "")
    types = cluster.view.types.get(name, ())
    limits = tuple(provisioner_limit_statuses(cluster, provisioner, now))
    sections = (
        Section("Problems", tuple(problem.split(" | ")) if problem else ()),
        Section("What its requirements leave", tuple(_funnel(provisioner, types))),
        Section("Cheapest offerings", tuple(_cheapest(provisioner, types))),
        Section("Limits", tuple(_limits(provisioner, limits))),
        Section("Nodes that may be on their way out at once", tuple(_budgets(cluster, provisioner, now))),
        events,
    )
    stops = [f"{each.what} is {each.state}" for each in limits if _stops(each)]
    why = f": its limit of {' and '.join(stops)}" if stops and not problem else ""
    verdict = f"launches nothing now{why}" if problem or stops else "can launch nodes"
    return Answer(f"Provisioner {name}", verdict, _facts(cluster, provisioner, now), sections, cluster.price_notes)


def _stops(limit: LimitStatus) -> bool:
    """Return whether no node fits within the limit: each has some of what EVERY_NODE_HAS."""
    return limit.what in EVERY_NODE_HAS and limit.state in ("full", "unreadable")


def _facts(cluster: ClusterView, provisioner: Provisioner, now: float) -> dict[str, str]:
    prices = cluster.prices
    own = [node for node in cluster.snapshot.nodes.values() if node.provisioner_name == provisioner.name]
    known = [node_facts(node, prices, now).price_per_hour for node in own]
    total = sum(price for price in known if price is not None)
    heavier = sum(each.weight > provisioner.weight for each in cluster.snapshot.provisioners.values())
    after_empty, expired = provisioner.disruption.empty_after_seconds, provisioner.disruption.expire_after_seconds
    return {
        "template": provisioner.provider_ref or "inline (spec.provider)",
        "weight": f"{provisioner.weight}; {count(heavier, 'Provisioner')} before it",
        "nodes": f"{len(own)}, {money(total)}/h" + (", some of unknown price" if None in known else ""),
        "consolidation": "on" if provisioner.disruption.consolidation else "off",
        "empty nodes go": f"after {after_empty} s" if after_empty is not None else "",
        "nodes expire": f"after {expired} s" if expired is not None else "",
        "zones": _zones(cluster, provisioner),
        "taints": ", ".join(f"{t.key}={t.value}:{t.effect}" for t in provisioner.taints),
    }


def _zones(cluster: ClusterView, provisioner: Provisioner) -> str:
    """Return the zones' shares of the CPU that its zone balance counts, and the aim; empty without nodes."""
    aim = cluster.options.zone_balance.of(provisioner.object_annotations)
    load = zone_load(cluster.snapshot.nodes.values(), provisioner.name, aim)
    total = sum(load.cpu.values())
    if not total:
        return ""
    shares = ", ".join(f"{zone} {percent(cpu / total)}" for zone, cpu in sorted(load.cpu.items()))
    whose = "the cluster's CPU" if aim.cluster else "its CPU"
    if aim.max_share >= 1.0:
        return f"{shares} of {whose}; left to prices"
    moving = aim.move_seconds and provisioner.disruption.consolidation
    moves = f"; a node moves every {aim.move_seconds / 60:g} min while one has more" if moving else ""
    most = f"at most {percent(aim.max_share)} from {aim.from_nodes} nodes on"
    return f"{shares} of {whose}; {most}, where a node costs up to {percent(aim.premium)} more{moves}"


def _funnel(provisioner: Provisioner, types: tuple[InstanceType, ...]) -> Iterator[str]:
    """Yield how many types are left after each requirement."""
    yield f"{len(types)} instance types in the zones of its template's subnets"
    left = types
    for requirement in Requirements.of(provisioner.requirements).values():
        left = tuple(each for each in left if meets(requirement, each))
        yield f"{len(left)} after {requirement}"


def _cheapest(provisioner: Provisioner, types: tuple[InstanceType, ...]) -> Iterator[str]:
    requirements = Requirements.of(provisioner.requirements)
    best: dict[tuple[str, str], PricedOffering] = {}
    for kind in types:
        if not all(meets(each, kind) for each in requirements.values()):
            continue
        for o in kind.offerings:
            fits = all(
                requirements[key].has(value)
                for key, value in ((ZONE, o.zone), (CAPACITY_TYPE, o.capacity_type))
                if key in requirements
            )
            if fits and o.available:
                offering = PricedOffering(o.price, kind.name, o.zone, o.capacity_type)
                key = (kind.name, o.capacity_type)
                best[key] = min(best.get(key, offering), offering)
    for each in sorted(best.values())[:SHOWN]:
        yield f"{each.instance_type} {each.capacity_type} in {each.zone}, {money(each.price)}/h"


def _limits(provisioner: Provisioner, limits: Iterable[LimitStatus]) -> Iterator[str]:
    if provisioner.limits is None:
        yield "spec.limits: none"
    for each in limits:
        state = f" ({': '.join(filter(None, (each.state, each.reason)))})" if each.state else ""
        yield f"{each.what}: {each.have} of {each.want}{state}" if each.want else f"{each.what}{state}"


def _budgets(cluster: ClusterView, provisioner: Provisioner, now: float) -> Iterator[str]:
    nodes = sum(node.provisioner_name == provisioner.name for node in cluster.snapshot.nodes.values())
    for reason in REASONS:
        allowed = allowance(provisioner, reason, nodes, now, cluster.settings.disruption_budgets)
        yield f"{reason}: {allowed.nodes} of {nodes} ({allowed.because})"
