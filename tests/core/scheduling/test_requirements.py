"""The requirement algebra: operators, intersection, membership, sets of requirements."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.provisioning.offerings.label_masks import settle
from controller.core.scheduling.requirements import Requirement, Requirements, integer

KEY = "key"
EXISTS = Requirement.of(KEY, "Exists")
ABSENT = Requirement.of(KEY, "DoesNotExist")
IN_A = Requirement.of(KEY, "In", ("A",))
IN_B = Requirement.of(KEY, "In", ("B",))
IN_AB = Requirement.of(KEY, "In", ("A", "B"))
NOT_A = Requirement.of(KEY, "NotIn", ("A",))
IN_1 = Requirement.of(KEY, "In", ("1",))
IN_9 = Requirement.of(KEY, "In", ("9",))
IN_1_9 = Requirement.of(KEY, "In", ("1", "9"))
NOT_12 = Requirement.of(KEY, "NotIn", ("1", "2"))
GT_1 = Requirement.of(KEY, "Gt", ("1",))
GT_9 = Requirement.of(KEY, "Gt", ("9",))
LT_1 = Requirement.of(KEY, "Lt", ("1",))
LT_9 = Requirement.of(KEY, "Lt", ("9",))
ALL = (EXISTS, ABSENT, IN_A, IN_B, IN_AB, NOT_A, IN_1, IN_9, IN_1_9, NOT_12, GT_1, GT_9, LT_1, LT_9)
VALUES = (None, "A", "B", "C", "0", "1", "2", "5", "9", "10", "-3", "+5", "", "1_0", " 5")

requirements = st.builds(
    lambda operator, values: Requirement.of(KEY, operator, values[:1] if operator in ("Gt", "Lt") else values),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.integers(-3, 12).map(str), min_size=1, max_size=4),
)


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("failure-domain.beta.kubernetes.io/zone", keys.ZONE),
        ("failure-domain.beta.kubernetes.io/region", keys.REGION),
        ("beta.kubernetes.io/arch", keys.ARCH),
        ("beta.kubernetes.io/os", keys.OS),
        ("beta.kubernetes.io/instance-type", keys.INSTANCE_TYPE),
        ("topology.ebs.csi.aws.com/zone", keys.ZONE),
    ],
)
def test_older_names_are_the_same_label(alias: str, key: str) -> None:
    assert Requirement.of(alias, "Exists").key == key
    both = Requirements([Requirement.of(alias, "In", ("a", "b")), Requirement.of(key, "In", ("b", "c"))])
    assert list(both) == [key]
    assert both[key].values == {"b"}


@pytest.mark.parametrize(("one", "two"), list(itertools.product(ALL, ALL)))
def test_an_intersection_accepts_what_both_accept(one: Requirement, two: Requirement) -> None:
    both = one.intersection(two)
    for value in VALUES:
        assert both.accepts(value) == (one.accepts(value) and two.accepts(value)), value


@pytest.mark.parametrize(("one", "two"), list(itertools.product(ALL, ALL)))
def test_an_intersection_is_satisfiable_when_some_value_or_absence_is_in_both(
    one: Requirement, two: Requirement
) -> None:
    tried = (*VALUES, *map(str, range(-20, 20)), "other")
    assert one.intersection(two).satisfiable == any(one.accepts(v) and two.accepts(v) for v in tried)


@given(requirements, requirements)
def test_intersection_is_commutative(one: Requirement, two: Requirement) -> None:
    assert one.intersection(two) == two.intersection(one)


@given(requirements, requirements, requirements)
def test_intersection_is_associative(one: Requirement, two: Requirement, three: Requirement) -> None:
    left, right = one.intersection(two).intersection(three), one.intersection(two.intersection(three))
    assert left.satisfiable == right.satisfiable
    assert all(left.accepts(value) == right.accepts(value) for value in (None, *map(str, range(-5, 15)), "x"))


@given(requirements)
def test_intersection_is_idempotent(one: Requirement) -> None:
    assert one.intersection(one) == one


@given(requirements, requirements, st.none() | st.integers(-5, 15).map(str) | st.just("x"))
def test_membership_of_an_intersection_is_membership_of_both(
    one: Requirement, two: Requirement, value: str | None
) -> None:
    assert one.intersection(two).accepts(value) == (one.accepts(value) and two.accepts(value))


def test_contradictory_values_are_nothing_not_absence() -> None:
    """Karpenter v0.27 turns In [A] and In [B] into DoesNotExist, which an undefined label satisfies."""
    nothing = IN_A.intersection(IN_B)
    assert not nothing.satisfiable
    assert not nothing.accepts(None)


def test_bounds_and_exclusions_survive_together() -> None:
    both = GT_1.intersection(LT_9).intersection(Requirement.of(KEY, "NotIn", ("5",)))
    assert [v for v in map(str, range(12)) if both.accepts(v)] == ["2", "3", "4", "6", "7", "8"]
    assert not GT_1.intersection(Requirement.of(KEY, "Lt", ("2",))).satisfiable


@pytest.mark.parametrize(
    ("requirement", "operator"),
    [
        (EXISTS, "Exists"), (ABSENT, "DoesNotExist"), (IN_A, "In"), (NOT_A, "NotIn"), (GT_1, "Exists"),
        (IN_A.intersection(EXISTS), "In"), (NOT_A.intersection(ABSENT), "DoesNotExist"),
    ],
)  # fmt: skip
def test_the_operator_is_read_back(requirement: Requirement, operator: str) -> None:
    assert requirement.operator == operator


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (EXISTS, "key Exists"),
        (ABSENT, "key DoesNotExist"),
        (IN_AB, "key In [A, B]"),
        (GT_1.intersection(LT_9), "key >1 <9"),
        (Requirement.of(KEY, "In", map(str, range(8))), "key In [0, 1, 2, 3, 4 and 3 others]"),
    ],
)
def test_requirements_show_five_values_at_most(requirement: Requirement, text: str) -> None:
    assert str(requirement) == text


@pytest.mark.parametrize(
    ("operator", "values"),
    [("Gt", ("x",)), ("Lt", ()), ("Gt", ("1", "2")), ("Gt", ("1_0",)), ("Like", ("a",)), ("Lt", (" 5",))],
)
def test_unknown_operators_and_bounds_that_are_no_integer_are_refused(operator: str, values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=KEY):
        Requirement.of(KEY, operator, values)


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("+5", 5), ("-5", -5), ("", None), ("+-5", None), ("1_0", None), ("٣", None)]
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert integer(text) == number


@given(st.lists(requirements, max_size=4), st.dictionaries(st.just(KEY), st.integers(-5, 15).map(str)))
def test_a_set_accepts_labels_that_each_member_accepts(parts: list[Requirement], labels: dict[str, str]) -> None:
    assert Requirements(parts).accept(labels) == all(part.accepts(labels.get(KEY)) for part in parts)


@given(st.lists(requirements, max_size=4))
def test_equal_sets_hash_alike_whatever_their_order(parts: list[Requirement]) -> None:
    one, two = Requirements(parts), Requirements(reversed(parts))
    if one == two:
        assert hash(one) == hash(two)


@pytest.mark.parametrize("one", [*ALL, Requirement.of(KEY, "In")])
def test_a_key_is_settled_where_it_has_one_value_or_none(one: Requirement) -> None:
    assert (KEY not in Requirements([one]).unsettled) == (not isinstance(settle(one), Requirement))


@pytest.mark.parametrize(("one", "two"), list(itertools.product(ALL, ALL)))
def test_conflicts_names_the_keys_that_cannot_hold_together(one: Requirement, two: Requirement) -> None:
    conflicts = Requirements([one]).conflicts(Requirements([two]))
    assert conflicts == (() if one.intersection(two).satisfiable else (KEY,))


def test_a_key_of_one_set_alone_is_no_conflict() -> None:
    assert Requirements([IN_A]).conflicts(Requirements([Requirement.of("other", "In", ("x",))])) == ()
