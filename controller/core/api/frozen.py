"""Immutable values: a hashable dict, and a fast constructor for frozen dataclasses with many fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from functools import lru_cache, wraps
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class FrozenMap(dict[K, V]):
    """A dict that cannot change, so that values that contain maps can be compared, cached and shared.

    Equal maps have equal hashes, whatever their order.
    """

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("FrozenMap cannot be changed")

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMap, (dict(self),))


EMPTY: FrozenMap[Any, Any] = FrozenMap()


def made_quickly(cls: type[T]) -> type[T]:
    """Decorate a frozen dataclass with slots and eight fields or more, so that it is constructed faster.

    Used for Pod alone, of which a cluster has tens of thousands. A frozen dataclass sets each field by
    `object.__setattr__`; here the fields are set while the object has a twin class that is not frozen, and then it gets
    its own class back. Signature, equality, `replace` and immutability are the same. This saves 3 to 4 of 6
    microseconds per Pod, a quarter of `parse_pod` (`python -m bench values`); fewer fields gain nothing measurable.

    Raises TypeError for a class whose layout is not that of its fields alone (a base class with slots, no slots).
    """
    members = [
        (each.name, each.type, field(default=each.default, default_factory=each.default_factory))
        for each in fields(cls)  # type: ignore[arg-type]
    ]
    twin = make_dataclass(cls.__name__, members, slots=True)
    slowly, fill, become = vars(cls)["__init__"], vars(twin)["__init__"], object.__setattr__
    become(cls.__new__(cls), "__class__", twin)

    @wraps(slowly)
    def make(self: Any, *args: Any, **named: Any) -> None:
        become(self, "__class__", twin)
        fill(self, *args, **named)
        self.__class__ = cls

    type.__setattr__(cls, "__init__", make)
    return cls


class _TooLargeError(Exception):
    """A value that is not kept."""


def cached_by_bytes(
    size: Callable[[Any], int], most_bytes: int = 2**25, most_entries: int = 65_536
) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache the results of a pure function of one argument, within bytes and not only a number of entries.

    `size`: bytes of an argument, asked when its result is not in the cache. When those since the last clearing come to
    `most_bytes`, the cache is cleared; an argument of over a thousandth of that is never kept. So a cluster in which
    objects with large, unique annotations come and go leaves no more than `most_bytes` behind.
    """

    def decorate(function: Callable[[K], V]) -> Callable[[K], V]:
        admitted = 0

        @lru_cache(maxsize=most_entries, typed=True)
        def kept(argument: K) -> V:
            nonlocal admitted
            more = size(argument)
            if more > most_bytes // 1000:
                raise _TooLargeError
            admitted += more
            if admitted > most_bytes:
                admitted = more
                kept.cache_clear()
            return function(argument)

        @wraps(function)
        def answer(argument: K) -> V:
            try:
                return kept(argument)
            except _TooLargeError:
                return function(argument)

        return answer

    return decorate
