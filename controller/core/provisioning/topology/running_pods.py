"""Running pods for topology rules: their nodes, the selectors that match them, their required anti-affinity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from controller.core.api.pod import PodAffinityTerm, PodKey, PodSpec
from controller.core.provisioning.offerings.snapshot_index import RunningPod, SnapshotIndex
from controller.core.provisioning.pods.selector_index import SelectorIndex, with_label_keys
from controller.core.provisioning.resource_space import Bools


class RunningPods:
    """Running pods on nodes that stay, without the pods of the batch (they will move).

    stays: per node of the index, false if its removal is simulated. batch: computes the keys of the pods to place; it
    is called only if some running pod is relevant.
    """

    def __init__(
        self, snapshot_index: SnapshotIndex, stays: Bools, batch: Callable[[], frozenset[PodKey]], index: SelectorIndex
    ) -> None:
        self.nodes = snapshot_index.nodes
        self.index = index
        self._around = snapshot_index
        self._stays: list[bool] = stays.tolist()
        self._batch = batch
        self._matched: dict[int, list[RunningPod]] | None = None

    def _here(self, running: Iterable[RunningPod]) -> Iterator[RunningPod]:
        stays = self._stays
        return (one for one in running if stays[one.node] and (one.pod.namespace, one.pod.name) not in self._batch())

    def repelling(self) -> Iterator[tuple[RunningPod, PodAffinityTerm]]:
        """Yield every required anti-affinity term of a running pod."""
        for one in self._here(self._around.repelling):
            for term in one.pod.spec.required_pod_anti_affinity:
                yield one, term

    def matched(self, selector: int) -> list[RunningPod]:
        """Return the running pods that a selector matches. To be called after all selectors were added to the index."""
        if self._matched is None:
            by_selector: dict[int, list[RunningPod]] = defaultdict(list)
            for (namespace, labels), running in self._around.alike.items():
                numbers = self.index.matching(namespace, labels)
                here = list(self._here(running)) if numbers else []
                for number in numbers:
                    by_selector[number] += here
            self._matched = by_selector
        return self._matched.get(selector, [])

    def matching(self, selectors: tuple[int, ...]) -> list[RunningPod]:
        """Return the running pods that all of some selectors match."""
        running = self.matched(selectors[0])
        for selector in selectors[1:]:
            also = {id(one) for one in self.matched(selector)}
            running = [one for one in running if id(one) in also]
        return running


def term_selector(index: SelectorIndex, term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> int:
    """Return the number of an affinity term's selector, for a pod of this namespace with these labels."""
    selector = with_label_keys(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys)
    return index.add(selector, index.namespaces(term, namespace))


def selector_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """Return the pod label keys that selectors of these specs refer to."""
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
