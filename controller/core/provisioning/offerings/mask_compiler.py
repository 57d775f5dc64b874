"""Compile what a relaxation level requires of a node into masks over node options and existing nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from controller.core.api.pod import Toleration
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_masks import LabelValue
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.scheduling.requirements import Requirement, Requirements

NOTHING = Requirements()


class LabelSignatures:
    """Requirements of a node's pods on labels that its Provisioner leaves open, interned as small integers.

    0: no requirement, as for all where every node option has one value per label; -1: a contradiction. base: T
    signatures of the values that Provisioner and instance type of a node option leave possible.
    """

    def __init__(self, catalog: CompiledCatalog) -> None:
        self._catalog = catalog
        self._ids: dict[Requirements, int] = {NOTHING: 0}
        self._sets: list[Requirements] = [NOTHING]
        self._merged: dict[tuple[int, int], int] = {}
        self.base = self._bases()

    def _bases(self) -> Ints:
        keys = sorted(self._catalog.open_keys)
        columns = [self._catalog.columns.column(key) for key in keys]
        signatures = np.zeros(len(self._catalog), dtype=np.int64)
        if not columns:
            return signatures
        # Node options with equal codes of all open labels (T x labels) have one signature.
        known: dict[tuple[int, ...], int] = {}
        for row, codes in enumerate(np.stack([codes for codes, _ in columns], axis=1).tolist()):
            if (signature := known.get(tuple(codes))) is None:
                values = [values[code] for (_, values), code in zip(columns, codes, strict=True)]
                parts = [_as_requirement(key, value) for key, value in zip(keys, values, strict=True)]
                signature = known[tuple(codes)] = self._intern(Requirements(parts))
            signatures[row] = signature
        return signatures

    def _intern(self, requirements: Requirements) -> int:
        if (signature := self._ids.get(requirements)) is None:
            signature = self._ids[requirements] = len(self._sets)
            self._sets.append(requirements)
        return signature

    def of(self, requirements: Requirements) -> int:
        """Return the signature of the requirements on open keys; -1 if they contradict each other."""
        parts = [r for key, r in requirements.items() if key in self._catalog.open_keys]
        if not parts:
            return 0
        return self._intern(Requirements(parts)) if all(part.satisfiable for part in parts) else -1

    def requirements(self, signature: int) -> Requirements:
        """Return the requirement set behind a signature."""
        return self._sets[signature]

    def merge(self, one: int, two: int) -> int:
        """Return the signature of both together, or -1."""
        if two == 0 or one == two:
            return one
        if one <= 0:
            return two if one == 0 else -1
        key = (one, two)
        if (merged := self._merged.get(key)) is None:
            both = self._sets[one].intersection(self._sets[two])
            merged = self._intern(both) if all(r.satisfiable for r in both.values()) else -1
            self._merged[key] = merged
        return merged

    def compatible(self, rows: Ints, signature: int) -> Bools:
        """Return for each signature of `rows` whether it can be merged with `signature`."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        fine = [self.merge(int(one), signature) >= 0 for one in distinct]
        return np.array(fine, dtype=np.bool_)[inverse] if fine else np.zeros(0, np.bool_)


def _as_requirement(key: str, value: LabelValue) -> Requirement:
    if isinstance(value, Requirement):
        return value
    return Requirement.of(key, "DoesNotExist") if value is None else Requirement.of(key, "In", (value,))


Tolerations = tuple[tuple[tuple[Toleration, ...], bool], ...]
"""Tolerations of several pods, all of which must suffice; with each whether the pods avoid PreferNoSchedule taints."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Where pods may go by labels and taints. Interned: equal constraints give the same object.

    bits: T sets of offering bits, one per node option (0: none). existing: E flags, one per existing node. signature:
    of the requirements on open labels. requirements: what the labels of a new node must satisfy. exact: nothing that
    narrows `bits` is left out of `requirements`. launchable: some bit is set.
    """

    index: int
    bits: Bits
    existing: Bools
    signature: int
    requirements: Requirements
    exact: bool
    launchable: bool


class MaskCompiler:
    """Compiles relaxation levels into masks, each distinct one once."""

    def __init__(self, catalog: CompiledCatalog, existing: ExistingNodes) -> None:
        self.catalog = catalog
        self.existing = existing
        self.signatures = LabelSignatures(catalog)
        self._masks: dict[object, Mask] = {}
        self._prices: dict[int, Floats] = {}
        self._unit_costs: dict[tuple[int, bytes, float], float] = {}
        self._unit_parts: dict[bytes, Floats] = {}

    def variants(self, level: RelaxationLevel) -> list[tuple[Choice, ...]]:
        """List the variants of the level's choices, one per OR term over open labels: a node gets one value each."""
        options = []
        for terms in level.choices:
            apart = len(terms) > 1 and any(key in self.catalog.open_keys for term in terms for key in term)
            options.append([(term,) for term in terms] if apart else [terms])
        return [tuple(picked) for picked in product(*options)]

    def mask(
        self,
        level: RelaxationLevel,
        choices: tuple[Choice, ...],
        pins: Requirements | None = None,
        tolerations: Tolerations = (),
    ) -> Mask:
        """Return the mask of a level with one of its `variants`. pins: requirements that topology adds.

        tolerations: of a colocated bundle's members, in place of the level's own.
        """
        tolerations = tolerations or ((level.tolerations, level.avoids_preferred_taints),)
        key = (choices, tolerations, pins)
        if (mask := self._masks.get(key)) is None:
            mask = self._masks[key] = self._compile(choices, pins, tolerations)
        return mask

    def narrowed(self, mask: Mask, bits: Bits, existing: Bools) -> Mask:
        """Return the part of a mask within these offering bits (T) and existing nodes (E flags)."""
        bits, existing = mask.bits & bits, mask.existing & existing
        key = (mask.index, bits.tobytes(), existing.tobytes())
        if (narrowed := self._masks.get(key)) is None:
            narrowed = self._masks[key] = replace(
                mask,
                index=len(self._masks),
                bits=bits,
                existing=existing,
                exact=mask.exact and bool((bits == mask.bits).all()),
                launchable=bool(bits.any()),
            )
        return narrowed

    def prices(self, mask: Mask) -> Floats:
        """Return T costs in $/hour: the cheapest offering of each option that the mask allows; infinite if none."""
        if (prices := self._prices.get(mask.index)) is None:
            prices = self._prices[mask.index] = self.catalog.cheapest(mask.bits, np.arange(len(mask.bits)))
        return prices

    def least_cost(self, mask: Mask, request: Floats, most: float = math.inf) -> float:
        """Return the $/hour that a unit (R) pays on the cheapest new node: the node's price, times its largest part of
        any resource, or one of `most` equal parts if that is more; infinite where no node holds it."""
        key = (mask.index, request.tobytes(), most)
        if (cost := self._unit_costs.get(key)) is None:
            prices, parts = self.prices(mask), np.maximum(self._parts(request), 1.0 / most)
            fits = np.isfinite(prices) & np.isfinite(parts)
            cost = self._unit_costs[key] = float((prices[fits] * parts[fits]).min(initial=np.inf))
        return cost

    def _parts(self, request: Floats) -> Floats:
        """Return T: the part of an empty node that a unit takes, by its scarcest resource; infinite: none fits."""
        key = request.tobytes()
        if (parts := self._unit_parts.get(key)) is None:
            asked = request > 0
            allocatable, amounts = self.catalog.allocatable[asked], request[asked, None]
            largest = (amounts / np.maximum(allocatable, 1e-9)).max(axis=0, initial=0.0)
            parts = np.where((allocatable >= amounts).all(axis=0), largest, np.inf)
            self._unit_parts[key] = parts
        return parts

    def _compile(self, choices: tuple[Choice, ...], pins: Requirements | None, tolerations: Tolerations) -> Mask:
        catalog = self.catalog
        all_choices = (*choices, (pins,)) if pins else choices
        bits = catalog.available
        existing = np.ones(len(self.existing), dtype=np.bool_)
        for each, avoid in tolerations:
            bits = np.where(catalog.tolerated(each, preferences=avoid), bits, np.uint64(0))
            existing = existing & self.existing.tolerated(each, preferences=avoid)
        requirements = Requirements()
        for terms in all_choices:
            bits = bits & catalog.choice_bits(terms)
            existing = existing & self.existing.choice(terms)
            if len(terms) == 1:
                requirements = requirements.intersection(terms[0])
        signature = self.signatures.of(requirements)
        if signature > 0:
            merged = [self.signatures.merge(base, signature) >= 0 for base in self.signatures.base.tolist()]
            bits = np.where(merged, bits, np.uint64(0))
        elif signature < 0:
            bits = np.zeros_like(bits)
        exact = all(len(terms) == 1 for terms in all_choices)
        return Mask(len(self._masks), bits, existing, signature, requirements, exact, bool(bits.any()))
