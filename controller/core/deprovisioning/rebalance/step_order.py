"""Divide a removal of many nodes into steps; it may be stopped after each.

Nodes whose pods share new nodes go one after the other, those first that save most for each moved pod. A step has as
many nodes as the disruption budgets let go at once, and moves no more pods of a PodDisruptionBudget than may be
disrupted at once, unless a single node has more. A new node is launched in the first step that moves a pod to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.core.api.pod import Pod, PodKey
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import MOST_IN_A_SET, UNDERUTILIZED
from controller.core.deprovisioning.emptiness import EMPTY_NODES
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.rebalance.rebalance_plan import Launch, PodMove, Step
from controller.core.deprovisioning.removal_simulation import Outcome


def divide(goes: Iterable[Candidate], outcome: Outcome, gate: Gate) -> tuple[Step, ...]:
    """Divide a removal into steps by the plan for all of its pods; the gate accepts every node by itself."""
    nodes = sorted(goes, key=lambda node: node.name)
    empty, busy = [node for node in nodes if not node.pods], [node for node in nodes if node.pods]
    goals = _Goals(outcome)
    filling = _Filling(gate, goals, EMPTY_NODES)
    filling.add(empty)
    steps = filling.finish()
    filling = _Filling(gate, goals, UNDERUTILIZED)
    for group in sorted(_groups(busy, goals), key=goals.order):
        filling.add(group)
    return (*steps, *filling.finish())


class _Goals:
    """Where the plan puts each pod. `launched`: numbers of the new nodes that a step launched already, in order."""

    def __init__(self, outcome: Outcome) -> None:
        self.new_nodes = outcome.replacements
        self.existing: dict[PodKey, str] = {}
        if outcome.solved is not None:
            for placed in outcome.solved.plan.existing:
                self.existing.update(dict.fromkeys(placed.pods, placed.node))
        self.new = {key: number for number, node in enumerate(self.new_nodes) for key in node.pods}
        self.launched: list[int] = []

    def launches(self, nodes: Iterable[Candidate]) -> list[int]:
        """Return numbers of the new nodes that pods of these nodes go to, ascending."""
        return sorted({self.new[pod.key] for node in nodes for pod in node.pods if pod.key in self.new})

    def order(self, group: Sequence[Candidate]) -> tuple[float, str]:
        """Sort first the nodes that, with all new nodes of their pods, save most for each pod that moves."""
        launched = sum(self.new_nodes[number].offering.cost for number in self.launches(group))
        saved = sum(node.cost for node in group) - launched
        return -saved / max(0.1, sum(len(node.pods) for node in group)), group[0].name

    def step(self, nodes: Sequence[Candidate], reason: str, waits_for: Iterable[str]) -> Step:
        """Make the step that removes these nodes; new nodes that it launches count as launched from now on."""
        new = [number for number in self.launches(nodes) if number not in self.launched]
        self.launched += new
        moves = [PodMove(pod.key, node.name, self._target(pod)) for node in nodes for pod in node.pods]
        launches = [Launch(self._name(number), self.new_nodes[number]) for number in new]
        return Step(tuple(nodes), tuple(launches), tuple(moves), reason, tuple(sorted(waits_for)))

    def _target(self, pod: Pod) -> str:
        return self._name(self.new[pod.key]) if pod.key in self.new else self.existing[pod.key]

    def _name(self, number: int) -> str:
        return f"new-{self.launched.index(number) + 1}"


def _groups(nodes: Sequence[Candidate], goals: _Goals) -> list[list[Candidate]]:
    """Return the nodes in groups that have no new node in common."""
    joined: dict[int, set[int]] = {}
    for node in nodes:
        merged = set(goals.launches([node]))
        for number in list(merged):
            merged |= joined.get(number, set())
        joined.update(dict.fromkeys(merged, merged))
    groups: defaultdict[object, list[Candidate]] = defaultdict(list)
    for node in nodes:
        numbers = goals.launches([node])
        groups[frozenset(joined[numbers[0]]) if numbers else node.name].append(node)
    return list(groups.values())


@dataclass(slots=True)
class _Filling:
    """Fills one step after the other."""

    gate: Gate
    goals: _Goals
    reason: str
    nodes: list[Candidate] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(self, nodes: Sequence[Candidate]) -> None:
        """Add nodes to the present step if all of them fit, else to the next ones."""
        if not self._fit([*self.nodes, *nodes]):
            self._close()
        for node in nodes:
            if not self._fit([*self.nodes, node]):
                self._close()
            self.nodes.append(node)

    def finish(self) -> tuple[Step, ...]:
        """Return all steps."""
        self._close()
        return tuple(self.steps)

    def _close(self) -> None:
        if self.nodes:
            self.steps.append(self.goals.step(self.nodes, self.reason, self._exceeded(self.nodes)))
            self.nodes = []

    def _fit(self, nodes: Sequence[Candidate]) -> bool:
        if len(nodes) > MOST_IN_A_SET or self.gate.over_budget(nodes, self.reason) is not None:
            return False
        return not self._exceeded(nodes)

    def _exceeded(self, nodes: Iterable[Candidate]) -> Mapping[str, int]:
        """Return PodDisruptionBudgets that allow fewer disruptions now than pods would be moved, with that number."""
        moved: Counter[str] = Counter()
        allowed: dict[str, int] = {}
        for pod in (pod for node in nodes for pod in node.pods):
            for budget in self.gate.pod_budgets(pod):
                name = f"{budget.namespace}/{budget.name}"
                moved[name] += 1
                allowed[name] = budget.disruptions_allowed
        return {name: count for name, count in moved.items() if count > allowed[name]}
