"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """A `functools.cached_property` without the lock that Python 3.11 takes for each.

    Lowering computes thousands, in one thread, which the lock made a twentieth slower. Threads that
    ask at the same time may each compute one; the last stays.

    >>> class Ring:
    ...     @lazy
    ...     def area(self) -> float:
    ...         return 3.14
    >>> ring = Ring()
    >>> ring.area, vars(ring)
    (3.14, {'area': 3.14})
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        found = vars(instance)[self._name] = self._compute(instance)
        return found
