"""A FrozenMap cannot change, and equal maps are interchangeable."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.__setitem__("a", 2),
        lambda m: m.__delitem__("a"),
        lambda m: m.update(a=2),
        lambda m: m.pop("a"),
        lambda m: m.popitem(),
        lambda m: m.setdefault("b", 1),
        lambda m: m.clear(),
        lambda m: m.__ior__({"b": 1}),
    ],
)
def test_every_change_is_refused(change: Callable[[Any], object]) -> None:
    held = FrozenMap({"a": 1})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(held)
    assert held == {"a": 1}


def test_equal_maps_hash_alike_whatever_their_order() -> None:
    assert hash(FrozenMap({"a": 1, "b": 2})) == hash(FrozenMap({"b": 2, "a": 1}))


def test_copies_are_equal() -> None:
    held = FrozenMap({"a": 1})
    assert copy.deepcopy(held) == pickle.loads(pickle.dumps(held)) == held
