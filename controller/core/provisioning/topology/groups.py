"""Topology groups: spread constraints and pod (anti-)affinity terms that pods share, with counts by domain.

Groups over kubernetes.io/hostname are counted per node (`HostCounts`), all others per label value, here. Rules as in
kube-scheduler 1.34, plugins PodTopologySpread and InterPodAffinity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodAffinityTerm, Toleration
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.pods.selector_index import with_label_keys
from controller.core.provisioning.topology.running_pods import RunningPods, term_selector


class RuleKind(Enum):
    """The kind of rule that a group has for its owners."""

    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes whose pods a spread counts.

    choices: the pods' required node affinity, for nodeAffinityPolicy Honor. tolerations: the pods', for
    nodeTaintsPolicy Honor; None: taints are ignored. keys: labels that a node must have, those of the pods' other
    required spreads.
    """

    choices: tuple[Choice, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None
    keys: frozenset[str] = frozenset()


EVERY_NODE = NodeFilter()


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Equal for rules that form one group. selectors: numbers in the SelectorIndex; a counted pod matches all."""

    kind: RuleKind
    key: str
    selectors: tuple[int, ...]
    max_skew: int = 0
    min_domains: int = 0
    node_filter: NodeFilter = EVERY_NODE

    @property
    def host_capacity(self) -> float:
        """Pods with the rule that one empty node takes, of a spread or anti-affinity over hosts."""
        return 1.0 if self.kind is RuleKind.ANTI_AFFINITY else float(self.max_skew)


@dataclass(slots=True)
class TopologyGroup:
    """One topology rule, with pods counted per domain.

    max_matched, min_matched: bounds on the matched pods; a planned pod whose node may or may not pass the group's node
    filter counts only in `max_matched`. unconstrained: those of `max_matched` that are planned and that no rule binds:
    kube-scheduler may bind them after all others. owners: pods that have the rule (anti-affinity: as a required term,
    since only these repel). matched_owners: of the planned owners those that are matched.
    """

    index: int
    key: GroupKey
    max_matched: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    min_matched: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    owners: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    matched_owners: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unconstrained: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    domains: frozenset[str] = frozenset()
    """Spread: the values over which kube-scheduler takes the minimum, those of planned nodes included."""
    batch_owners: int = 0
    """Pods of the batch that have the rule."""
    required: bool = False
    """Some owner's rule is required."""

    def global_minimum(self, *, without_unconstrained: bool = False) -> int:
        """Return, of a spread, the least count of any domain; 0 where there are fewer domains than minDomains."""
        if not self.domains or len(self.domains) < self.key.min_domains:
            return 0
        matched = self.min_matched.get
        if without_unconstrained:
            return min([max(0, matched(domain, 0) - self.unconstrained.get(domain, 0)) for domain in self.domains])
        return min([matched(domain, 0) for domain in self.domains])

    @property
    def has_matched(self) -> bool:
        """Whether any domain has a matched pod."""
        return any(count > 0 for count in self.max_matched.values())


@dataclass(frozen=True, slots=True)
class UnitRule:
    """What one unit (a pod, or pods that share a host) means to one topology group.

    matched: pods of the unit that the group's selector counts. owned: its pods that have the rule as a required one.
    obeys: the unit may only go where the rule holds. unconstrained: no topology rule restricts the unit, so
    kube-scheduler may bind it at any time, also after all others. matched_owners: its pods that are both.
    """

    group: TopologyGroup
    matched: int
    owned: int
    obeys: bool
    unconstrained: bool = False
    matched_owners: int = 0

    @property
    def host(self) -> bool:
        """Whether the group counts by node instead of by label value."""
        return self.group.key.key == labels.HOSTNAME

    @property
    def bootstraps(self) -> bool:
        """Whether it is an affinity over hosts without a matching pod so far: the first one may go to any host."""
        return self.host and self.group.key.kind is RuleKind.AFFINITY and not self.group.has_matched

    @property
    def identity(self) -> tuple[int, int, int, bool, bool]:
        """A key that is equal for equal rules."""
        return (self.group.index, self.matched, self.owned, self.obeys, self.unconstrained)


@dataclass(frozen=True, slots=True)
class _OwnRules:
    """The groups whose rules a level has, each with whether it is required. `identity`: equal for equal rules."""

    level: RelaxationLevel
    groups: tuple[tuple[TopologyGroup, bool], ...]
    identity: tuple[tuple[int, bool], ...]


_RulesKey = tuple[int, str, FrozenMap[str, str] | None]
"""id of a level, its pods' namespace, and their labels where its rules depend on them."""


def _asks_own_labels(level: RelaxationLevel) -> bool:
    """Return whether a rule depends on the labels of the pod that has it (matchLabelKeys, mismatchLabelKeys)."""
    terms = (*level.affinity, *level.anti_affinity)
    return any(constraint.match_label_keys for constraint in level.spread) or any(
        term.match_label_keys or term.mismatch_label_keys for term in terms
    )


class Topology:
    """All topology groups of a batch. Call `add` for every class and level before `rules`."""

    def __init__(self, running_pods: RunningPods) -> None:
        self.running_pods = running_pods
        self.index = running_pods.index
        self.groups: dict[GroupKey, TopologyGroup] = {}
        self._of_selector: dict[int, list[TopologyGroup]] = defaultdict(list)
        self._rules: dict[_RulesKey, _OwnRules] = {}
        self._own: dict[tuple[int, int], tuple[tuple[int, bool], ...]] = {}
        self._unit_rules: dict[tuple[frozenset[int], tuple[tuple[int, bool], ...]], tuple[UnitRule, ...]] = {}
        self._listed: list[TopologyGroup] = []
        self._add_repelling()

    def _add_repelling(self) -> None:
        """Add the groups of running pods' required anti-affinity, whose owners `seed` counts."""
        self.repelling: list[tuple[TopologyGroup, int]] = []
        for one, term in self.running_pods.repelling():
            number = term_selector(self.index, term, one.pod.namespace, one.pod.labels)
            group = self._group(GroupKey(RuleKind.ANTI_AFFINITY, term.topology_key, (number,)))
            group.required = True
            self.repelling.append((group, one.node))

    def _group(self, key: GroupKey) -> TopologyGroup:
        if (group := self.groups.get(key)) is None:
            group = self.groups[key] = TopologyGroup(len(self.groups), key)
            self._of_selector[key.selectors[0]].append(group)
            self._listed.append(group)
        return group

    def add(self, pod_class: PodClass, number: int, level: RelaxationLevel) -> None:
        """Register the rules of a class at its level `number`."""
        own = self._rules_of(pod_class, level)
        for group, _ in own.groups:
            group.batch_owners += len(pod_class)
        self._own[(pod_class.index, number)] = own.identity

    def _rules_of(self, pod_class: PodClass, level: RelaxationLevel) -> _OwnRules:
        """Return the level's rules; classes share them unless a rule depends on the pods' own labels."""
        key: _RulesKey = (id(level), pod_class.namespace, None)
        rules = self._rules.get(key)
        if rules is None and _asks_own_labels(level):
            key = (id(level), pod_class.namespace, pod_class.labels)
            rules = self._rules.get(key)
        if rules is None:
            groups = tuple(self._own_groups(pod_class, level))
            for group, required in groups:
                group.required |= required
            identity = tuple(sorted({(group.index, required) for group, required in groups}))
            rules = self._rules[key] = _OwnRules(level, groups, identity)
        return rules

    def _own_groups(self, pod_class: PodClass, level: RelaxationLevel) -> Iterator[tuple[TopologyGroup, bool]]:
        """Yield every group whose rule the level has, and whether it is required."""
        keys = {each.topology_key for each in level.spread if each.when_unsatisfiable != "ScheduleAnyway"}
        keys.discard(labels.HOSTNAME)  # every node has it
        for constraint in level.spread:
            required = constraint.when_unsatisfiable != "ScheduleAnyway"
            selector = with_label_keys(constraint.label_selector, pod_class.labels, constraint.match_label_keys)
            honored = constraint.node_affinity_policy != "Ignore"
            nodes = NodeFilter(
                level.required if honored else (),
                level.tolerations if constraint.node_taints_policy == "Honor" else None,
                frozenset(keys - {constraint.topology_key}) if required else frozenset(),
            )
            host = constraint.topology_key == labels.HOSTNAME
            key = GroupKey(
                RuleKind.SPREAD,
                constraint.topology_key,
                (self.index.add(selector, frozenset({pod_class.namespace})),),
                constraint.max_skew,
                0 if host else constraint.min_domains or 0,
                EVERY_NODE if host else nodes,
            )
            yield self._group(key), required
        yield from self._affinity(pod_class, level)
        for term in level.anti_affinity:
            group = self._group(GroupKey(RuleKind.ANTI_AFFINITY, term.topology_key, (self._selector(pod_class, term),)))
            yield group, term in pod_class.spec.required_pod_anti_affinity

    def _affinity(self, pod_class: PodClass, level: RelaxationLevel) -> list[tuple[TopologyGroup, bool]]:
        """Return the groups of affinity terms. Required ones count the pods that match all of them (InterPodAffinity);
        preferred ones are groups each."""
        required = pod_class.spec.required_pod_affinity
        joint = tuple(sorted({self._selector(pod_class, term) for term in required}))
        groups = [(self._group(GroupKey(RuleKind.AFFINITY, t.topology_key, joint)), True) for t in required]
        for term in level.affinity[len(required) :]:
            key = GroupKey(RuleKind.AFFINITY, term.topology_key, (self._selector(pod_class, term),))
            groups.append((self._group(key), False))
        return groups

    def _selector(self, pod_class: PodClass, term: PodAffinityTerm) -> int:
        return term_selector(self.index, term, pod_class.namespace, pod_class.labels)

    def rules(self, pod_class: PodClass, number: int) -> tuple[UnitRule, ...]:
        """Return the rules of one pod of a class at a level: every group that it owns or is matched by,
        sorted by index.

        Classes with equal rules get the same tuple object.
        """
        matching = self.index.matching(pod_class.namespace, pod_class.labels)
        key = (matching, self._own[(pod_class.index, number)])
        if (rules := self._unit_rules.get(key)) is None:
            rules = self._unit_rules[key] = self._find_rules(*key)
        return rules

    def _find_rules(self, matching: frozenset[int], owned: tuple[tuple[int, bool], ...]) -> tuple[UnitRule, ...]:
        required: dict[int, bool] = {}
        for index, is_required in owned:
            required[index] = required.get(index, False) or is_required
        groups = {index: self._listed[index] for index in required}
        for selector in matching:
            groups.update((group.index, group) for group in self._of_selector.get(selector, ()))
        rules = []
        for index, group in sorted(groups.items()):
            matched, must = int(matching.issuperset(group.key.selectors)), int(required.get(index, False))
            if matched or index in required:
                rules.append(UnitRule(group, matched, must, index in required, not required, matched & must))
        return tuple(rules)
