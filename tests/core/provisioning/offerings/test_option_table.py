"""The catalog is compiled once, and again only when its content changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controller.core.api import labels as keys
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning import SolveOptions, solve
from controller.core.provisioning.offerings.option_table import OptionTable, Pool, TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import Beside
from controller.core.provisioning.problem import pool_requirements
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.scheduling.requirements import Requirement, Requirements
from tests.core.provisioning.plans import solved
from tests.factories import ZONES, instance_type, pending_pods, problem, provisioner, requirement


def kinds(price: float = 0.1) -> tuple[InstanceType, ...]:
    """New objects each time, as from a provider that asks for prices again."""
    return (instance_type(price=price), instance_type(name="c5.large", offered=(Offering(ZONES[0], keys.SPOT, 0.05),)))


def table(cache: TableCache, pool: Provisioner, types: tuple[InstanceType, ...], left: int = 0) -> OptionTable:
    return cache.table([Pool(pool, pool_requirements(pool), {"cpu": left})], {pool.name: types})


def test_equal_content_is_compiled_once() -> None:
    """The objects are others each time, and what is left of the limits changes with every node."""
    cache = TableCache()
    first = table(cache, provisioner(), kinds(), left=9)
    assert table(cache, provisioner(weight=7), kinds(), left=3) is first


def test_another_price_or_availability_or_provisioner_is_another_table() -> None:
    cache = TableCache(size=9)
    gone = (replace(kinds()[0], offerings=tuple(replace(o, available=False) for o in kinds()[0].offerings)), kinds()[1])
    others = [
        table(cache, provisioner(), kinds()),
        table(cache, provisioner(), kinds(0.2)),
        table(cache, provisioner(), gone),
        table(cache, provisioner(labels={"team": "a"}), kinds()),
        table(cache, provisioner(requirements=[requirement(keys.ZONE, "In", ZONES[0])]), kinds()),
    ]
    assert len({id(each) for each in others}) == len(others)


def test_the_tables_of_the_last_few_catalogs_are_kept() -> None:
    """Provisioning and consolidation may look at two catalogs in turn; older ones are forgotten."""
    cache = TableCache(size=2)
    first = table(cache, provisioner(), kinds(0.1))
    table(cache, provisioner(), kinds(0.2))
    assert table(cache, provisioner(), kinds(0.1)) is first
    table(cache, provisioner(), kinds(0.3))
    assert table(cache, provisioner(), kinds(0.1)) is not first


def test_what_an_offering_costs_is_what_the_table_says_and_there_is_none_where_it_is_infinite() -> None:
    """Price, what the node and the offering cost beside it; not in a zone that the Provisioner rules out."""
    dear = Offering(ZONES[1], keys.SPOT, 0.05, beside=0.004)
    shut = Offering(ZONES[0], keys.ON_DEMAND, 0.2, available=False)
    types = (
        instance_type(name="a", offered=(dear, shut)),
        instance_type(name="b", offered=(Offering(ZONES[0], keys.SPOT, 0.1), dear)),
    )
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", ZONES[1])])
    compiled = OptionTable(
        [Pool(pool, pool_requirements(pool), {})], {pool.name: types}, Beside(node=0.01, charges=True)
    )
    there = np.argwhere(np.isfinite(compiled.cost)).tolist()
    assert [(compiled.types[option].name, compiled.offering_keys[key]) for option, key in there] == [
        ("a", (ZONES[1], keys.SPOT)), ("b", (ZONES[1], keys.SPOT))
    ]  # fmt: skip
    for option, key in there:
        offering = compiled.offering(option, key)
        assert (offering.instance_type, offering.zone) == (compiled.types[option].name, ZONES[1])
        assert offering.cost == compiled.cost[option, key] == pytest.approx(0.064)


def test_cached_answers_are_bounded() -> None:
    """Selectors on host names are new with every node: a table that lives long forgets the answers to old ones."""
    compiled = table(TableCache(), provisioner(), kinds())
    racks = [Requirements((Requirement.of("rack", "In", (f"r{number}",)),)) for number in range(10_000)]
    first = compiled.term_bits(racks[0])
    assert compiled.term_bits(racks[0]) is first
    for rack in racks[1:]:
        compiled.term_bits(rack)
    assert compiled.term_bits(racks[0]) is not first


def test_a_plan_is_the_same_from_a_table_that_others_have_used() -> None:
    """Daemons, requests and limits of other batches leave nothing behind."""
    posed = problem(pending=pending_pods(5, requests={"cpu": "1"}), catalog=kinds())
    first, tables = solved(posed), TableCache()
    other = problem(pending=pending_pods(3, requests={"cpu": "300m", "memory": "2Gi"}), catalog=kinds())
    solve(other, snapshot_index=SnapshotIndex(other.snapshot, tables))
    assert solve(posed, snapshot_index=SnapshotIndex(posed.snapshot, tables)) == first


def test_solves_that_share_a_cache_compile_a_catalog_once() -> None:
    def compiled(cache: TableCache, pods: int) -> OptionTable:
        posed = problem(pending=pending_pods(pods), catalog=kinds())
        return compile_problem(posed, SolveOptions(), SnapshotIndex(posed.snapshot, cache)).masks.catalog.table

    cache = TableCache()
    assert compiled(cache, pods=1) is compiled(cache, pods=2)
    assert compiled(cache, pods=1) is not compiled(TableCache(), pods=1), "the process itself keeps nothing"


def test_options_are_split_where_a_set_holds_some_of_their_offerings() -> None:
    """A daemon of spot nodes alone: each type becomes an option on spot and one on demand, all offerings kept."""
    compiled = table(TableCache(), provisioner(), (instance_type(),))
    spot = compiled.term_bits(Requirements((Requirement.of(keys.CAPACITY_TYPE, "In", (keys.SPOT,)),)))
    parts = compiled.split([spot])
    assert len(parts) == 2
    assert int(parts.available[0]) ^ int(parts.available[1]) == int(compiled.available[0])
    assert int(spot[0]) in parts.available.tolist()
    assert compiled.split([compiled.available]) is compiled
