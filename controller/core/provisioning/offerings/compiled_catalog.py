"""The catalog as a batch sees it: what empty nodes of each node option hold, daemons deducted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.core.api.pod import Resources, Toleration
from controller.core.provisioning.offerings.option_table import OptionTable, Pool
from controller.core.provisioning.pods.daemons import Daemon
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints, ResourceSpace
from controller.core.scheduling.requirements import Requirements


class CompiledCatalog:
    """Arrays over node options, T of them, and P pairs of zone and capacity type (see `OptionTable`).

    capacity, allocatable: R x T; allocatable is less the daemons' share. `slots` tells the slots (host ports,
    attachments) of an empty node of a type.
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
        self._use(table)
        split = self._split([self.daemon_bits(daemon) for daemon in daemons])
        if split is not None:
            self._use(split)
        self.capacity, empty = self.table.resources(space)
        if space.slots:
            empty = empty + space.matrix(slots(kind.name) for kind in self.types)
        self._charge(daemons, empty)
        self._least: dict[tuple[int, int], float] = {}

    def __len__(self) -> int:
        return len(self.types)

    def _use(self, table: OptionTable) -> None:
        self.table = table
        self.types, self.pool_of, self.offerings = table.types, table.pool_of, table.offerings
        self.offering_keys, self.offering_key_index = table.offering_keys, table.offering_key_index
        self.price, self.available = table.price, table.available
        self.columns, self.catalog_keys, self.open_keys = table.columns, table.catalog_keys, table.open_keys

    def _charge(self, daemons: Sequence[Daemon], empty: Floats) -> None:
        """Take the daemons' requests off every node option that they will run on."""
        self.overhead: Floats = np.zeros_like(empty)
        self.daemon_rows: list[tuple[Daemon, Bools]] = []
        for daemon in daemons:
            rows = self.daemon_bits(daemon) != 0
            self.daemon_rows.append((daemon, rows))
            self.overhead += self.space.vector(daemon.requests)[:, None] * rows
        self.allocatable: Floats = empty - self.overhead

    def _split(self, runs: Sequence[Bits]) -> OptionTable | None:
        """Node options taken apart where a daemon runs in some of their zones (or capacity types), not in others;
        None: there are none such."""
        if all(((bits == 0) | (bits == self.available)).all() for bits in runs):
            return None
        take: list[int] = []
        subsets: list[int] = []
        for row, available in enumerate(self.available.tolist()):
            alike: dict[tuple[int, ...], int] = {}
            for offering_key in range(len(self.offering_keys)):
                if available >> offering_key & 1:
                    who = tuple(int(bits[row]) >> offering_key & 1 for bits in runs)
                    alike[who] = alike.get(who, 0) | 1 << offering_key
            take.extend([row] * max(1, len(alike)))
            subsets.extend(alike.values() or [0])
        return self.table.taken(take, subsets)

    def daemon_bits(self, daemon: Daemon) -> Bits:
        """Per node option, the pairs on which a DaemonSet's pod will run: selector, any OR term, taints (startup
        taints pass)."""
        spec = daemon.spec
        bits = np.where(self.tolerated(spec.tolerations), self.available, np.uint64(0))
        bits = bits & self.term_bits(Requirements.from_labels(spec.node_selector))
        if spec.required_node_affinity is not None:
            either = np.zeros(len(self.types), dtype=np.uint64)
            for term in spec.required_node_affinity:
                if term.match_expressions:
                    either |= self.term_bits(Requirements.of(term.match_expressions))
            bits = bits & either
        return bits

    def term_bits(self, requirements: Requirements) -> Bits:
        """Per node option, the pairs on which a node would satisfy the requirements. Shared: don't change it."""
        return self.table.term_bits(requirements)

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """Per node option, whether these tolerations cover its Provisioner's taints. Shared: don't change it."""
        return self.table.tolerated(tolerations, preferences=preferences)

    def cheapest(self, bits: Bits, rows: Ints) -> Floats:
        """Per node option of `rows`, the least price among the pairs in its bit set; infinite where there is none."""
        shifts = np.arange(len(self.offering_keys), dtype=np.uint64)
        open_offerings = (bits[:, None] >> shifts) & np.uint64(1) != 0
        least: Floats = np.where(open_offerings, self.price[rows], np.inf).min(axis=1, initial=np.inf)
        return least

    def least(self, row: int, bits: int) -> float:
        """The same of one node option, kept: few sets of pairs come up, again and again."""
        found = self._least.get((row, bits))
        if found is None:
            open_prices = (
                price for offering_key, price in enumerate(self.price[row].tolist()) if bits >> offering_key & 1
            )
            found = self._least[row, bits] = min(open_prices, default=np.inf)
        return found
