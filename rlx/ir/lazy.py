"""Lazy attributes and lazily loaded modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Generic, NoReturn, TypeVar, overload

T = TypeVar("T")
HOUSE = __name__.split(".")[0]


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


class late:
    """A module that is loaded when something of it is first asked for.

    Another one, which prepares it, is loaded before. Attributes stay as they are found.

    >>> late("math").sqrt(4.0)
    2.0
    """

    def __init__(self, module: str, before: str | None = None) -> None:
        self._modules = (before or module, module)

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            loaded = importlib.import_module(module)
        found = vars(self)[name] = getattr(loaded, name)
        return found


def door(
    package: str,
    modules: Sequence[str],
    names: Mapping[str, str],
    otherwise: Callable[[str], NoReturn],
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that loads modules when asked.

    `modules` are attributes themselves, by the last word of their names; `names` has those that
    stand in a module of the package, with spaces between.
    `otherwise` raises for every other name. Threads that ask at the same time wait for
    the one that loads, as they do at an `import`.
    """
    homes = {
        name: f"{package}.{module}" for module, listed in names.items() for name in listed.split()
    }
    paths = {module.rpartition(".")[2]: f"{package}.{module}" for module in modules}
    opened = vars(sys.modules[package])

    def __getattr__(name: str) -> Any:
        if name in paths:
            found = importlib.import_module(paths[name])
        elif name in homes:
            found = getattr(importlib.import_module(homes[name]), name)
        else:
            return otherwise(name)
        opened[name] = found
        return found

    # what `from package import *` gives; without it only what is loaded
    here = [name for name, value in opened.items() if _is_public(package, name, value)]
    shown = sorted({*here, *paths, *homes})
    opened.setdefault("__all__", [name for name in shown if not name.startswith("_")])
    return __getattr__, lambda: shown


def listed(module: str, *modules: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module: what its users type, not what it imports.

    That is its `__all__`; otherwise what it defines and, in a package, what it hands on, with the
    `modules` that are public.
    """
    space = vars(sys.modules[module])

    def __dir__() -> list[str]:
        if "__all__" in space:
            return sorted(space["__all__"])
        here = (name for name, value in space.items() if _is_public(module, name, value))
        return sorted((*here, *modules))

    return __dir__


def _is_public(module: str, name: str, value: Any) -> bool:
    if name.startswith("_") or name == "TYPE_CHECKING":
        return False
    is_package = "__path__" in vars(sys.modules[module])
    if isinstance(value, ModuleType):  # a public one is listed by the door, or stands elsewhere
        home = value.__name__
        return is_package and home.startswith(f"{HOUSE}.") and home != f"{module}.{name}"
    return is_package or getattr(value, "__module__", HOUSE) == module


class Table(dict[str, Any]):
    """The ops by their names; a rare room is loaded when one of its ops is asked for.

    An op is there when its room is complete, whichever thread loads it. What looks at all ops, as
    a loop does, loads all rooms.
    """

    def __init__(self) -> None:
        self.defined: dict[str, Any] = {}
        self.rare: list[str] = []  # modules, which `ops/__init__.py` names
        self.instructions: dict[str, Any] = {}  # the op that is one scalar instruction, by its name

    def define(self, op: Any) -> None:
        """Take an op up when its room has been loaded."""
        assert op.name not in self.defined, f"op {op.name!r} is defined twice"
        self.defined[op.name] = op
        if op.module.split(".")[0] != HOUSE:  # the user's, which is complete as it is
            self[op.name] = op

    def __missing__(self, name: str) -> Any:
        for room in (*self.rare, None):
            if name in self.defined:
                break
            if room is None:
                raise KeyError(name)
            importlib.import_module(room)
        for room in self.rare:
            if room in sys.modules:  # perhaps half: another thread may be loading it
                importlib.import_module(room)
        found = self[name] = self.defined[name]
        return found

    def all(self) -> Table:
        """Load all rooms."""
        for room in self.rare:
            importlib.import_module(room)
        for name in [*self.defined]:
            self[name]
        return self

    def get(self, name: str, other: Any = None) -> Any:
        """An op, or something else where there is none of the name."""
        return self[name] if name in self else other

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.defined or name in self.all().defined

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self.all())

    def __len__(self) -> int:
        return dict.__len__(self.all())

    def keys(self) -> Any:
        """All names."""
        return dict.keys(self.all())

    def values(self) -> Any:
        """All ops."""
        return dict.values(self.all())

    def items(self) -> Any:
        """All names with their ops."""
        return dict.items(self.all())
