"""Parts of the optimiser with numbers by hand: shares, bounds on worth, the covering program, greedy filling."""

from __future__ import annotations

import numpy as np
import pytest

from controller.core.provisioning.optimize.covering import (
    Coupling,
    Covering,
    Limit,
    cover,
    largest_shares,
    worth_bounds,
)
from controller.core.provisioning.optimize.fill import FillStrategy, ItemArrays, OpenBins, Supply, fill
from controller.core.provisioning.optimize.work_budget import WorkBudget


def test_a_share_is_that_of_the_scarcest_resource() -> None:
    """A unit of 1 cpu and 6 GiB: 3/4 of 8 GiB, and half of 2 cpus where memory abounds; all of a bin without memory."""
    shares = largest_shares(np.array([[1.0, 6.0], [1.0, 0.0]]), np.array([[4.0, 8.0], [2.0, 64.0], [4.0, 0.0]]))
    assert shares.tolist() == [[0.75, 0.25], [0.5, 0.5], [np.inf, 0.25]]


def test_worth_in_a_bin_is_bounded_by_the_vector_of_prices_that_suits_it_best() -> None:
    """Units worth $1 that ask for 1 cpu and 1 GiB: 2 cpus hold $2 of them, whatever memory there is, and vice versa."""
    by_cpu, by_memory = [1.0, 0.0], [0.0, 1.0]
    prices = np.array([by_cpu, by_memory])
    requests, capacity = np.array([[1.0, 1.0]]), np.array([[2.0, 9.0], [9.0, 3.0]])
    bounds, which = worth_bounds(
        np.array([1.0]), requests @ prices.T, capacity @ prices.T, np.ones((2, 1), dtype=np.bool_)
    )
    assert bounds.tolist() == [2.0, 3.0]
    assert which.tolist() == [0, 1]


def test_what_a_bin_lets_in_is_all_that_bounds_its_worth() -> None:
    """The second item is worth ten times as much, and the first bin does not let it in."""
    prices = np.array([[1.0]])
    kinds = np.array([[True, False], [True, True]])
    bounds, _ = worth_bounds(
        np.array([1.0, 10.0]),
        np.array([[1.0], [1.0]]) @ prices.T,
        np.array([[2.0], [2.0], [2.0]]) @ prices.T,
        kinds,
        np.array([0, 1, 0]),
    )
    assert bounds.tolist() == [2.0, 20.0, 2.0]


def covering(**fields: object) -> Covering:
    """Eight pods of 1 cpu, and two bin types: 4 cpus for $4, and 2 cpus for $3."""
    values: dict[str, object] = {
        "requests": np.array([[1.0]]),
        "counts": np.array([8.0]),
        "capacity": np.array([[4.0], [2.0]]),
        "price": np.array([4.0, 3.0]),
        "ceiling": np.array([np.inf, np.inf]),
        "allowed": np.ones((2, 1), dtype=np.bool_),
        **fields,
    }
    return Covering(**values)  # type: ignore[arg-type]


def test_the_cheapest_cover_has_the_price_and_the_duals_of_the_best_bin() -> None:
    optimum = cover(covering())
    assert optimum.price == pytest.approx(8.0)
    assert optimum.worth.tolist() == pytest.approx([1.0])
    assert dict(zip(optimum.bins.tolist(), optimum.nodes.tolist(), strict=True))[0] == pytest.approx(2.0)


def test_a_limit_sends_pods_to_the_dearer_bin_and_has_a_price() -> None:
    """One of the large bins is allowed: the other four pods pay $1.50 each. One more of it would save $2."""
    optimum = cover(covering(limits=(Limit(np.array([1.0, 0.0]), 1.0),)))
    assert optimum.price == pytest.approx(4.0 + 6.0)
    assert optimum.limit_prices.tolist() == pytest.approx([2.0])


def test_a_coupling_spreads_pods_over_domains() -> None:
    """The bins are of two domains, and maxSkew is 2: five pods in the cheap one, three in the other."""
    coupling = Coupling(items=np.array([0]), domain=np.array([0, 1]), existing=np.zeros(2), skew=2.0)
    optimum = cover(covering(couplings=(coupling,)))
    assert optimum.price == pytest.approx(5.0 * 1.0 + 3.0 * 1.5)


def test_what_no_bin_takes_is_unplaced_and_free() -> None:
    optimum = cover(covering(allowed=np.zeros((2, 1), dtype=np.bool_)))
    assert (optimum.price, optimum.unplaced.tolist(), optimum.nodes.tolist()) == (0.0, [8.0], [])


def test_every_bin_is_filled_as_if_it_alone_had_the_supply() -> None:
    """Two units for three bins: of 5 cpus, of 1, and one that does not let them in."""
    supply = Supply(ItemArrays.of(np.array([[1.0]]), dense=1), counts=np.array([2.0]), worth=np.array([1.0]))
    bins = OpenBins(np.array([[5.0], [1.0], [5.0]]), np.ones((3, 1)), np.array([[True], [True], [False]]))
    assert fill(bins, supply, FillStrategy(), WorkBudget(1.0)).tolist() == [[2.0], [1.0], [0.0]]


def test_a_host_rule_bounds_units_like_a_resource() -> None:
    """Column 1 is a rule that lets two units of the first item type onto a host, and does not count the second."""
    items = ItemArrays.of(np.array([[1.0, 1.0], [1.0, 0.0]]), dense=1)
    bins = OpenBins(np.array([[6.0, 2.0]]), np.array([[1.0, 0.0]]), np.ones((1, 2), dtype=np.bool_))
    taken = fill(bins, Supply(items, np.array([9.0, 9.0]), np.array([5.0, 1.0])), FillStrategy(), WorkBudget(1.0))
    assert taken.tolist() == [[2.0, 4.0]]
