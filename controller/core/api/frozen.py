"""An immutable, hashable dict, so that values that contain maps can be compared, cached and shared."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(dict[K, V]):
    """A dict that cannot change after it was made; equal maps hash alike whatever their order."""

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
