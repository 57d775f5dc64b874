"""Index label selectors, so that the selectors that match a pod are found without evaluating all of them.

A selector is interned with its namespaces. Selectors with an `In` expression are looked up by label value; the others
are evaluated one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import LabelSelector, PodAffinityTerm, SelectorRequirement
from controller.core.scheduling.label_selectors import matches

Namespaces = frozenset[str] | None
"""None: every namespace."""


class SelectorIndex:
    """Interned selectors, identified by number."""

    def __init__(self, namespace_labels: Mapping[str, FrozenMap[str, str]]) -> None:
        self._namespace_labels = namespace_labels
        self._ids: dict[tuple[LabelSelector | None, Namespaces], int] = {}
        self._selectors: list[tuple[LabelSelector | None, Namespaces]] = []
        self._by_label: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._others: list[int] = []
        self._answers: dict[tuple[str, FrozenMap[str, str]], frozenset[int]] = {}

    def add(self, selector: LabelSelector | None, namespaces: Namespaces) -> int:
        """Return the number of a selector over namespaces."""
        key = (selector, namespaces)
        if (number := self._ids.get(key)) is None:
            number = self._ids[key] = len(self._selectors)
            self._selectors.append(key)
            self._file(number, selector)
            self._answers.clear()
        return number

    def _file(self, number: int, selector: LabelSelector | None) -> None:
        if selector is None:
            return
        for expression in selector.expressions:
            if expression.operator == "In":
                for value in expression.values:
                    self._by_label[(expression.key, value)].append(number)
                return
        self._others.append(number)

    def matching(self, namespace: str, labels: FrozenMap[str, str]) -> frozenset[int]:
        """Return the numbers of the selectors that match a pod of this namespace with these labels."""
        key = (namespace, labels)
        if (numbers := self._answers.get(key)) is None:
            candidates = [number for pair in labels.items() for number in self._by_label.get(pair, ())]
            numbers = self._answers[key] = frozenset(
                number for number in (*candidates, *self._others) if self._matches(number, namespace, labels)
            )
        return numbers

    def _matches(self, number: int, namespace: str, labels: FrozenMap[str, str]) -> bool:
        selector, namespaces = self._selectors[number]
        return (namespaces is None or namespace in namespaces) and matches(selector, labels)

    def namespaces(self, term: PodAffinityTerm, own: str) -> Namespaces:
        """Return the namespaces of an affinity term: listed or matched by its selector; without both, the pod's own."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces) if term.namespaces else frozenset({own})
        if not term.namespace_selector.expressions:
            return None
        selected = {name for name, labels in self._namespace_labels.items() if matches(term.namespace_selector, labels)}
        return frozenset({*selected, *term.namespaces})


def with_label_keys(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    match_keys: tuple[str, ...],
    mismatch_keys: tuple[str, ...] = (),
) -> LabelSelector | None:
    """Return the selector with the pod's own values of matchLabelKeys (and not those of mismatchLabelKeys) demanded
    too.

    Keys that the pod lacks are ignored (Kubernetes API).
    """
    if selector is None or not (match_keys or mismatch_keys):
        return selector
    added = [SelectorRequirement(key, "In", (labels[key],)) for key in match_keys if key in labels]
    added += [SelectorRequirement(key, "NotIn", (labels[key],)) for key in mismatch_keys if key in labels]
    new = [expression for expression in added if expression not in selector.expressions]
    return LabelSelector((*selector.expressions, *new)) if new else selector
