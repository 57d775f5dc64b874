"""Compile what a relaxation level requires of a node into masks over node options and existing nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from controller.core.api.pod import Toleration
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_signatures import LabelSignatures
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Bits, Bools, Floats
from controller.core.scheduling.requirements import Requirements

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
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._compile(choices, pins, tolerations)
        return mask

    def narrowed(self, mask: Mask, bits: Bits, existing: Bools) -> Mask:
        """Return the part of a mask within these offering bits (T) and existing nodes (E flags)."""
        bits, existing = mask.bits & bits, mask.existing & existing
        key = (mask.index, bits.tobytes(), existing.tobytes())
        narrowed = self._masks.get(key)
        if narrowed is None:
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
        prices = self._prices.get(mask.index)
        if prices is None:
            prices = self._prices[mask.index] = self.catalog.cheapest(mask.bits, np.arange(len(mask.bits)))
        return prices

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
