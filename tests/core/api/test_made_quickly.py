"""A frozen dataclass that is made quickly behaves as one that is made slowly."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.frozen import made_quickly
from controller.core.api.pod import Pod
from tests.factories import pod


@dataclass(frozen=True, slots=True)
class Slow:
    """Every sort of field."""

    name: str
    count: int = 3
    made: list[int] = field(default_factory=list)
    version: str = field(default="", compare=False)


@made_quickly
@dataclass(frozen=True, slots=True)
class Quick:
    """The same."""

    name: str
    count: int = 3
    made: list[int] = field(default_factory=list)
    version: str = field(default="", compare=False)


NAMED = st.fixed_dictionaries(
    {"name": st.text()}, optional={"count": st.integers(), "made": st.lists(st.integers()), "version": st.text()}
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(NAMED, NAMED)
def test_values_are_equal_where_those_made_slowly_are(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert asdict(Quick(**one)) == asdict(Slow(**one))
    assert (Quick(**one) == Quick(**two)) == (Slow(**one) == Slow(**two))
    assert repr(Quick(**one)) == repr(Slow(**one)).replace("Slow(", "Quick(", 1)


def test_it_keeps_its_class_its_signature_and_stays_as_it_was_made() -> None:
    made = Quick("a")
    assert type(made) is Quick
    assert inspect.signature(Quick) == inspect.signature(Slow)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Quick()  # type: ignore[call-arg]
    assert Quick("a").made is not made.made


def test_a_pod_can_be_copied_changed_and_hashed() -> None:
    """What the controller and its tests do with pods, which are made quickly."""
    first = pod(name="a")
    assert replace(first, name="b").key == ("default", "b")
    assert copy.deepcopy(first) == pickle.loads(pickle.dumps(first)) == first
    assert hash(copy.copy(first)) == hash(first)
    assert isinstance(first, Pod)


def test_a_class_that_has_more_than_its_fields_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="layout differs"):

        @made_quickly
        @dataclass(frozen=True)
        class Loose:
            """It has no slots."""

            name: str
