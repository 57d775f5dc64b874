"""The inputs of a decision: a digest of the cluster state, and the price of our nodes before and after it.

Decisions of a plan carry both. For others both come from the newest snapshot, on which the decision was made: nodes are
marked for removal in the thread that owns the state, after a last check of that snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from controller.core.cloud import Catalog
from controller.core.decisions.decision import Decision, state_digest
from controller.core.decisions.fleet_cost import fleet, node_price_of
from controller.core.state.snapshot import Snapshot


@dataclass(slots=True)
class Standing:
    """A snapshot, the offerings at that time by Provisioner, and the digest of both. Immutable but for a cache."""

    snapshot: Snapshot
    catalog: Catalog
    digest: str
    _fleet: Mapping[str, float] | None = field(default=None, init=False, repr=False)
    """`fleet` of the two, once it was asked for: a thousand decisions may share it."""

    @classmethod
    def of(cls, snapshot: Snapshot, catalog: Catalog) -> Standing:
        return cls(snapshot, catalog, state_digest(snapshot, catalog))

    def still_of(self, snapshot: Snapshot, catalog: Catalog) -> bool:
        return self.snapshot.version == snapshot.version and self.catalog == catalog

    def prices(self, gone: Collection[str]) -> dict[str, float]:
        """Return the $ an hour of our nodes with a price, without leaving ones in `gone` (removals on record)."""
        if self._fleet is None:
            self._fleet = fleet(self.snapshot, self.catalog).prices
        prices, nodes = dict(self._fleet), self.snapshot.nodes
        for name in gone:
            if name in prices and nodes[name].leaving:
                del prices[name]
        return prices

    def completed(self, decision: Decision, gone: Collection[str]) -> Decision:
        """Return the decision with digest and prices added where it lacks them. `gone`: see `prices`."""
        if not decision.inputs:
            decision = replace(decision, inputs=self._inputs(decision))
        if decision.price_before is not None:
            return decision
        name = decision.subject.partition("/")[2]
        prices = self.prices(gone)
        own = prices.pop(name, None)
        rest = sum(prices.values())
        if decision.kind == "skip":
            return replace(decision, price_before=rest + (own or 0.0), price_after=rest + (own or 0.0))
        own = self._listed(decision) if own is None else own
        full = None if own is None else rest + own
        before, after = (rest, full) if decision.kind == "launch" else (full, rest)
        return replace(decision, price_before=before, price_after=after)

    def _inputs(self, decision: Decision) -> str:
        """Hash the digest with the annotations of the decision's node (since when it is empty, that it drifted)."""
        node = self.snapshot.nodes.get(decision.subject.partition("/")[2])
        notes = [] if node is None else sorted(node.node.annotations.items())
        return hashlib.sha256(repr((self.digest, notes)).encode()).hexdigest()[:16]

    def _listed(self, decision: Decision) -> float | None:
        """Return the catalog's price of the offering in the decision's details, where there is no node (yet)."""
        own = decision.details
        types = self.catalog.get(decision.provisioner, ())
        entry = next((each for each in types if each.name == own.get("instance_type")), None)
        return node_price_of(entry, own.get("zone"), own.get("capacity_type"))
