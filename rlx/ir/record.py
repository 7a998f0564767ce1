"""Small classes of named fields: dataclasses that cost nothing until used.

A dataclass compiles up to six methods where it is defined; for the classes of rlx that took a third
of `import rlx`. A record has closures in their place, and compiles `__init__` at its first call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

T = TypeVar("T")
MISSING: Any = object()


class Field:
    """How a field is given and shown; `field` makes it."""

    def __init__(self, default: Any, factory: Any, init: bool, repr: bool, kw_only: bool) -> None:
        self.default, self.factory = default, factory
        self.init, self.repr, self.kw_only = init, repr, kw_only
        self.annotation = ""


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] = MISSING,
    init: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """Describe a field: the parameters are those of `dataclasses.field`."""
    return Field(default, default_factory, init, repr, kw_only)


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(
    *,
    frozen: bool = True,
    eq: bool = True,
    unsafe_hash: bool = False,
    repr: bool = True,
    slots: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, **options: bool) -> Any:
    """Make a class a record of its annotated fields; frozen if nothing else is said.

    `dataclasses.fields`, `replace` and `inspect.signature` understand it.

    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 2
    >>> Point(1), Point(1) == Point(y=2, x=1), replace(Point(1), y=3)
    (Point(x=1, y=2), True, Point(x=1, y=3))
    """
    return functools.partial(_record, **options) if cls is None else _record(cls)


def _record(
    cls: Any,
    frozen: bool = True,
    eq: bool = True,
    unsafe_hash: bool = False,
    repr: bool = True,
    slots: bool = False,
) -> Any:
    listed, own = _fields(cls), vars(cls)
    if slots:
        cls = _with_slots(cls)
    cls.__record__ = listed
    cls.__match_args__ = tuple(n for n, f in listed.items() if f.init and not f.kw_only)
    if "__init__" not in own:
        _late(cls, "__init__", lambda: _init(cls, listed, frozen))
        cls.__signature__ = _Twin("__signature__")
    cls.__dataclass_fields__ = _Twin("__dataclass_fields__")
    cls.__dataclass_params__ = _Twin("__dataclass_params__")
    if repr and "__repr__" not in own:
        cls.__repr__ = _repr(tuple(n for n, f in listed.items() if f.repr))
    if eq and "__eq__" not in own:
        _late(cls, "__eq__", lambda: _eq(listed))
    if ((eq and frozen) or unsafe_hash) and own.get("__hash__") is None:
        _late(cls, "__hash__", lambda: _hash(listed))
    elif eq and "__hash__" not in own:
        cls.__hash__ = None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _guards(cls, frozenset(listed))
    return cls


def _fields(cls: type) -> dict[str, Field]:
    """The fields of a class: those of its bases first; their defaults are class attributes."""
    listed: dict[str, Field] = {}
    for base in cls.__mro__[:0:-1]:
        listed |= vars(base).get("__record__", {})
    for name, annotation in _annotated(cls).items():
        given = vars(cls).get(name, MISSING)
        spec = given if isinstance(given, Field) else Field(given, MISSING, True, True, False)
        spec.annotation = annotation
        listed[name] = spec
        if spec is given and spec.default is MISSING:
            delattr(cls, name)
        elif spec is given:
            setattr(cls, name, spec.default)
    return listed


def _annotated(cls: type) -> dict[str, Any]:
    listed = vars(cls).get("__annotations__", {})
    return {n: said for n, said in listed.items() if not str(said).startswith("ClassVar")}


def _with_slots(cls: Any) -> Any:
    """The class again, with slots for its own fields."""
    names = tuple(_annotated(cls))
    body = {n: v for n, v in vars(cls).items() if n not in (*names, "__dict__", "__weakref__")}
    body |= {"__slots__": names, "__getstate__": _state, "__setstate__": _set_state}
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__record__]


def _set_state(self: Any, values: list[Any]) -> None:
    for name, value in zip(self.__record__, values, strict=True):
        object.__setattr__(self, name, value)


def _late(cls: Any, name: str, write: Callable[[], tuple[str, dict[str, Any]]]) -> None:
    """Attach a method that, when it is first called, puts the compiled one in its place."""

    def method(self: Any, *args: Any, **named: Any) -> Any:
        text, scope = write()
        scope["__name__"] = __name__  # so the frame is known as one of rlx
        exec(text, scope)
        scope[name].__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, scope[name])
        return scope[name](self, *args, **named)

    setattr(cls, name, method)


def _init(cls: Any, listed: dict[str, Field], frozen: bool) -> tuple[str, dict[str, Any]]:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    given, named, lines = [], [], []
    for name, spec in listed.items():
        parameter, value = name, name
        if spec.factory is not MISSING:
            scope[f"_make_{name}"] = spec.factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif spec.default is not MISSING:
            scope[f"_default_{name}"] = spec.default
            parameter = f"{name}=_default_{name}"
        if spec.init:
            (named if spec.kw_only else given).append(parameter)
        elif spec.factory is MISSING:
            continue
        else:
            value = f"_make_{name}()"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *given, *(["*", *named] if named else [])])
    return f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), scope


def _eq(names: Iterable[str]) -> tuple[str, dict[str, Any]]:
    same = f"{_tuple_of('self', names)} == {_tuple_of('other', names)}"
    test = "other.__class__ is self.__class__"
    return f"def __eq__(self, other): return {same} if {test} else NotImplemented", {}


def _hash(names: Iterable[str]) -> tuple[str, dict[str, Any]]:
    return f"def __hash__(self): return hash({_tuple_of('self', names)})", {}


def _tuple_of(thing: str, names: Iterable[str]) -> str:
    return "(" + "".join(f"{thing}.{name}, " for name in names) + ")"


class _Twin:
    """An attribute that is read from a dataclass with the same fields, made for it."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def __get__(self, instance: object, owner: Any) -> Any:
        if self.attribute != "__signature__":
            found = getattr(_dataclass_like(owner), self.attribute)
            setattr(owner, self.attribute, found)
            return found
        if instance is not None or "__signature__" not in vars(owner):
            raise AttributeError("__signature__")  # of a call, or of a subclass with its own
        return inspect.signature(_dataclass_like(owner))


def _dataclass_like(cls: Any) -> type:
    import dataclasses

    specs: list[Any] = []
    for name, spec in cls.__record__.items():
        options: dict[str, Any] = {"init": spec.init, "repr": spec.repr, "kw_only": spec.kw_only}
        if spec.factory is not MISSING:
            options["default_factory"] = spec.factory
        elif spec.default is not MISSING:
            options["default"] = spec.default
        specs.append((name, spec.annotation, dataclasses.field(**options)))
    is_frozen = cls.__setattr__ is not object.__setattr__
    return dataclasses.make_dataclass(cls.__name__, specs, frozen=is_frozen)


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({parts})"

    return __repr__


def _guards(cls: Any, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """The `__setattr__` and `__delattr__` of a frozen class; a subclass may have more fields."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            _refuse("assign to", name)
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            _refuse("delete", name)
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _refuse(action: str, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {action} field {name!r}")


def fields(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a record or a dataclass that equality compares."""
    if hasattr(kind, "__record__"):
        return tuple(kind.__record__)
    if not hasattr(kind, "__dataclass_fields__"):
        return ()
    import dataclasses

    return tuple(f.name for f in dataclasses.fields(kind) if f.compare)


def replace(thing: T, **changes: Any) -> T:
    """A record with other values for some of its fields."""
    kind: Any = type(thing)
    kept = (n for n, f in kind.__record__.items() if f.init and n not in changes)
    return kind(**{name: getattr(thing, name) for name in kept}, **changes)
