"""Pods that must share a host are bundled: one unit that goes to one node, with all that it needs there.

A class with affinity over kubernetes.io/hostname joins those that it must stand beside. Targets that ask for nothing
themselves lend one pod; the rest of them go where they like. What one node cannot hold is cut down evenly; what is left
may only join rows where the bundle went (kube-scheduler would not put it elsewhere).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from controller.core.provisioning.compiler import MaskCompiler
from controller.core.provisioning.domains import Domains
from controller.core.provisioning.pieces import Member, Piece, UnitRule, unit_rules
from controller.core.provisioning.resources import Floats
from controller.core.provisioning.topology import Kind, Topology


class Bundler:
    """Turns pieces into pieces, bundles among them."""

    def __init__(self, topology: Topology, masks: MaskCompiler, domains: Domains) -> None:
        self.topology = topology
        self.masks = masks
        self.domains = domains

    def bundle(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces, those that must share a host replaced by bundles and what is left over of them."""
        components = self._components(pieces)
        bundled: dict[int, int] = defaultdict(int)
        made: list[Piece] = []
        for component in components:
            piece = self._bundle([pieces[index] for index in component])
            if piece is None:
                continue
            made.append(piece)
            sizes = {member.pod_class.index: member.pods for member in piece.members}
            for index in component:
                bundled[index] += sizes.get(pieces[index].pod_class.index, 0)
        for index, piece in enumerate(pieces):
            piece.count -= bundled[index]
            if piece.count:
                made.append(piece)
        return made

    def _components(self, pieces: Sequence[Piece]) -> list[list[int]]:
        """Pieces linked by a host affinity whose first pod is still to be placed."""
        leader = list(range(len(pieces)))

        def find(index: int) -> int:
            while leader[index] != index:
                leader[index] = leader[leader[index]]
                index = leader[index]
            return index

        touched: dict[int, list[int]] = defaultdict(list)
        owned: set[int] = set()
        for index, piece in enumerate(pieces):
            for rule in piece.rules:
                if _bootstraps(rule):
                    touched[rule.group.index].append(index)
                    if rule.obeys:
                        owned.add(rule.group.index)
        for group, members in sorted(touched.items()):
            if group in owned:
                for index in members[1:]:
                    leader[find(index)] = find(members[0])
        components: dict[int, list[int]] = defaultdict(list)
        for index, piece in enumerate(pieces):
            if any(_bootstraps(rule) and rule.group.index in owned for rule in piece.rules):
                components[find(index)].append(index)
        return [sorted(found) for _, found in sorted(components.items())]

    def _bundle(self, pieces: list[Piece]) -> Piece | None:
        owners = [p for p in pieces if any(_bootstraps(rule) and rule.obeys for rule in p.rules)]
        counts = {p.pod_class.index: p.count for p in owners}
        needed = {r.group.index for p in owners for r in p.rules if _bootstraps(r) and r.obeys}
        for piece in sorted(pieces, key=lambda p: (p.count, p.name)):
            brings = {r.group.index for p in pieces if p.pod_class.index in counts for r in p.rules if r.matched}
            adds = {r.group.index for r in piece.rules if _bootstraps(r) and r.matched}
            if needed - brings and adds & (needed - brings) and piece.pod_class.index not in counts:
                counts[piece.pod_class.index] = 1
        chosen = [p for p in pieces if p.pod_class.index in counts]
        if needed - {r.group.index for p in chosen for r in p.rules if r.matched}:
            return None
        return self._cut_to_fit(chosen, counts)

    def _cut_to_fit(self, pieces: list[Piece], counts: dict[int, int]) -> Piece | None:
        """The largest even share of the bundle that some node can hold; None: not even one pod of each."""
        low, high = 0.0, 1.0
        best = self._joined(pieces, counts)
        if self._fits(best):
            return best
        best = self._joined(pieces, dict.fromkeys(counts, 1))
        if not self._fits(best):
            return None
        for _ in range(12):
            middle = (low + high) / 2
            share = self._joined(pieces, {index: max(1, int(count * middle)) for index, count in counts.items()})
            if self._fits(share):
                low, best = middle, share
            else:
                high = middle
        return best

    def _joined(self, pieces: list[Piece], counts: dict[int, int]) -> Piece:
        members = tuple(Member(m.pod_class, counts[p.pod_class.index], m.number) for p in pieces for m in p.members)
        request: Floats = np.sum([p.request * counts[p.pod_class.index] for p in pieces], axis=0)
        first = pieces[0]
        level = first.level
        choices = tuple(terms for piece in pieces for terms in piece.choices)
        joined = Piece(members, level, tuple(dict.fromkeys(choices)), request, 1)
        joined.bundled = True
        joined.rules = unit_rules(self.topology, members)
        joined.tolerations = tuple(
            dict.fromkeys((p.level.tolerations, p.level.avoids_preferred_taints) for p in pieces)
        )
        return joined

    def _fits(self, piece: Piece) -> bool:
        if any(
            rule.group.key.kind is Kind.SPREAD and rule.obeys and rule.matched > rule.group.key.max_skew
            for rule in piece.rules
        ):
            return False
        if any(rule.group.key.kind is Kind.ANTI_AFFINITY and rule.obeys and rule.matched > 1 for rule in piece.rules):
            return False
        mask = self.masks.mask(piece.level, piece.choices, None, piece.tolerations)
        return bool(np.isfinite(self.domains.cost(mask, piece.request)))


def _bootstraps(rule: UnitRule) -> bool:
    return rule.host and rule.group.key.kind is Kind.AFFINITY and not rule.group.anywhere
