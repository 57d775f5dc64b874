"""Frozen dataclasses with many fields, made quickly.

A frozen dataclass sets each field by `object.__setattr__`: of a Pod's 18 fields that is most of what it costs to read
one from JSON. Here the fields are set while the object is of a twin class, the same but not frozen; then it is made
what it is to be. The class behaves as before: signature, equality, `replace`, and nobody can change its objects.
"""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")


def made_quickly(cls: type[T]) -> type[T]:
    """For a frozen dataclass with slots, of eight fields or more: fewer are no faster. Decorates the decorated class.

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
