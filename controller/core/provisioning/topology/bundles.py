"""Bundles: equal units on their way to a node, with the topology rules that apply to them.

A unit is what is placed as a whole: usually one pod; for pods that must share a host, all of them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controller.core.api.pod import Toleration
from controller.core.provisioning.pods.pod_classes import PodClass, SharedVolume
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup, UnitRule


@dataclass(frozen=True, slots=True)
class BundleMember:
    """`pods` pods of a class in every unit, at the class's relaxation level `number`."""

    pod_class: PodClass
    pods: int
    number: int


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a unit: those over label values (`domain`), which allocation decides, and those over hosts.

    every: all rules of the unit. keys: the label keys that a joint domain of the unit has values for, sorted.
    positioned: the domain rules over these keys, each with the place of its key. label_required: per key, whether a
    node needs the label. repelling: anti-affinity of running pods over other keys, which only excludes domains.
    identity: equal for units with equal host rules.
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
        """Classify rules. `colocated`: the unit brings the pods that its host affinity asks for."""
        domain = [(rule, rule.group.key.key, rule.group.key.kind) for rule in rules if not rule.host]
        host = host_rules(rules, colocated=colocated)
        keys = sorted({key for rule, key, _ in domain if rule.group.batch_owners or rule.obeys})
        required = {key for rule, key, kind in domain if rule.obeys and kind is not RuleKind.ANTI_AFFINITY}
        others = [(rule, kind) for rule, key, kind in domain if key not in keys]
        return cls(
            every=rules,
            domain=tuple(rule for rule, _, _ in domain),
            host=host,
            keys=tuple(keys),
            positioned=tuple((rule, keys.index(key)) for rule, key, _ in domain if key in keys),
            label_required=tuple(key in required for key in keys),
            repelling=tuple(rule for rule, kind in others if rule.matched and kind is RuleKind.ANTI_AFFINITY),
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
    """Values of the joint domains that proved to have no room."""

    @property
    def pod_class(self) -> PodClass:
        """The class that names the bundle: its first member's."""
        return self.members[0].pod_class

    @property
    def shared_volumes(self) -> tuple[SharedVolume, ...]:
        """The volumes that its pods share with others, sorted."""
        if len(self.members) == 1:
            return self.pod_class.volumes.shared
        return tuple(sorted({volume for member in self.members for volume in member.pod_class.volumes.shared}))

    @property
    def name(self) -> str:
        """The key by which bundles are sorted: the first member's name."""
        return self.pod_class.name


def unit_rules(topology: Topology, members: tuple[BundleMember, ...]) -> tuple[UnitRule, ...]:
    """Return the rules of a unit, sorted by group."""
    rules = ((rule, member.pods) for member in members for rule in topology.rules(member.pod_class, member.number))
    return tuple(sorted(summed(rules), key=lambda rule: rule.group.index))


def summed(rules: Iterable[tuple[UnitRule, int]]) -> list[UnitRule]:
    """Join rules with the number of units that have each, into one per group."""
    groups: dict[int, TopologyGroup] = {}
    matched, owned, both = Counter[int](), Counter[int](), Counter[int]()
    obeyed: set[int] = set()
    for rule, units in rules:
        index = rule.group.index
        groups[index] = rule.group
        matched[index] += units * rule.matched
        owned[index] += units * rule.owned
        both[index] += units * rule.matched_owners
        if rule.obeys:
            obeyed.add(index)
    return [
        UnitRule(group, matched[index], owned[index], index in obeyed, not obeyed, both[index])
        for index, group in groups.items()
    ]


def host_rules(rules: tuple[UnitRule, ...], *, colocated: bool) -> tuple[UnitRule, ...]:
    """Return the rules over hosts.

    A colocated unit satisfies its own affinity, unless matching pods run already: kube-scheduler then lets no pod be
    the first on another host.
    """
    return tuple(
        UnitRule(rule.group, rule.matched, rule.owned, obeys=False)
        if colocated and rule.matched and rule.bootstraps
        else rule
        for rule in rules
        if rule.host
    )
