"""What an empty new node of each node option holds for the pods of a batch, after its daemons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.core.api.pod import Resources
from controller.core.provisioning.offerings.option_table import OptionTable, Pool, unpacked
from controller.core.provisioning.pods.daemons import Daemon
from controller.core.provisioning.resource_space import Bits, Floats, Ints, ResourceSpace
from controller.core.scheduling.requirements import Requirements


class CompiledCatalog:
    """An option table (T node options, K offering keys) with one batch's resources (R columns of `space`) and daemons.

    An option of which a daemon runs on only some offerings is split, so that overhead is exact. Attributes and methods
    of the table are those of `OptionTable`. capacity, overhead, allocatable: R x T, of an empty node; overhead is what
    its daemons request, allocatable = the type's allocatable (its CPU up to the option's limit) + slots - overhead.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        table: OptionTable,
        space: ResourceSpace,
        daemons: Sequence[Daemon],
        slots: Callable[[str], Resources],
    ) -> None:
        """`slots`: the slots (host ports, volume attachments) of an empty node, by instance type name."""
        self.pools = tuple(pools)
        self.space = space
        self.table = table = table.split([_daemon_bits(table, daemon) for daemon in daemons])
        self.types, self.pool_of = table.types, table.pool_of
        self.offering_keys, self.cost, self.available = table.offering_keys, table.cost, table.available
        self.columns, self.catalog_keys, self.open_keys = table.columns, table.catalog_keys, table.open_keys
        self.term_bits, self.choice_bits, self.tolerated = table.term_bits, table.choice_bits, table.tolerated
        self.capacity, empty = table.resources(space)
        if space.slots:
            empty = empty + space.matrix(slots(kind.name) for kind in self.types)
        self.overhead: Floats = np.zeros_like(empty)
        for daemon in daemons:
            self.overhead += space.vector(daemon.requests)[:, None] * (_daemon_bits(table, daemon) != 0)
        if (cpu := space.column.get("cpu")) is not None:
            empty = empty.copy()
            np.minimum(empty[cpu], table.cpu_limit, out=empty[cpu])
        self.allocatable: Floats = empty - self.overhead

    def __len__(self) -> int:
        return len(self.types)

    def cheapest(self, bits: Bits, rows: Ints) -> Floats:
        """Return the least cost ($/hour) of each option of `rows` among its offerings in `bits`; infinite if none."""
        chosen = unpacked(bits, len(self.offering_keys))
        least: Floats = np.where(chosen, self.cost[rows], np.inf).min(axis=1, initial=np.inf)
        return least


def _daemon_bits(table: OptionTable, daemon: Daemon) -> Bits:
    """Return T sets of offering bits: where the DaemonSet's pod would run (node selector, any affinity term, taints).

    Startup taints are ignored: they are gone before pods come.
    """
    spec = daemon.spec
    bits = np.where(table.tolerated(spec.tolerations), table.available, np.uint64(0))
    bits = bits & table.term_bits(Requirements.from_labels(spec.node_selector))
    if spec.required_node_affinity is not None:
        terms = (term.match_expressions for term in spec.required_node_affinity if term.match_expressions)
        bits = bits & table.choice_bits(tuple(map(Requirements.of, terms)))
    return bits
