"""Explain why a pod was not placed: which rule binds, on which Provisioner, and what would help."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from controller.core.api import labels
from controller.core.api.labels import FIELD_NAME
from controller.core.api.quantity import format_quantity
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_masks import value_accepts
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.pods.slots import is_slot
from controller.core.provisioning.resource_space import Bools, Floats
from controller.core.provisioning.topology.groups import RuleKind, TopologyGroup, UnitRule
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.scheduling.taints import untolerated

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
    """Why no new node has the slot."""
    kind, _, what = name.partition(":")
    if kind == "port":
        protocol, number, _ = what.split("/", 2)
        return f"a DaemonSet takes its host port {number}/{protocol} on every node; use another port"
    return f"it attaches more volumes of {what} than a node can"


def topology_reason(rules: Iterable[UnitRule], partners: Callable[[TopologyGroup], str]) -> str:
    """What the topology rules of an unplaced pod allow, given the plan's counts.

    partners: explains an affinity over hosts by the matching pods that run already, or returns an empty text.
    """
    obeyed = [rule for rule in rules if rule.obeys]
    return "; ".join(text for rule in obeyed for text in [partners(rule.group) or _rule(rule)] if text)


def _rule(rule: UnitRule) -> str:
    """What one rule allows; empty for spread and anti-affinity over hosts, which a new node always meets."""
    group, key = rule.group, rule.group.key
    counts = {domain: count for domain, count in sorted(group.max_matched.items()) if count > 0}
    held = f"{len(counts)} nodes" if rule.host else _some([f"{domain}: {count}" for domain, count in counts.items()])
    if key.kind is RuleKind.AFFINITY:
        if group.has_matched:
            return (
                f"its pod affinity over {key.key} allows only where matching pods stand ({held}), and there is no room"
            )
        return f"its pod affinity over {key.key} finds no matching pod anywhere; start the pods it must stand beside"
    if rule.host:
        return ""
    if key.kind is RuleKind.ANTI_AFFINITY:
        return f"its pod anti-affinity over {key.key} rules out domains with matching pods ({held})"
    empty = ", ".join(sorted(d for d in group.domains if not group.min_matched.get(d, 0)))
    return (
        f"its topology spread over {key.key} (maxSkew {key.max_skew}) counts {held or 'nothing yet'}"
        + (f", and 0 in {empty}" if empty else "")
        + "; the domain with the fewest cannot take it; raise maxSkew, or let it run there"
    )


class Reasons:
    """Explains one compiled problem's unplaced pods."""

    def __init__(self, catalog: CompiledCatalog, existing: ExistingNodes, limits: Limits) -> None:
        self.catalog = catalog
        self.existing = existing
        self.limits = limits

    def explain(self, question: Question, skipped: dict[str, str], topology: str = "") -> str:
        """One sentence for each Provisioner, and one for existing nodes.

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
        catalog = self.catalog
        rows = catalog.pool_of == index
        taint = untolerated(catalog.pools[index].provisioner.taints, question.level.tolerations)
        if taint is not None:
            return (
                f"its taint {taint.key}={taint.value}:{taint.effect} is not tolerated; add a toleration, "
                "or a Provisioner without the taint"
            )
        for terms in question.level.choices:
            why = self._choice(rows, terms)
            if why:
                return why
        allowed = rows & (question.mask.bits != 0)
        if not allowed.any():
            return "no instance type with an available offering meets all its requirements at once; relax one of them"
        return self._resources(allowed, question) or self._limits(index, allowed, question)

    def _choice(self, rows: Bools, terms: Choice) -> str:
        if not terms:
            return "an empty node selector term matches no node; remove it"
        if any((self.catalog.term_bits(term)[rows] != 0).any() for term in terms):
            return ""
        said = [self._term(rows, term) for term in terms]
        return said[0] if len(said) == 1 else "none of its affinity terms can be met: " + "; ".join(said)

    def _term(self, rows: Bools, term: Requirements) -> str:
        for key, requirement in term.items():
            if key in OFFERING_LABELS:
                offered = sorted(
                    {offering_key[0 if key.endswith("zone") else 1] for offering_key in self.catalog.offering_keys}
                )
                if not any(requirement.has(value) for value in offered):
                    return f"{requirement} is asked for, and it offers {_some(offered)}"
            elif not self.catalog.columns.accepts(requirement)[rows].any():
                return self._key(rows, requirement)
        return f"no offering meets {term} at once"

    def _key(self, rows: Bools, requirement: Requirement) -> str:
        if requirement.key in (labels.HOSTNAME, FIELD_NAME):
            return f"{requirement} is asked for, and a new node has a name of its own"
        codes, cells = self.catalog.columns.column(requirement.key)
        held = [cells[code] for code in sorted(set(codes[rows].tolist()))]
        values = sorted({str(cell) for cell in held if cell is not None and not value_accepts(cell, requirement)})
        if not values:
            hint = near_key(requirement.key, self.catalog)
            return f"{requirement} is asked for, and its nodes have no label {requirement.key}{hint}"
        return f"{requirement} is asked for, and its nodes have {_some(values)}"

    def _resources(self, allowed: Bools, question: Question) -> str:
        catalog = self.catalog
        fits = (catalog.allocatable[:, allowed] >= question.request[:, None]) | (question.request == 0)[:, None]
        if fits.all(axis=0).any():
            return ""
        short = [column for column in question.columns if not fits[column].any()]
        if not short:
            return "no one instance type has enough of every resource it asks for"
        said = []
        for column in short:
            name = catalog.space.names[column]
            if is_slot(name):
                said.append(_slot(name))
                continue
            most = max(0, int(np.max(catalog.allocatable[column, allowed])))
            asked = format_quantity(name, int(question.request[column]))
            said.append(f"it asks for {name} {asked}, and the largest type leaves {format_quantity(name, most)}")
        return "; ".join(said) + ", daemons deducted; ask for less, or allow larger types"

    def _limits(self, index: int, allowed: Bools, question: Question) -> str:
        fits = (self.catalog.allocatable >= question.request[:, None]) | (question.request == 0)[:, None]
        if (allowed & fits.all(axis=0) & self.limits.allows(len(allowed))).any():
            return ""
        left = zip(self.limits.names(index), self.limits.left[index].tolist(), strict=True)
        said = ", ".join(f"{name} {format_quantity(name, int(amount))}" for name, amount in left)
        return f"its limits leave {said}, less than the smallest node that would do; raise spec.limits.resources"


def _some(values: list[str]) -> str:
    shown = ", ".join(values[:SHOWN])
    return f"{shown} and {len(values) - SHOWN} more" if len(values) > SHOWN else shown


def near_key(key: str, catalog: CompiledCatalog) -> str:
    """A hint at a known label key that looks similar, or an empty text."""
    of_pools = {label for pool in catalog.pools for label in pool.requirements}
    known = (catalog.catalog_keys | of_pools | labels.WELL_KNOWN) - {key}
    parts = [candidate for candidate in sorted(known) if key in candidate and candidate != key]
    near = parts[:1] or difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""
