"""What the user pays: the first rule that matches counts, and a commitment holds as long as it is not used up."""

from __future__ import annotations

import pytest

from controller.core.price_rules import PriceBook, PriceRule, parse_price_rules

M5 = ("on-demand", "m5.large", "a")


def parsed(text: str) -> PriceBook:
    return PriceBook(parse_price_rules(text))


def test_a_discount_is_taken_off_the_list_price_of_what_it_names() -> None:
    book = parsed('[{"instanceTypes": ["m5.*", "c5.*"], "discountPercent": 25}]')
    assert book.price(*M5, 0.2) == pytest.approx(0.15)
    assert book.price("on-demand", "r5.large", "a", 0.2) == 0.2


def test_a_rule_is_about_on_demand_unless_it_names_spot() -> None:
    text = '[{"discountPercent": 10}, {"capacityTypes": ["spot"], "zones": ["a"], "discountPercent": 50}]'
    book = parsed(text)
    assert book.price("spot", "m5.large", "a", 0.1) == pytest.approx(0.05)
    assert book.price("spot", "m5.large", "b", 0.1) == 0.1
    assert book.price("on-demand", "m5.large", "b", 0.1) == pytest.approx(0.09)


def test_the_first_rule_that_matches_counts() -> None:
    book = parsed('[{"instanceTypes": ["m5.large"], "pricePerHour": 0.04}, {"discountPercent": 50}]')
    assert book.price(*M5, 0.2) == 0.04
    assert book.price("on-demand", "m5.xlarge", "a", 0.2) == pytest.approx(0.1)


def test_a_commitment_ends_where_running_instances_use_it_up_and_the_next_rule_takes_over() -> None:
    rules = parse_price_rules(
        '[{"instanceTypes": ["m5.*"], "pricePerHour": 0.04, "instances": 3}, {"discountPercent": 10}]'
    )
    assert PriceBook.now(rules, {M5: 2}).price(*M5, 0.2) == 0.04
    assert PriceBook.now(rules, {M5: 2, ("on-demand", "m5.xlarge", "b"): 1}).price(*M5, 0.2) == pytest.approx(0.18)
    assert PriceBook.now(rules, {("spot", "m5.large", "a"): 9}).price(*M5, 0.2) == 0.04


def test_a_commitment_says_for_how_many_more_it_holds_and_what_those_beyond_cost() -> None:
    rules = parse_price_rules(
        '[{"instanceTypes": ["m5.*"], "pricePerHour": 0.04, "instances": 3}, {"discountPercent": 10}]'
    )
    commitment = PriceBook.now(rules, {M5: 1}).commitment(*M5, 0.2)
    assert commitment is not None
    assert commitment.left == 2
    assert commitment.otherwise == pytest.approx(0.18)
    assert PriceBook.now(rules, {M5: 3}).commitment(*M5, 0.2) is None
    assert PriceBook(rules).commitment("on-demand", "c5.large", "a", 0.2) is None


def test_an_instance_uses_up_one_commitment_alone() -> None:
    rule = PriceRule(price_per_hour=0.04, instances=2)
    dearer = PriceRule(price_per_hour=0.05, instances=2)
    assert PriceBook.now((rule, dearer), {M5: 3}).price(*M5, 0.2) == 0.05
    assert PriceBook.now((rule, dearer), {M5: 4}).price(*M5, 0.2) == 0.2


def test_nothing_written_changes_nothing() -> None:
    assert parse_price_rules("") == parse_price_rules("[]") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("20%", "is not JSON"),
        ("{}", "is not a list"),
        ("[1]", r"\[0\] is not an object"),
        ('[{"discountPercent": 5, "instanceType": "m5.*"}]', r"\[0\].instanceType is an unknown field: did you mean"),
        ('[{"discountPercent": 5}, {}]', r"\[1\] must have discountPercent or pricePerHour"),
        ('[{"discountPercent": 5, "pricePerHour": 1}]', "and not both"),
        ('[{"discountPercent": 100}]', r"discountPercent 100 is not a number from 0 to below 100"),
        ('[{"discountPercent": true}]', "discountPercent True is not a number"),
        ('[{"pricePerHour": 0}]', "pricePerHour is 0"),
        ('[{"pricePerHour": 1, "instances": 0}]', "instances 0 is not a whole number"),
        ('[{"discountPercent": 5, "instanceTypes": "m5.*"}]', "instanceTypes is not a list of names"),
        ('[{"discountPercent": 5, "capacityTypes": ["reserved"]}]', "has 'reserved': use on-demand or spot"),
    ],
)
def test_a_rule_that_cannot_be_read_says_which_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_price_rules(text)
