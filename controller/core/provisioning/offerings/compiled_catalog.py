"""What an empty new node of each node option holds for the pods of a batch, after its daemons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.core.api.pod import Resources, Toleration
from controller.core.provisioning.offerings.option_table import OptionTable, Pool
from controller.core.provisioning.pods.daemons import Daemon
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints, ResourceSpace
from controller.core.scheduling.requirements import Requirements


class CompiledCatalog:
    """An option table (T node options, K offering keys) with one batch's resources (R columns of `space`) and daemons.

    capacity, overhead, allocatable: R x T, of an empty node; overhead is what its daemons request, and allocatable =
    the type's allocatable + slots - overhead. daemon_rows: per DaemonSet, T flags: whether it runs on the option's
    nodes. `slots` gives the slots (host ports, volume attachments) of an empty node by instance type name.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        table: OptionTable,
        space: ResourceSpace,
        daemons: Sequence[Daemon],
        slots: Callable[[str], Resources],
    ) -> None:
        self.pools = tuple(pools)
        self.space = space
        self.table = table
        self.table = table = self._split([self.daemon_bits(daemon) for daemon in daemons])
        self.types, self.pool_of, self.offerings = table.types, table.pool_of, table.offerings
        self.offering_keys, self.price, self.available = table.offering_keys, table.price, table.available
        self.columns, self.catalog_keys, self.open_keys = table.columns, table.catalog_keys, table.open_keys
        self.capacity, empty = table.resources(space)
        if space.slots:
            empty = empty + space.matrix(slots(kind.name) for kind in self.types)
        self.overhead: Floats = np.zeros_like(empty)
        self.daemon_rows: list[tuple[Daemon, Bools]] = []
        for daemon in daemons:
            rows = self.daemon_bits(daemon) != 0
            self.daemon_rows.append((daemon, rows))
            self.overhead += space.vector(daemon.requests)[:, None] * rows
        self.allocatable: Floats = empty - self.overhead
        self._least: dict[tuple[int, int], float] = {}

    def __len__(self) -> int:
        return len(self.types)

    def _split(self, daemon_bits: Sequence[Bits]) -> OptionTable:
        """Split options of which a daemon runs on some offerings and not on others, so that overhead is exact."""
        table = self.table
        if all(((bits == 0) | (bits == table.available)).all() for bits in daemon_bits):
            return table
        rows: list[int] = []
        offering_bits: list[int] = []
        for row, available in enumerate(table.available.tolist()):
            by_daemons: dict[tuple[int, ...], int] = {}
            for key in range(len(table.offering_keys)):
                if available >> key & 1:
                    runs = tuple(int(bits[row]) >> key & 1 for bits in daemon_bits)
                    by_daemons[runs] = by_daemons.get(runs, 0) | 1 << key
            rows.extend([row] * max(1, len(by_daemons)))
            offering_bits.extend(by_daemons.values() or [0])
        return table.taken(rows, offering_bits)

    def daemon_bits(self, daemon: Daemon) -> Bits:
        """T sets of offering bits: where the DaemonSet's pod would run (selector, any affinity term, taints).

        Startup taints are ignored: they are gone before pods come.
        """
        spec = daemon.spec
        bits = np.where(self.tolerated(spec.tolerations), self.table.available, np.uint64(0))
        bits = bits & self.term_bits(Requirements.from_labels(spec.node_selector))
        if spec.required_node_affinity is not None:
            any_term = np.zeros_like(bits)
            for term in spec.required_node_affinity:
                if term.match_expressions:
                    any_term |= self.term_bits(Requirements.of(term.match_expressions))
            bits = bits & any_term
        return bits

    def term_bits(self, requirements: Requirements) -> Bits:
        """T sets of offering bits: the offerings whose nodes satisfy the requirements. Shared: do not change it."""
        return self.table.term_bits(requirements)

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """T flags: whether these tolerations cover the Provisioner's taints. Shared: do not change it."""
        return self.table.tolerated(tolerations, preferences=preferences)

    def cheapest(self, bits: Bits, rows: Ints) -> Floats:
        """The least price ($/hour) of each option of `rows` among its offerings in `bits`; infinite if none."""
        shifts = np.arange(len(self.offering_keys), dtype=np.uint64)
        chosen = (bits[:, None] >> shifts) & np.uint64(1) != 0
        least: Floats = np.where(chosen, self.price[rows], np.inf).min(axis=1, initial=np.inf)
        return least

    def least(self, row: int, bits: int) -> float:
        """`cheapest` for one option, cached: a batch has few distinct sets of offering bits."""
        known = self._least.get((row, bits))
        if known is None:
            prices = (price for key, price in enumerate(self.price[row].tolist()) if bits >> key & 1)
            known = self._least[row, bits] = min(prices, default=np.inf)
        return known
