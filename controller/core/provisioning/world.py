"""The pods that run already, as topology sees them: which node each is on, which selectors match it, whom it repels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.core.api.pod import Pod, PodAffinityTerm, PodKey, PodSpec
from controller.core.provisioning.selection import SelectorIndex, with_label_keys
from controller.core.state.snapshot import StateNode


@dataclass(frozen=True, slots=True)
class Running:
    """A pod on node `node` (its place in the list of all nodes). Terminating pods repel, and count for nothing else."""

    node: int
    pod: Pod


class World:
    """Running pods of every node, our own and others', those of the batch left out."""

    def __init__(self, nodes: tuple[StateNode, ...], batch: frozenset[PodKey], index: SelectorIndex) -> None:
        self.nodes = nodes
        self.index = index
        self.running = tuple(
            Running(position, pod)
            for position, node in enumerate(nodes)
            for pod in node.pods
            if (pod.namespace, pod.name) not in batch and not pod.terminal
        )
        self._matched: dict[int, list[Running]] | None = None

    def repelling(self) -> Iterable[tuple[Running, PodAffinityTerm]]:
        """Every required anti-affinity term of a running pod."""
        for one in self.running:
            for term in one.pod.spec.required_pod_anti_affinity:
                yield one, term

    def matched(self, selector: int) -> list[Running]:
        """The running pods that a selector matches. Ask once all selectors are in the index."""
        if self._matched is None:
            found: dict[int, list[Running]] = defaultdict(list)
            for one in self.running:
                for number in self.index.matching(one.pod.namespace, one.pod.labels):
                    found[number].append(one)
            self._matched = found
        return self._matched.get(selector, [])


def term_selector(index: SelectorIndex, term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> int:
    """The number of an affinity term's selector, for a pod of this namespace with these labels."""
    selector = with_label_keys(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys)
    return index.add(selector, index.namespaces(term, namespace))


def selector_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """The pod label keys that selectors of these specs look at."""
    keys: set[str] = set()
    for spec in specs:
        terms = [*spec.required_pod_affinity, *spec.required_pod_anti_affinity]
        terms += [w.term for w in (*spec.preferred_pod_affinity, *spec.preferred_pod_anti_affinity)]
        for term in terms:
            keys.update(term.match_label_keys, term.mismatch_label_keys)
            keys.update(e.key for e in (term.label_selector.expressions if term.label_selector else ()))
        for constraint in spec.topology_spread:
            keys.update(constraint.match_label_keys)
            keys.update(e.key for e in (constraint.label_selector.expressions if constraint.label_selector else ()))
    return frozenset(keys)
