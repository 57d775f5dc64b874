"""Explain a node: use, price, the type its pods would get today, and what removes or keeps it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.decision_log import decisions
from controller.cli.cluster.node_facts import NodeFacts, node_facts
from controller.cli.cluster.workload_costs import workload_of
from controller.cli.explain import on_demand_nodes
from controller.cli.explain.answer import Answer, Section
from controller.cli.explain.history import decisions_section, events_section
from controller.cli.explain.subjects import not_found
from controller.cli.formatting import age, money, month, percent, tally
from controller.cloud.catalogs import template_of
from controller.core.api.quantity import in_words
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import PricedOffering
from controller.core.decisions.decision import Entry
from controller.core.decisions.fleet_cost import node_cost
from controller.core.deprovisioning import consolidation_search, expiration
from controller.core.deprovisioning.backoff import REST_COST, Moves
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.drift import drift_reason
from controller.core.deprovisioning.emptiness import EmptinessAction, EmptinessVerdict, verdict
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.rebalance.approval import read_approval, under_way
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.guards.mix import needed
from controller.core.machines.draining import next_step
from controller.core.provisioning.problem import build
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import StateNode
from controller.errors import CloudError, ValidationError


def explain_node(cluster: ClusterView, name: str, now: float) -> Answer:
    """Explain a node, or a removed one from the decision ledger. Raises NotFoundError without either."""
    node = cluster.snapshot.nodes.get(name)
    on_record = decisions(cluster.kube, f"Node/{name}")
    decided = decisions_section(on_record, now)
    events = events_section(cluster.kube, "Node", name, "", now)
    if node is None:
        if not decided.lines and not events.lines:
            raise not_found("node", name, cluster.snapshot.nodes, "no decision on record is about it")
        return Answer(f"Node {name}", _removed(on_record), {}, (decided, events))
    facts = node_facts(node, cluster.prices, now)
    types = {each.name: each for each in cluster.view.types.get(node.provisioner_name, ())}
    cost = node_cost(node, types.get(facts.instance_type), cluster.options.beside)
    everyone = candidates(cluster.snapshot, cluster.view.types, now, beside=cluster.options.beside)
    candidate = next((each for each in everyone if each.name == name), None)
    simulator = Simulator(
        cluster.snapshot,
        cluster.view.types,
        skipped=cluster.view.problems,
        options=cluster.options,
        snapshot_index=cluster.index(cluster.snapshot),
    )
    sections = [Section("Runs", tuple(tally(Counter(map(workload_of, node.pods)), "\n").splitlines()))]
    if candidate is not None:
        sections.append(Section("Why this type", tuple(_choice(candidate, simulator))))
        sections.append(Section("Kept for on-demand pods", tuple(on_demand_nodes.of_node(cluster, node))))
        sections.append(Section("Stays or goes", tuple(_removal(cluster, candidate, everyone, simulator, now))))
    if node.leaving:
        sections.append(Section("What it waits for", tuple(_draining(cluster, node, now))))
    sections += [decided, events]
    return Answer(f"Node {name}", _verdict(node, candidate), _facts(facts, cost), tuple(sections), cluster.price_notes)


def _removed(on_record: Sequence[Entry]) -> str:
    """Return what removed the node and why, by the newest removal in the ledger."""
    removal = next((each.decision for each in reversed(on_record) if each.decision.kind == "remove"), None)
    return f"is gone: {removal.method} removed it: {removal.reason}" if removal else "is gone"


def _verdict(node: StateNode, candidate: Candidate | None) -> str:
    if node.leaving:
        return "is leaving"
    whose = _whose(node, candidate)
    return f"{whose}; counts as no room for pods: {node.no_room}" if node.no_room else whose


def _whose(node: StateNode, candidate: Candidate | None) -> str:
    if not node.provisioner_name:
        used = "" if node.no_room else ", and its free room is used"
        return f"belongs to no Provisioner: it is never removed{used}"
    if candidate is None:
        return f"belongs to Provisioner {node.provisioner_name}, which does not exist or is not valid"
    if not node.initialized:
        return f"is starting for Provisioner {node.provisioner_name}"
    return f"belongs to Provisioner {node.provisioner_name}"


def _facts(facts: NodeFacts, cost: PricedOffering | None) -> dict[str, str]:
    """Return the facts to show. cost: what the node costs in all, for the comparisons below."""
    price = facts.price_per_hour
    room = [
        f"{percent(facts.use(name))} of {in_words(name, amount)}"
        for name, amount in sorted(facts.allocatable.items())
        if facts.requested.get(name)
    ]
    return {
        "type": f"{facts.instance_type} {facts.capacity_type}",
        "zone": facts.zone,
        "price": f"{money(price)}/h, {month(price)}/month" if price is not None else "unknown",
        **({} if cost is None else {"costs": cost.in_words}),
        "age": age(facts.age_seconds),
        "state": facts.state,
        "in use": ", ".join(room),
    }


def _choice(candidate: Candidate, simulator: Simulator) -> Iterator[str]:
    """Yield what its pods would get on new nodes today, without any existing node."""
    if not candidate.pods:
        yield "it has no pods that need a node"
        return
    everything = frozenset(simulator.snapshot.nodes)
    problem = build(simulator.snapshot, simulator.catalog, candidate.pods, everything, simulator.skipped)
    planned = solve(problem, simulator.options, simulator.snapshot_index).new_nodes
    if not planned:
        yield "today's plan for its pods has no new node"
        return
    now = " + ".join(
        f"{n.offering.instance_type} {n.offering.capacity_type} {money(n.offering.price)}/h" for n in planned
    )
    yield f"its pods alone would get today: {now}"
    for each in planned:
        yield each.reason


def _emptiness(empty: EmptinessVerdict) -> str:
    if empty.action is EmptinessAction.SET:
        wait = age(empty.requeue_seconds)
        return f"the node is empty; {wait} count from when the controller notes it, which waits for pods on their way"
    goes = "removes it: " if empty.action is EmptinessAction.DELETE else ""
    wait = f" ({age(empty.requeue_seconds)} left)" if empty.requeue_seconds else ""
    return f"{goes}{empty.reason}{wait}"


def _removal(
    cluster: ClusterView, candidate: Candidate, everyone: tuple[Candidate, ...], simulator: Simulator, now: float
) -> Iterator[str]:
    gate = Gate(cluster.snapshot, now, cluster.settings.disruption_budgets)
    refusal = gate.refusal(candidate)
    yield f"gate: blocked: {refusal.reason}" if refusal else "gate: nothing blocks its removal"
    empty = verdict(candidate.node, candidate.provisioner, now)
    yield f"emptiness: {_emptiness(empty)}"
    due = expiration.expires_at(candidate)
    if math.isinf(due):
        yield "expiration: never (ttlSecondsUntilExpired is not set)"
    else:
        yield f"expiration: in {age(due - now)}" if due > now else f"expiration: due, {expiration.because(candidate)}"
    yield f"drift: {_drift(cluster, candidate)}"
    if (approval := read_approval(candidate.node)) is not None:
        yield f"rebalance: {approval.in_words}"
    yield f"consolidation: {_consolidation(candidate, everyone, simulator, gate)}"


def _draining(cluster: ClusterView, node: StateNode, now: float) -> Iterator[str]:
    """Yield the pods that a leaving node still has, and the PodDisruptionBudgets that hold them."""
    gate = Gate(cluster.snapshot, now)
    for pod in next_step(node.pods, now).waiting:
        refusal = None if pod.terminating else gate.eviction_refusal(pod)
        state = "shuts down" if pod.terminating else "is to be evicted"
        yield refusal.reason if refusal else f"pod {pod.namespace}/{pod.name} {state}"


def _drift(cluster: ClusterView, candidate: Candidate) -> str:
    if not cluster.settings.drift_enabled:
        return "off (featureGates.driftEnabled)"
    try:
        template = template_of(cluster.snapshot, candidate.provisioner)
    except (CloudError, ValidationError) as error:
        return str(error)
    reason = drift_reason(candidate.node.node, candidate.provisioner, template, None)
    return reason or "none by Provisioner and template (the AMI is not checked here)"


def _consolidation(candidate: Candidate, everyone: tuple[Candidate, ...], simulator: Simulator, gate: Gate) -> str:
    if not candidate.provisioner.disruption.consolidation:
        return f"off (Provisioner {candidate.provisioner.name}: spec.consolidation.enabled)"
    if under_way(simulator.snapshot):
        return "waits until the approved rebalance has ended"
    if not consolidation_search.consolidatable(candidate):
        return f"annotation {V1ALPHA5.keys.do_not_consolidate} is set"
    if (why := needed(simulator.snapshot).get(candidate.name)) is not None:
        return why
    moves = Moves.of(simulator.snapshot, gate.now)
    resting = sum(map(moves.rests, candidate.pods))
    cool_down = f" ({resting} of its pods rest after a recent move, and count {REST_COST:g} times)" if resting else ""
    seen = consolidation_search.with_cool_down(candidate, moves)
    search = consolidation_search.judge([seen], everyone, simulator, gate)
    for command in search.commands:
        return f"removes it: {command.text()}{cool_down}"
    return ("; ".join(reason for _, reason in search.kept) or "no saving") + cool_down
