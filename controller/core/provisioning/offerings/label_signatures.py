"""Signatures: requirements of a node's pods on labels that its Provisioner leaves open, interned as small integers.

If every node option has one value per label (the usual case), all signatures are 0 and cost nothing.
"""

from __future__ import annotations

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_masks import LabelValue
from controller.core.provisioning.resource_space import Bools, Ints
from controller.core.scheduling.requirements import Requirement, Requirements

NOTHING = Requirements()


class LabelSignatures:
    """Interned requirement sets over the catalog's open keys. 0: no requirement; -1: a contradiction.

    base: T signatures of the values that Provisioner and instance type of a node option leave possible.
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
            signature = known.get(tuple(codes))
            if signature is None:
                values = [values[code] for (_, values), code in zip(columns, codes, strict=True)]
                parts = [_as_requirement(key, value) for key, value in zip(keys, values, strict=True)]
                signature = known[tuple(codes)] = self._intern(Requirements(parts))
            signatures[row] = signature
        return signatures

    def _intern(self, requirements: Requirements) -> int:
        signature = self._ids.get(requirements)
        if signature is None:
            signature = self._ids[requirements] = len(self._sets)
            self._sets.append(requirements)
        return signature

    def of(self, requirements: Requirements) -> int:
        """Return the signature of these requirements, those on other keys left out;
        -1 if they contradict each other."""
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
        merged = self._merged.get(key)
        if merged is None:
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
