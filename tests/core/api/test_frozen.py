"""A FrozenMap cannot change, and equal maps are interchangeable."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap, cached_by_bytes
from controller.core.api.parse import parse_pod
from tests.factories import pod_object


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


class TestCachedByBytes:
    """A cache is bounded by what its arguments weigh, and not only by how many there are."""

    def counting(self, most_bytes: int = 10_000) -> tuple[Callable[[str], list[str]], list[str]]:
        computed: list[str] = []

        @cached_by_bytes(len, most_bytes)
        def compute(text: str) -> list[str]:
            computed.append(text)
            return [text]

        return compute, computed

    def test_equal_arguments_share_one_result(self) -> None:
        compute, computed = self.counting()
        assert compute("a") is compute("a")
        assert computed == ["a"]

    def test_a_large_argument_is_computed_and_not_kept(self) -> None:
        compute, computed = self.counting()
        assert compute("a" * 11) == compute("a" * 11) == ["a" * 11]
        assert len(computed) == 2

    def test_the_cache_is_cleared_when_its_bytes_are_used_up(self) -> None:
        compute, computed = self.counting(most_bytes=10_000)
        first = compute("first")
        for number in range(999):
            compute(f"{number:010}")
        assert compute("first") is first, "9,995 bytes are kept"
        compute("one more  ")
        assert compute("first") is not first
        assert computed.count("first") == 2


def test_pods_with_large_unique_annotations_leave_nothing_behind() -> None:
    tracemalloc.start()
    try:
        parse_pod(pod_object(annotations={"a": "b"}))
        before, _ = tracemalloc.get_traced_memory()
        for number in range(300):
            parse_pod(pod_object(annotations={"note": f"{number}" + "x" * 250 * 1024}))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 10 * 2**20, "75 MiB came and went"
