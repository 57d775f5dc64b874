"""Number the resources of a batch, so that requests and capacities become vectors.

Values are float64 of integers: exact up to 2**53 (9 PB in bytes), and a quotient of two such
numbers never rounds up to an integer.
Units are those of the API's parser: millicores for cpu, bytes for memory and storage, counts for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]


ATTACHMENT = "csi:"
"""Before a driver's name: its attachments as a slot (see `pods/slots.py`)."""


class ResourceSpace:
    """The R resources that some pod requests, slots included; other resources cannot constrain a plan.

    names: R, sorted. column: the index of each name. Arrays of many nodes or node options are R x nodes: one contiguous
    row per resource, as packing compares one resource over all nodes.
    """

    def __init__(self, requests: Iterable[Mapping[str, int]]) -> None:
        self.names = tuple(sorted({name for request in requests for name, amount in request.items() if amount > 0}))
        self.slots = any(":" in name for name in self.names)
        """Whether some columns are slots (see `pods/slots.py`)."""
        self.amounts: Bools = np.array([":" not in name for name in self.names], dtype=np.bool_)
        """R flags: which columns are no slots."""
        self.attachments = {name.removeprefix(ATTACHMENT): i for i, name in enumerate(self.names) if ATTACHMENT in name}
        """The column of each driver's attachments, by the driver's name."""
        self.column = {name: index for index, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def vector(self, resources: Mapping[str, int]) -> Floats:
        """Return R amounts, 0 where absent; other resources are left out."""
        values = np.zeros(len(self.names))
        for name, amount in resources.items():
            column = self.column.get(name)
            if column is not None:
                values[column] = amount
        return values

    def matrix(self, rows: Iterable[Mapping[str, int]]) -> Floats:
        """Return R x len(rows) amounts."""
        columns = [[row.get(name, 0) for name in self.names] for row in rows]
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(self.names)).T.copy()

    def mapping(self, vector: Floats) -> dict[str, int]:
        """Return, by name, the amounts above 0, slots left out."""
        amounts = zip(self.names, vector.tolist(), strict=True)
        return {name: int(amount) for name, amount in amounts if amount > 0 and ":" not in name}
