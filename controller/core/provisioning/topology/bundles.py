"""Bundles: equal units on their way to a node, and the topology rules that they bring.

A unit is what is placed as a whole: usually one pod; for pods that must share a host, all of them together.
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
    """`pods` pods of a class in every unit, at the class's relaxation level `number`."""

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
        """Whether the group counts by node instead of by label value."""
        return self.group.key.key == labels.HOSTNAME

    @property
    def identity(self) -> tuple[int, int, int, bool, bool]:
        """Equal for equal rules."""
        return (self.group.index, self.matched, self.owned, self.obeys, self.unconstrained)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a unit: those over label values (`domain`), which allocation decides, and those over hosts.

    keys: the label keys that a joint domain of the unit has values for, sorted. positioned: the domain rules over these
    keys, each with the place of its key. label_required: per key, whether a node needs the label. repelling:
    anti-affinity of running pods over other keys, which only excludes domains. identity: equal for units with equal
    host rules.
    """

    every: tuple[UnitRule, ...] = ()
    domain: tuple[UnitRule, ...] = ()
    host: tuple[UnitRule, ...] = ()
    keys: tuple[str, ...] = ()
    positioned: tuple[tuple[UnitRule, int], ...] = ()
    label_required: tuple[bool, ...] = ()
    repelling: tuple[UnitRule, ...] = ()
    identity: tuple[tuple[int, int, int, bool, bool], ...] = ()

    @classmethod
    def of(cls, rules: tuple[UnitRule, ...], *, colocated: bool = False) -> RuleSet:
        """Sort rules. `colocated`: the unit brings the pods that its host affinity asks for."""
        domain = tuple(rule for rule in rules if not rule.host)
        host = host_rules(rules, colocated=colocated)
        keys = tuple(sorted({r.group.key.key for r in domain if r.group.batch_owners or r.obeys}))
        required = {r.group.key.key for r in domain if r.obeys and r.group.key.kind is not RuleKind.ANTI_AFFINITY}
        return cls(
            every=rules,
            domain=domain,
            host=host,
            keys=keys,
            positioned=tuple((rule, keys.index(rule.group.key.key)) for rule in domain if rule.group.key.key in keys),
            label_required=tuple(key in required for key in keys),
            repelling=tuple(
                rule
                for rule in domain
                if rule.group.key.key not in keys and rule.matched and rule.group.key.kind is RuleKind.ANTI_AFFINITY
            ),
            identity=tuple(rule.identity for rule in host),
        )

    def __iter__(self) -> Iterator[UnitRule]:
        return iter(self.every)


NO_RULES = RuleSet()


@dataclass(slots=True)
class Bundle:
    """`count` units of the same members, at one relaxation level, with one variant of its choices.

    request: of one unit (R, see `ResourceSpace`); request_key: its bytes, for comparison.
    """

    members: tuple[BundleMember, ...]
    level: RelaxationLevel
    choices: tuple[Choice, ...]
    request: Floats
    count: int
    rules: RuleSet = NO_RULES
    request_key: bytes = b""
    tolerations: tuple[tuple[tuple[Toleration, ...], bool], ...] = ()
    """If colocated: tolerations of each member, and whether it avoids PreferNoSchedule taints; else the level's."""
    colocated: bool = False
    """Its members must share a host; a unit brings the pods that its host affinity asks for."""
    component: frozenset[int] = frozenset()
    """If colocated: the indices of the classes that it was made from."""
    blocked: set[tuple[str, ...]] = field(default_factory=set)
    """Values of joint domains that had no room when they were tried."""

    @property
    def pod_class(self) -> PodClass:
        """The class that names the bundle: its first member's."""
        return self.members[0].pod_class

    @property
    def name(self) -> str:
        """What it is sorted by."""
        return self.pod_class.name


def unit_rules(topology: Topology, members: tuple[BundleMember, ...]) -> tuple[UnitRule, ...]:
    """The rules of a unit, its members' taken together."""
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
    """The rules over hosts.

    A colocated unit satisfies its own affinity, unless matching pods run already: kube-scheduler then lets no pod be
    the first on another host.
    """
    over_hosts = []
    for rule in rules:
        if not rule.host:
            continue
        first = rule.group.key.kind is RuleKind.AFFINITY and not rule.group.has_matched
        own = colocated and first and rule.matched > 0
        over_hosts.append(UnitRule(rule.group, rule.matched, rule.owned, obeys=False) if own else rule)
    return tuple(over_hosts)
