"""Among packings of about the same cost, the fewest nodes and then the fewest instance types."""

from __future__ import annotations

import numpy as np
import pytest

from controller.core.api import labels as keys
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.contenders import ABOUT, Contenders
from tests.core.provisioning.optimize.test_local_search import bin_packing_of
from tests.factories import instance_type, pending_pods, problem

PRICES = {"a.small": 1.0, "b.small": 1.001, "c.large": 2.01, "d.huge": 4.1}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        # Four small nodes are cheapest; two large cost half a per cent more and win; one huge costs too much.
        ((("a.small",) * 4, ("c.large",) * 2, ("d.huge",)), ("c.large",) * 2),
        ((("c.large",) * 2, ("a.small",) * 4), ("c.large",) * 2),
        # As many nodes: one type wins over two, then the price.
        ((("a.small", "b.small"), ("b.small",) * 2), ("b.small",) * 2),
        ((("b.small",) * 2, ("a.small",) * 2), ("a.small",) * 2),
        # A dearer one comes first, and stays beyond the tolerance of what comes after.
        ((("d.huge",), ("a.small",) * 4), ("a.small",) * 4),
    ],
)
def test_fewer_nodes_win_for_a_per_cent(offered: tuple[tuple[str, ...], ...], chosen: tuple[str, ...]) -> None:
    assert _names(offered, ABOUT) == chosen


def test_with_no_tolerance_the_cheapest_wins() -> None:
    assert _names((("c.large",) * 2, ("a.small",) * 4), 0.0) == ("a.small",) * 4


def test_units_left_out_weigh_more_than_anything() -> None:
    assert _names((("a.small",), ("d.huge",)), ABOUT, left=(1.0, 0.0)) == ("d.huge",)


def _names(offered: tuple[tuple[str, ...], ...], about: float, left: tuple[float, ...] = ()) -> tuple[str, ...]:
    """The types of the packing chosen among those with these types."""
    catalog = [
        instance_type(name=name, cpu=8, memory="64Gi", price=price, zones=("eu-west-1a",), capacity_types=(keys.SPOT,))
        for name, price in PRICES.items()
    ]
    bins = bin_packing_of(problem(pending=pending_pods(4, requests={"cpu": "1"}), catalog=catalog))
    names = [bins.catalog.types[option].name for option in bins.bin_types.option.tolist()]
    bins.price = np.array([PRICES[name] for name in names])
    contenders = Contenders(bins, about)
    for place, types in enumerate(offered):
        packed = [Bin(False, names.index(name), np.zeros(1)) for name in types]
        contenders.add(Packing(packed, np.full(1, left[place] if left else 0.0)))
    return tuple(names[one.number] for one in contenders.chosen().bins)
