"""Volumes that several pods use: one attachment on each node that has any of them, as NodeVolumeLimits counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from controller.core.provisioning.pods.pod_classes import SharedVolume
from controller.core.provisioning.resource_space import Bools, Floats, Ints


class SharedVolumes:
    """Which rows of the NodeTable have which shared volumes attached: arrays of `room` flags, which grow with it.

    columns: by driver, the column of its attachments among the resources. attached: by volume, the rows of the existing
    nodes that have it.
    """

    def __init__(self, columns: Mapping[str, int], attached: Mapping[str, Sequence[int]], room: int) -> None:
        self._columns = columns
        self._room = room
        self._attached: dict[str, Bools] = defaultdict(lambda: np.zeros(self._room, dtype=np.bool_))
        for volume, rows in attached.items():
            self._attached[volume][list(rows)] = True

    def grow(self, room: int) -> None:
        """Grow all arrays to `room` rows."""
        if room != self._room:
            for volume, flags in self._attached.items():
                self._attached[volume] = np.concatenate([flags, np.zeros(room - len(flags), dtype=np.bool_)])
            self._room = room

    def missing(self, volumes: Iterable[SharedVolume], rows: slice | Ints) -> dict[int, Floats]:
        """Return, by column, how many of these volumes each of the rows has yet to attach."""
        missing: dict[int, Floats] = {}
        for driver, volume in volumes:
            lacking = (~self._attached[volume][rows]).astype(np.float64)
            column = self._columns[driver]
            missing[column] = missing[column] + lacking if column in missing else lacking
        return missing

    def on_empty(self, volumes: Iterable[SharedVolume]) -> dict[int, int]:
        """Return, by column, how many attachments these volumes take on a node without any."""
        return Counter(self._columns[driver] for driver, _ in volumes)

    def attach(self, volumes: Iterable[SharedVolume], rows: Ints | int) -> None:
        """Note that the rows have these volumes."""
        for _, volume in volumes:
            self._attached[volume][rows] = True

    def on_existing(self, existing: int, room: int) -> SharedVolumes:
        """Return the same for the first `existing` rows, with none on others."""
        attached = {volume: np.flatnonzero(flags[:existing]).tolist() for volume, flags in self._attached.items()}
        return SharedVolumes(self._columns, attached, room)
