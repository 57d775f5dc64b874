"""Quantities are exact, and rounded up once."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.quantity import (
    CAP_NANOS,
    NANO,
    format_quantity,
    milli_ceil,
    nanos,
    resources,
    units_ceil,
)

AMOUNTS = st.integers(0, 2**50)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("-1.5", "-1.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("500m", "0.5"),
        ("250u", "0.00025"),
        ("7n", "0.000000007"),
        ("2k", "2000"),
        ("3M", "3000000"),
        ("4G", "4e9"),
        ("5T", "5e12"),
        ("6P", "6e15"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("1e+2", "100"),
        ("1Ki", "1024"),
        ("1Mi", str(2**20)),
        ("1.5Gi", str(3 * 2**29)),
        ("1Ti", str(2**40)),
        ("1Pi", str(2**50)),
        ("1Ei", str(2**60)),
        ("2.95Gi", "3167538380.8"),
        ("3167538380800m", "3167538380.8"),
        ("1288490188800m", "1288490188.8"),
        (1000, "1000"),
        (0.5, "0.5"),
        (1e-7, "0.0000001"),
    ],
)
def test_reads_every_suffix_exactly(text: str | float, units: str) -> None:
    assert nanos(text) == Decimal(units) * NANO


@pytest.mark.parametrize(("text", "amount"), [("0.1n", 1), ("1.0000000001", NANO + 1), ("-0.1n", -1), ("1e-999", 1)])
def test_finer_than_nano_rounds_away_from_zero_as_in_kubernetes(text: str, amount: int) -> None:
    assert nanos(text) == amount


@pytest.mark.parametrize("text", ["9Ei", "1e22", "1e999999999", "9223372036854775808"])
def test_magnitudes_are_capped_at_int64_units_as_in_kubernetes(text: str) -> None:
    assert nanos(text) == CAP_NANOS
    assert nanos("-" + text) == -CAP_NANOS


@pytest.mark.parametrize(
    "value",
    [
        *("", " 1", "1 ", "1\n", "1 Gi", "Gi", "1e", "1e1.5", "1.5.1", "1K", "1g", "1mi", "0x10", "1_000", "٣", "--1"),
        *("1Gib", "1" * 2000, float("inf"), float("nan"), True),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_a_remedy(value: str | float) -> None:
    with pytest.raises(ValueError, match="not a quantity: write a number"):
        nanos(value)


def test_a_boolean_is_no_quantity_even_after_the_equal_number_was_read() -> None:
    assert nanos(1) == NANO
    with pytest.raises(ValueError, match="True"):
        nanos(True)


@settings(deadline=None)
@given(AMOUNTS, st.sampled_from(["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "hugepages-2Mi"]))
def test_formatting_and_reading_is_a_round_trip(amount: int, resource: str) -> None:
    assert resources({resource: format_quantity(resource, amount)}) == {resource: amount}


@settings(deadline=None)
@given(st.lists(st.decimals(0, 10**9, places=9), max_size=10))
def test_sums_are_exact(amounts: list[Decimal]) -> None:
    assert sum(nanos(f"{amount:f}") for amount in amounts) == sum(amounts) * NANO


@settings(deadline=None)
@given(st.decimals(-(10**9), 10**9, places=6), st.decimals(-(10**9), 10**9, places=6))
def test_order_is_that_of_the_numbers(one: Decimal, two: Decimal) -> None:
    assert (nanos(f"{one:f}") < nanos(f"{two:f}")) == (one < two)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.+-eEnumkMGTPi ", max_size=12))
def test_any_text_is_read_or_refused_with_value_error(text: str) -> None:
    try:
        amount = nanos(text)
    except ValueError:
        return
    assert abs(amount) <= CAP_NANOS


@settings(deadline=None)
@given(st.integers(0, 10**20))
def test_rounding_is_up_and_by_less_than_one(amount: int) -> None:
    assert 0 <= milli_ceil(amount) * 10**6 - amount < 10**6
    assert 0 <= units_ceil(amount) * NANO - amount < NANO


def test_cpu_is_in_millicores_and_the_rest_in_units_each_rounded_up_once() -> None:
    read = resources({"cpu": "1.0001", "memory": "3167538380800m", "pods": 110, "nvidia.com/gpu": "1"})
    assert read == {"cpu": 1001, "memory": 3167538381, "pods": 110, "nvidia.com/gpu": 1}


def test_resources_name_every_malformed_quantity_at_once() -> None:
    with pytest.raises(ValueError, match=r"(?s)cpu: 'x'.*memory: '1 Gi'"):
        resources({"cpu": "x", "pods": 1, "memory": "1 Gi"})


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", 0, "0"),
        ("memory", 16 * 2**30, "16Gi"),
        ("memory", 7577 * 2**20, "7577Mi"),
        ("memory", 10**6, "1M"),
        ("memory", 1_000_001, "1000001"),
        ("memory", 1000 * 1024, "1000Ki"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_canonical_form(resource: str, amount: int, text: str) -> None:
    assert format_quantity(resource, amount) == text
