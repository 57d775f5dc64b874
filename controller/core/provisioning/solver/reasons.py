"""Explain why a pod was not placed: which rule binds, on which Provisioner, and what would help."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from controller.core.api import labels
from controller.core.api.labels import FIELD_NAME
from controller.core.api.quantity import different, in_words
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_masks import LabelValue
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS, Pool
from controller.core.provisioning.offerings.snapshot_index import RunningPod
from controller.core.provisioning.pods.relaxation import RelaxationLevel
from controller.core.provisioning.pods.slots import is_slot
from controller.core.provisioning.resource_space import Bools, Floats, ResourceSpace
from controller.core.provisioning.topology.groups import RuleKind, TopologyGroup, UnitRule
from controller.core.provisioning.topology.running_pods import RunningPods
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.scheduling.taints import untolerated

PARTNERS_SHOWN = 3
"""Matching pods that a reason names; of the others it gives the number."""


@dataclass(frozen=True, slots=True)
class Partners:
    """Explains pods with affinity over hosts whose matching pods run on nodes that cannot take them.

    kube-scheduler binds pods one by one. It may bind the pod that a plan put beside this one to another node, which has
    room for one of them only; from then on no new node can take this pod, and only a person can resolve that, by moving
    pods. free: R x E, what the plan leaves free on existing nodes.
    """

    running_pods: RunningPods
    existing: ExistingNodes
    free: Floats
    space: ResourceSpace

    def reason(self, group: TopologyGroup, mask: Mask, request: Floats) -> str:
        """Return why no node of a matching pod takes the pod (request: R); empty if no matching pod runs."""
        if group.key.kind is not RuleKind.AFFINITY or group.key.key != labels.HOSTNAME:
            return ""
        partners = [one for one in self.running_pods.matching(group.key.selectors) if not one.pod.terminating]
        if not partners:
            return ""
        shown = [
            f"{one.pod.namespace}/{one.pod.name} on {self._hindrance(one, mask, request)}"
            for one in partners[:PARTNERS_SHOWN]
        ]
        more = f" and {len(partners) - PARTNERS_SHOWN} more" if len(partners) > PARTNERS_SHOWN else ""
        return (
            f"its pod affinity over {group.key.key} asks for the node of a matching pod, and none takes it: "
            f"{'; '.join(shown)}{more}. No new node helps: free room there, or cordon that node and delete the pod "
            "it must run beside, so that both are placed on one node"
        )

    def _hindrance(self, one: RunningPod, mask: Mask, request: Floats) -> str:
        name = self.running_pods.nodes[one.node].name
        row = self.existing.rows.get(name)
        if row is None:
            return f"{name}, which takes no more pods"
        if not mask.existing[row]:
            return f"{name}, which its selectors or tolerations do not match"
        short = np.flatnonzero(self.free[:, row] < request).tolist()
        return f"{name} ({_lacks(self.space, short, self.free[:, row])})"


def _lacks(space: ResourceSpace, short: Iterable[int], free: Floats) -> str:
    names = [(space.names[int(column)], float(free[int(column)])) for column in short]
    lacking = [f"{in_words(name, max(0, int(left)))} free" for name, left in names if not is_slot(name)]
    lacking += ["a host port or volume attachment is taken" for name, _ in names if is_slot(name)][:1]
    return ", ".join(lacking) or "other rules of its pods keep it away"


SHOWN = 6
"""Values or names that a reason lists; of the others it gives the number."""
NO_PROVISIONER = "there is no Provisioner: create one"


@dataclass(frozen=True, slots=True)
class Question:
    """What a pod requires at its last relaxation level. request: R."""

    level: RelaxationLevel
    mask: Mask
    request: Floats

    @property
    def columns(self) -> list[int]:
        """The columns of the resources requested."""
        return [int(column) for column in np.flatnonzero(self.request > 0)]


def _slot(name: str) -> str:
    """Return why no new node has the slot."""
    kind, _, what = name.partition(":")
    if kind == "port":
        protocol, number, _ = what.split("/", 2)
        return f"a DaemonSet takes its host port {number}/{protocol} on every node; use another port"
    return f"it attaches more volumes of {what} than a node can"


def topology_reason(rules: Iterable[UnitRule], partners: Callable[[TopologyGroup], str]) -> str:
    """Explain what the topology rules of an unplaced pod allow, given the plan's counts.

    partners: explains an affinity over hosts by the matching pods that run already, or returns an empty text.
    """
    obeyed = [rule for rule in rules if rule.obeys]
    return "; ".join(text for rule in obeyed for text in [partners(rule.group) or _rule(rule)] if text)


def _rule(rule: UnitRule) -> str:
    """Explain what one rule allows; empty for spread and anti-affinity over hosts, which a new node always meets."""
    group, key = rule.group, rule.group.key
    counts = {domain: count for domain, count in sorted(group.max_matched.items()) if count > 0}
    held = f"{len(counts)} nodes" if rule.host else _some([f"{domain}: {count}" for domain, count in counts.items()])
    if key.kind is RuleKind.AFFINITY:
        if group.has_matched:
            return f"its pod affinity over {key.key} allows only where matching pods run ({held}), and there is no room"
        return f"its pod affinity over {key.key} finds no matching pod anywhere; start the pods it must run beside"
    if rule.host:
        return ""
    if key.kind is RuleKind.ANTI_AFFINITY:
        return f"its pod anti-affinity over {key.key} rules out domains with matching pods ({held})"
    if not group.domains:
        missing = f"its topology spread over {key.key} finds no node with that label, and no Provisioner sets it"
        return f"{missing}; set it in spec.labels of one, or spread over another key"
    empty = ", ".join(sorted(d for d in group.domains if not group.min_matched.get(d, 0)))
    return (
        f"its topology spread over {key.key} (maxSkew {key.max_skew}) counts {held or 'nothing yet'}"
        + (f", and 0 in {empty}" if empty else "")
        + "; the domain with the fewest cannot take it; raise maxSkew, or let it run there"
    )


@dataclass(frozen=True, slots=True)
class Reasons:
    """Explains one compiled problem's unplaced pods."""

    catalog: CompiledCatalog
    existing: ExistingNodes
    limits: Limits
    limited: dict[str, str] = field(default_factory=dict)
    """By Provisioner, the limit that keeps its nodes from the pods explained so far."""

    def explain(self, question: Question, skipped: dict[str, str], topology: str = "") -> str:
        """Return one sentence for each Provisioner, and one for existing nodes.

        skipped: why Provisioners are not used, by name. topology: what `topology_reason` says.
        """
        parts = [topology] if topology else []
        for index, pool in enumerate(self.catalog.pools):
            why = self._pool(index, question) or (
                "" if topology else "its nodes fit, but topology rules allow none of them"
            )
            parts.extend([f"Provisioner {pool.provisioner.name}: {why}"] if why else [])
        parts.extend(f"Provisioner {name} is not used: {why}" for name, why in sorted(skipped.items()))
        if not self.catalog.pools and not skipped:
            parts.append(NO_PROVISIONER)
        parts.append(self._existing(question))
        return ". ".join(part for part in parts if part)

    def _existing(self, question: Question) -> str:
        count = len(self.existing)
        if not count:
            return ""
        allowed = int(question.mask.existing.sum())
        if not allowed:
            which = f"None of the {count} existing nodes matches" if count > 1 else "The only node does not match"
            return f"{which} its selectors and tolerations"
        if count == 1:
            return "The only node has no room"
        if allowed == count:
            return f"None of the {count} existing nodes has room"
        return f"Of the {count} existing nodes {allowed} would do, and none of those has room"

    def _pool(self, index: int, question: Question) -> str:
        """Explain all that keeps the pod from new nodes of one Provisioner; empty if nothing but topology does."""
        rows = self._admitted(index)
        conflicts = [*self._taints(index, question), *self._labels(rows, question), *self._lacking(rows, question)]
        if conflicts:
            return "; ".join(conflicts)
        allowed = rows & (question.mask.bits != 0)
        if not allowed.any():
            return self._nothing_at_once(rows, question)
        return self._resources(allowed, question) or self._limits(index, allowed, question)

    def _admitted(self, index: int) -> Bools:
        """Return T flags: the options whose type one Provisioner allows, with or without capacity now."""
        catalog = self.catalog
        rows: Bools = catalog.pool_of == index
        for key, requirement in catalog.pools[index].requirements.items():
            if key not in OFFERING_LABELS and key in catalog.catalog_keys:
                rows = rows & catalog.columns.accepts(requirement)
        return rows

    def _taints(self, index: int, question: Question) -> Iterator[str]:
        for taint in self.catalog.pools[index].provisioner.taints:
            if untolerated((taint,), question.level.tolerations) is not None:
                value = f"={taint.value}" if taint.value else ""
                yield (
                    f"its taint {taint.key}{value}:{taint.effect} is not tolerated; add a toleration, "
                    "or a Provisioner without the taint"
                )

    def _labels(self, rows: Bools, question: Question) -> Iterator[str]:
        """Yield what each of the pod's choices asks for that no node of `rows` can have."""
        for terms in question.level.choices:
            if not terms:
                yield "an empty node selector term matches no node; remove it"
            elif len(terms) == 1:
                yield from self._term(rows, terms[0])
            else:
                reasons = ["; ".join(self._term(rows, term)) for term in terms]
                if all(reasons):
                    yield f"none of its affinity terms can be met: {'; or '.join(reasons)}"

    def _term(self, rows: Bools, term: Requirements) -> Iterator[str]:
        for key, requirement in term.items():
            if key in OFFERING_LABELS:
                offered = self._offered(rows, 0 if key == labels.ZONE else 1)
                if offered and not any(requirement.has(value) for value in offered):
                    yield f"{requirement} is asked for, and it offers {_some(offered)}"
            elif not self.catalog.columns.accepts(requirement)[rows].any():
                yield self._key(rows, requirement)

    def _offered(self, rows: Bools, part: int) -> list[str]:
        """Return the zones (part 0) or capacity types (part 1) in which something of `rows` is available."""
        some = int(np.bitwise_or.reduce(self.catalog.available[rows], initial=np.uint64(0)))
        return sorted({key[part] for place, key in enumerate(self.catalog.offering_keys) if some >> place & 1})

    def _key(self, rows: Bools, requirement: Requirement) -> str:
        if requirement.key in (labels.HOSTNAME, FIELD_NAME):
            return f"{requirement} is asked for, and a new node has a name of its own"
        codes, cells = self.catalog.columns.column(requirement.key)
        held = [cells[code] for code in sorted(set(codes[rows].tolist()))]
        values = sorted({value for cell in held for value in _values(cell)})
        if not values:
            hint = near_key(requirement.key, self.catalog)
            return f"{requirement} is asked for, and its nodes have no label {requirement.key}{hint}"
        return f"{requirement} is asked for, and its nodes have {_some(values)}"

    def _lacking(self, rows: Bools, question: Question) -> Iterator[str]:
        """Yield the resources that no type of the Provisioner has, and the families that have them."""
        catalog = self.catalog
        for column in question.columns:
            name = catalog.space.names[column]
            if is_slot(name) or not rows.any() or (catalog.capacity[column, rows] > 0).any():
                continue
            others = np.flatnonzero(catalog.capacity[column] > 0).tolist()
            families = sorted({family for row in others for family in _family(catalog.types[row].requirements)})
            if families:
                yield (
                    f"no instance type that it allows has {name}; allow a family that has it ({_some(families)}) in "
                    "spec.requirements, here or in another Provisioner"
                )
            else:
                yield f"no instance type on offer has {name}{self._near_resource(name)}"

    def _near_resource(self, name: str) -> str:
        known = sorted({each for kind in self.catalog.types for each in kind.capacity})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        return f"; did you mean {near[0]}?" if near else "; check its name"

    def _nothing_at_once(self, rows: Bools, question: Question) -> str:
        """Explain that each requirement can be met alone, and all of them by nothing that is available."""
        if gone := self._sold_out(rows, question):
            return f"what would do has no capacity now ({_some(gone)}); it is tried again within minutes, or allow more"
        terms = (term for choice in question.level.choices for term in choice)
        asked = [str(requirement) for term in terms for requirement in term.values()]
        return (
            f"no instance type with an available offering meets all its requirements at once ({_some(asked)}); "
            "relax one of them"
        )

    def _sold_out(self, rows: Bools, question: Question) -> list[str]:
        """Return the types of `rows` whose offerings that meet every choice of the pod have no capacity now."""
        catalog, names = self.catalog, set[str]()
        for row in np.flatnonzero(rows).tolist():
            of_pool = catalog.pools[int(catalog.pool_of[row])].requirements
            for offering in catalog.types[row].offerings:
                has = {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
                if not offering.available and _has(of_pool, has):
                    choices = question.level.choices
                    if all(any(_has(term, has) and self._of_type(row, term) for term in terms) for terms in choices):
                        names.add(catalog.types[row].name)
        return sorted(names)

    def _of_type(self, row: int, term: Requirements) -> bool:
        """Return whether the labels of a row's type, and those that its Provisioner sets, meet a term."""
        asked = (requirement for key, requirement in term.items() if key not in OFFERING_LABELS)
        return all(bool(self.catalog.columns.accepts(requirement)[row]) for requirement in asked)

    def _resources(self, allowed: Bools, question: Question) -> str:
        catalog = self.catalog
        fits = self._fits(question)[:, allowed]
        if fits.all(axis=0).any():
            return ""
        short = [column for column in question.columns if not fits[column].any()]
        if not short:
            names = [catalog.space.names[column] for column in question.columns]
            asked = zip(names, question.request[question.columns].tolist(), strict=True)
            request = _some([in_words(name, int(amount)) for name, amount in asked if not is_slot(name)])
            return (
                f"no one instance type has all that it asks for ({request}); ask for less of one, or allow other types"
            )
        reasons = []
        for column in short:
            name = catalog.space.names[column]
            if is_slot(name):
                reasons.append(_slot(name))
                continue
            most = max(0, int(np.max(catalog.allocatable[column, allowed])))
            asked_of, left = different(name, int(question.request[column]), most)
            reasons.append(
                f"it asks for {asked_of}, and the largest type leaves {left} beside DaemonSets; "
                "ask for less, or allow larger types"
            )
        return "; ".join(reasons)

    def _fits(self, question: Question) -> Bools:
        """Return R x T flags: an empty node of the option has enough of the resource."""
        enough = (self.catalog.allocatable >= question.request[:, None]) | (question.request == 0)[:, None]
        return np.asarray(enough, dtype=np.bool_)

    def _limits(self, index: int, allowed: Bools, question: Question) -> str:
        """Explain which limit is reached: what it is, what is used and planned, and what the smallest node takes."""
        fits = self._fits(question).all(axis=0) & allowed
        if (fits & self.limits.allows(len(allowed))).any():
            return ""
        pool, smallest = self.catalog.pools[index], self.limits.least(index, fits)
        left = dict(zip(self.limits.names[index], self.limits.left[index].tolist(), strict=True))
        reached = [name for name, least in smallest.items() if least > left[name]] or sorted(left)
        limits = [self._limit(name, pool, int(left[name]), int(smallest[name])) for name in reached]
        text = f"{'; '.join(limits)}; raise spec.limits.resources"
        self.limited[pool.provisioner.name] = text
        return text

    def _limit(self, name: str, pool: Pool, left: int, least: int) -> str:
        limits: Mapping[str, int] = pool.provisioner.limits or {}
        limit = limits.get(name, 0)
        used = limit - pool.headroom.get(name, 0)
        planned = limit - used - left
        more = f" and {in_words(name, planned)} planned" if planned > 0 else ""
        return (
            f"its limit of {in_words(name, limit)} is reached: {in_words(name, used)} in use{more}, "
            f"and the smallest node that would do has {in_words(name, least)}"
        )


def _values(cell: LabelValue) -> Iterable[str]:
    """Return the values that a label may get, as far as they can be listed."""
    if isinstance(cell, str):
        return (cell,)
    return () if cell is None or cell.complement else cell.values


def _family(requirements: Requirements) -> Iterable[str]:
    """Return the family of a type, where it is labelled."""
    known = requirements.get(labels.INSTANCE_FAMILY)
    return known.values if known is not None else ()


def _has(requirements: Requirements, values: Mapping[str, str]) -> bool:
    """Return whether an offering's zone and capacity type meet the requirements on them."""
    return all(key not in requirements or requirements[key].has(value) for key, value in values.items())


def _some(values: list[str]) -> str:
    shown = ", ".join(values[:SHOWN])
    return f"{shown} and {len(values) - SHOWN} more" if len(values) > SHOWN else shown


def near_key(key: str, catalog: CompiledCatalog) -> str:
    """Return a hint at a known label key that looks similar, or an empty text."""
    of_pools = {label for pool in catalog.pools for label in pool.requirements}
    known = (catalog.catalog_keys | of_pools | labels.WELL_KNOWN) - {key}
    parts = [candidate for candidate in sorted(known) if key in candidate and candidate != key]
    near = parts[:1] or difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""
