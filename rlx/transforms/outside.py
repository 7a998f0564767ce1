"""Guards of cached recordings: what they captured is checked at every call.

Made from the walk of `identity` through a function, an `Outside` tells whether all that the
function reads from outside is unchanged, by the identity of objects and of arrays' memory.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import types
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from ..trace.array import Array
from .jit.byte_code import loads
from .jit.identity import HOUSE, PLAIN, Walk

MOST_BYTES = 1 << 16  # of a NumPy array, whose elements are compared at every call
_MISSING = object()
_is = operator.is_
_STORES = frozenset("STORE_SUBSCR DELETE_SUBSCR STORE_SLICE".split())
_OWN_STORES = frozenset("STORE_ATTR DELETE_ATTR".split())
_CHANGES = frozenset(
    "__delitem__ __iadd__ __iand__ __imul__ __ior__ __isub__ __ixor__ __setitem__ add append "
    "appendleft clear delitem difference_update discard extend extendleft heapify heappop heappush "
    "heappushpop heapreplace iadd iand iconcat imul insert intersection_update ior isub ixor pop "
    "popitem popleft remove reverse rotate setdefault setitem sort symmetric_difference_update "
    "update".split()
)
_OWN_CHANGES = frozenset("__delattr__ __next__ __setattr__ delattr next send setattr".split())
_ASKS = frozenset("__class__ device devices is_ is_not isinstance issubclass type".split())
_WRITTEN_IN_C = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)


@final
class Outside:
    """Guards of what a function reads; a LookupError if there can be none."""

    def __init__(self, walk: Walk) -> None:
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._functions: list[tuple[Any, Any, Any, Any]] = []
        self._arrays: list[tuple[Array, Any]] = []
        self._rows: list[tuple[Any, list[Any]]] = []
        self._tables: list[tuple[Mapping[Any, Any], list[Any], list[Any]]] = []
        self._contents: list[tuple[np.ndarray, np.dtype, tuple[int, ...], bytes]] = []
        self._slots: list[tuple[Any, Any, Any]] = []
        self._parts: list[tuple[Any, Any]] = []
        if any(id(asks) in walk.met for asks in (np.geterr, np.getbufsize)):
            raise LookupError("it reads settings of NumPy")
        for _, thing in walk.met.values():
            self._take(thing)
        met = [x for _, x in walk.met.values() if isinstance(x, types.ModuleType)]
        for module in (np, *met):
            scope = vars(module)
            # those of users may get attributes that they have not
            is_users = any(module is each for each in walk.modules)
            is_users = is_users and module.__name__.split(".")[0] != HOUSE
            for name in walk.names:
                if name in scope or is_users:
                    self._names.append((scope, name, scope.get(name, _MISSING)))

    def _take(self, thing: Any) -> None:
        if isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, Array):
            self._arrays.append((thing, thing._data))
        elif isinstance(thing, np.ndarray):
            if thing.nbytes > MOST_BYTES:
                raise LookupError(f"it reads a NumPy array of more than {MOST_BYTES} bytes")
            self._contents.append((thing, thing.dtype, thing.shape, thing.tobytes()))
        elif isinstance(thing, list | set):
            self._rows.append((thing, list(thing)))
        elif isinstance(thing, dict):
            self._tables.append((thing, list(thing), list(thing.values())))
        elif isinstance(thing, type):
            self._tables.append((vars(thing), list(vars(thing)), list(vars(thing).values())))
        elif hasattr(type(thing), "identity_parts"):
            self._parts.append((thing, thing.identity_parts))
        elif _is_instance(thing):
            self._instance(thing)

    def _function(self, fn: types.FunctionType) -> None:
        self._functions.append((fn, fn.__code__, fn.__defaults__, fn.__kwdefaults__))
        for cell in fn.__closure__ or ():
            try:
                self._cells.append((cell, cell.cell_contents))
            except ValueError:
                raise LookupError(f"{fn.__qualname__} reads a variable without a value") from None
        scope = fn.__globals__
        for name in dict.fromkeys(name for name, _ in loads(fn.__code__)):
            value = scope.get(name, _MISSING)
            self._names.append((scope, name, value))
            if value is _MISSING:
                known = vars(builtins)
                self._names.append((known, name, known.get(name, _MISSING)))

    def _instance(self, thing: Any) -> None:
        attributes = getattr(thing, "__dict__", {})
        self._tables.append((attributes, list(attributes), list(attributes.values())))
        for base in type(thing).__mro__:
            for slot in vars(base).values():
                if isinstance(slot, types.MemberDescriptorType):
                    self._slots.append((slot, thing, _of_slot(slot, thing)))

    def hold(self) -> bool:
        """Whether all guards hold.

        Most groups are empty or short, and loops over them take less than generators would.
        """
        for scope, name, value in self._names:
            if scope.get(name, _MISSING) is not value:
                return False
        for cell, content in self._cells:
            if _content(cell) is not content:
                return False
        for fn, code, some, named in self._functions:
            if not (fn.__code__ is code and fn.__defaults__ is some and fn.__kwdefaults__ is named):
                return False
        for array, data in self._arrays:
            if array._data is not data:
                return False
        for row, items in self._rows:
            if not _are(row, items):
                return False
        for table, keys, values in self._tables:
            if not (_are(table, keys) and _are(table.values(), values)):
                return False
        for slot, thing, was in self._slots:
            if _of_slot(slot, thing) is not was:
                return False
        for thing, parts in self._parts:
            if not same(thing.identity_parts, parts):
                return False
        for x, dtype, shape, numbers in self._contents:
            if not (x.dtype == dtype and x.shape == shape and x.tobytes() == numbers):
                return False
        return True


def may_change_outside(walk: Walk, has_containers: bool) -> bool:
    """Whether functions of a walk might change things that outlive their calls.

    `has_containers` says that they are given containers of the caller.
    """
    things = [thing for _, thing in walk.met.values()]
    own = [(x.__dict__, x.__kwdefaults__) for x in things if isinstance(x, types.FunctionType)]
    hidden = {id(x) for pair in own for x in pair}
    changeable = has_containers or any(
        (isinstance(x, list | dict | set) and id(x) not in hidden)
        or (_is_instance(x) and not hasattr(type(x), "identity_parts"))
        for x in things
    )
    called = _called(walk)  # `push = rows.append` is called by another name
    if called & _OWN_CHANGES or (changeable and called & _CHANGES):
        return True
    return any(_changes(x, changeable) for x in things if isinstance(x, types.CodeType))


def may_ask_what_it_is(walk: Walk) -> bool:
    """Whether functions of a walk might distinguish an array from a traced tensor."""
    codes = [x for _, x in walk.met.values() if isinstance(x, types.CodeType)]
    return bool((walk.names | _called(walk)) & _ASKS) or any(map(_compares_objects, codes))


def _called(walk: Walk) -> set[str]:
    """The names of functions written in C that code may call by other names."""
    return {x.__name__ for _, x in walk.met.values() if isinstance(x, _WRITTEN_IN_C)}


def _compares_objects(code: types.CodeType) -> bool:
    """Whether code has patterns, or `is` with something else than a constant."""
    before = ""
    for each in dis.get_instructions(code):
        is_one = each.opname == "IS_OP" and not before.startswith("LOAD_CONST")
        if is_one or each.opname.startswith("MATCH_"):
            return True
        before = each.opname
    return False


def _changes(code: types.CodeType, has_others: bool) -> bool:
    names = set(code.co_names)
    if "__init__" in names and code.co_name != "__init__":
        return True
    if names & _OWN_CHANGES or (has_others and names & _CHANGES):
        return True
    before = None
    for each in dis.get_instructions(code):
        name = each.opname
        if name in _OWN_STORES and not (before and _is_new(code, before)):
            return True
        if name == "STORE_DEREF" and each.argval in code.co_freevars:
            return True
        before = each
        is_changed = name in _STORES or (name == "BINARY_OP" and each.argrepr.endswith("="))
        if has_others and is_changed:
            return True
    return False


def _is_new(code: types.CodeType, load: dis.Instruction) -> bool:
    """Whether an instruction loads an object that is under construction."""
    loaded = load.argval[-1] if isinstance(load.argval, tuple) else load.argval
    is_local = load.opname.startswith("LOAD_FAST")
    return is_local and code.co_name == "__init__" and loaded == code.co_varnames[0]


def same(x: Any, y: Any, met: set[tuple[int, int]] | None = None) -> bool:
    """Whether functions have the same code and the same captured things."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if type(x) in PLAIN:
        return repr(x) == repr(y)
    met = set() if met is None else met
    if (id(x), id(y)) in met:
        return True  # if all else is
    met.add((id(x), id(y)))
    mine, others = _parts_of(x), _parts_of(y)
    return (
        mine is not None
        and others is not None
        and len(mine) == len(others)
        and all(same(a, b, met) for a, b in zip(mine, others, strict=True))
    )


def _parts_of(x: Any) -> tuple[Any, ...] | None:
    """The parts of a function, a tuple or a dict."""
    if isinstance(x, types.FunctionType):
        cells = tuple(map(_content, x.__closure__ or ()))
        named = (x.__kwdefaults__ or {}, x.__dict__)
        rows = [row for each in named for row in each.items()]
        return x.__code__, x.__globals__, x.__defaults__, len(cells), *cells, *rows
    if isinstance(x, types.MethodType):
        return x.__func__, x.__self__
    if isinstance(x, functools.partial):
        return x.func, x.args, *x.keywords.items()
    if type(x) is dict:
        return tuple(x.items())
    return x if type(x) is tuple else None


def _is_instance(thing: Any) -> bool:
    """Whether a thing is of a class that the user wrote."""
    root = type(thing).__module__.split(".")[0]
    known = Array | np.generic | np.dtype
    return root not in ("builtins", "numpy") and not isinstance(thing, known)


def _are(things: Any, was: list[Any]) -> bool:
    return len(things) == len(was) and all(map(_is, things, was))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _of_slot(slot: Any, thing: Any) -> Any:
    try:
        return slot.__get__(thing)
    except AttributeError:
        return _MISSING
