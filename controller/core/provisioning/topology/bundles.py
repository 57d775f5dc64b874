"""Bundles: pods of a class (or of several that must share a node) on their way to a place, and the rules they bring.

A unit is what is placed at once: usually one pod; for pods that must share a host, all of them together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.core.api import labels
from controller.core.api.pod import Toleration
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup


@dataclass(frozen=True, slots=True)
class BundleMember:
    """`pods` pods of a class in every unit, at the class's level `number`."""

    pod_class: PodClass
    pods: int
    number: int


@dataclass(frozen=True, slots=True)
class UnitRule:
    """What one unit means to one topology group.

    matched: pods of the unit that the group's selector counts. owned: its pods that have the rule as a required one.
    obeys: the unit may only go where the rule holds. unconstrained: no topology rule restricts the unit, so
    kube-scheduler may bind it at any time, also after all others.
    """

    group: TopologyGroup
    matched: int
    owned: int
    obeys: bool
    unconstrained: bool = False

    @property
    def host(self) -> bool:
        """The group counts by node, not by label value."""
        return self.group.key.key == labels.HOSTNAME

    @property
    def identity(self) -> tuple[int, int, int, bool, bool]:
        """Equal for rules that are alike."""
        return (self.group.index, self.matched, self.owned, self.obeys, self.unconstrained)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A unit's rules, sorted into those that label values decide and those that rows decide."""

    every: tuple[UnitRule, ...] = ()
    domain: tuple[UnitRule, ...] = ()
    host: tuple[UnitRule, ...] = ()
    keys: tuple[str, ...] = ()
    """The label keys that a cell of the unit has values for."""
    identity: tuple[tuple[int, int, int, bool, bool], ...] = ()
    """Equal for units that rows treat alike."""

    @classmethod
    def of(cls, rules: tuple[UnitRule, ...], *, colocated: bool = False) -> RuleSet:
        """Sort rules. `bundled`: the unit brings its own affinity targets, so it needs none on its row."""
        domain = tuple(rule for rule in rules if not rule.host)
        host = host_rules(rules, colocated=colocated)
        keys = tuple(sorted({r.group.key.key for r in domain if r.group.batch_owners or r.obeys}))
        return cls(rules, domain, host, keys, tuple(rule.identity for rule in host))

    def __iter__(self) -> Iterator[UnitRule]:
        return iter(self.every)


NO_RULES = RuleSet()


@dataclass(slots=True)
class Bundle:
    """`count` units of the same members, at one level, with one variant of its choices."""

    members: tuple[BundleMember, ...]
    level: RelaxationLevel
    choices: tuple[Choice, ...]
    request: Floats
    count: int
    rules: RuleSet = NO_RULES
    request_key: bytes = b""
    """The request as bytes, to tell requests apart."""
    tolerations: tuple[tuple[tuple[Toleration, ...], bool], ...] = ()
    """Of bundles: every member's tolerations, and whether it avoids PreferNoSchedule taints; else the level's hold."""
    colocated: bool = False
    """Its units bring what their host affinity asks for."""
    component: frozenset[int] = frozenset()
    """Of bundles: the classes that it was made from."""
    blocked: set[tuple[str, ...]] = field(default_factory=set)
    """Cells that had no room when they were tried."""

    @property
    def pod_class(self) -> PodClass:
        """The class that the bundle is called by."""
        return self.members[0].pod_class

    @property
    def name(self) -> str:
        """What to call it by, and to sort by."""
        return self.pod_class.name


def unit_rules(topology: Topology, members: tuple[BundleMember, ...]) -> tuple[UnitRule, ...]:
    """The rules of a unit, its members' taken together. An affinity that the unit itself satisfies is not obeyed."""
    matched: dict[int, int] = defaultdict(int)
    owned: dict[int, int] = defaultdict(int)
    obeys: set[int] = set()
    groups: dict[int, TopologyGroup] = {}
    for member in members:
        for one in topology.involvements(member.pod_class, member.number):
            index = one.group.index
            groups[index] = one.group
            matched[index] += member.pods * one.matched
            owned[index] += member.pods * (one.owner and one.required)
            if one.owner:
                obeys.add(index)
    return tuple(
        UnitRule(group, matched[index], owned[index], index in obeys, not obeys)
        for index, group in sorted(groups.items())
    )


def host_rules(rules: tuple[UnitRule, ...], *, colocated: bool) -> tuple[UnitRule, ...]:
    """The rules that rows decide. `bundled`: the unit brings its own affinity targets, so it needs none there, unless
    some stand already: kube-scheduler then lets no pod be the first of a new host."""
    found = []
    for rule in rules:
        if not rule.host:
            continue
        first = rule.group.key.kind is RuleKind.AFFINITY and not rule.group.has_matched
        own = colocated and first and rule.matched > 0
        found.append(UnitRule(rule.group, rule.matched, rule.owned, obeys=False) if own else rule)
    return tuple(found)
