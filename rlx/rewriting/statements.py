"""What rewritten statements call: Python's way, or an op where a value is traced."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from ..ir.errors import ArgumentError, ConcretizationError
from ..ir.record import record
from ..numpy import logical_and, logical_not, logical_or
from ..trace import pytree
from ..trace.array import Array
from ..trace.control import cond
from ..trace.tensor import TracedTensor
from ..transforms.loops import scan, while_loop

NUMBERS = (bool, int, float, complex, np.ndarray, np.generic, Array, TracedTensor)
CONTAINERS = (list, dict, set)
Values = tuple[Any, ...]


class _Unset:
    """A variable that is not set; if a traced part may set it, using it says so."""

    def __init__(self, name: str, in_traced: bool = False) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_in_traced", in_traced)

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        _refuse(object.__getattribute__(self, "_name"))

    def _use(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(object.__getattribute__(self, "_name"))


for _name in (
    "bool call iter len getitem setitem contains repr str format hash array float int complex "
    "index eq ne lt le gt ge neg pos abs invert add radd sub rsub mul rmul truediv rtruediv "
    "floordiv rfloordiv mod rmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift "
    "rshift rrshift"
).split():
    setattr(_Unset, f"__{_name}__", _Unset._use)


def _refuse(name: str) -> NoReturn:
    raise ArgumentError(
        f"{name!r} is set in a part that depends on a traced value, and nowhere before",
        fix=f"set {name} before it, to an array or number of the same type, as {name} = 0.0",
    )


def get(variables: dict[str, Any], name: str) -> Any:
    """A variable of the function, or what stands for one that is not set."""
    return variables[name] if name in variables else _Unset(name)


def is_missing(value: Any) -> bool:
    """Whether a variable is not set, as it would not be in Python."""
    return _is_unset(value) and not object.__getattribute__(value, "_in_traced")


def used(value: Any) -> Any:
    """What is returned, a variable or a tuple; none of them may be unset."""
    for each in value if type(value) is tuple else (value,):
        if _is_unset(each):
            _refuse(object.__getattribute__(each, "_name"))
    return value


def is_traced(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, TracedTensor)


def _is_unset(value: Any) -> bool:
    return type(value) is _Unset


def _is_numeric(value: Any) -> bool:
    leaves = pytree.leaves(value)
    return not _is_unset(value) and all(isinstance(leaf, NUMBERS) for leaf in leaves)


@record(frozen=False)
class _Carried:
    """The variables that a traced part may change; others must stay what they are."""

    names: Sequence[str]
    values: Values

    def __post_init__(self) -> None:
        self.places = [i for i, value in enumerate(self.values) if _is_numeric(value)]

    def numbers(self, values: Values) -> Values:
        """Those of the values that are numbers or trees of numbers."""
        return tuple(values[i] for i in self.places)

    def whole(self, numbers: Values) -> Values:
        """All values, with other numbers."""
        found = list(self.values)
        for i, value in zip(self.places, numbers, strict=True):
            found[i] = value
        return tuple(found)

    def after(self, places: Sequence[int], numbers: Values) -> Values:
        """All values after a traced part, with other numbers at some places."""
        changed = dict(zip(places, numbers, strict=True))
        return tuple(
            changed[i] if i in changed else _Unset(name, True) if _is_unset(value) else value
            for i, (name, value) in enumerate(zip(self.names, self.values, strict=True))
        )

    def check(self, after: Values, what: str, changing: Sequence[int]) -> None:
        """Raise if a variable that is not one of those at these places was changed."""
        for i, (name, before, now) in enumerate(zip(self.names, self.values, after, strict=True)):
            if i in changing or now is before or _is_unset(before):
                continue
            raise _fixed(name, before, what)


def _fixed(name: str, value: Any, what: str) -> ArgumentError:
    return ArgumentError(
        f"{name!r} is a {type(value).__name__}, which {what} that depends on a traced value "
        "cannot change",
        fix="change arrays and numbers there, or let the condition be a static argument",
    )


def _watched(run: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A traced part, which raises if it changes a list, dict or set from outside of it."""

    def checked(*values: Any) -> Any:
        before = {name: (x, _items(x)) for name, x in _outside(run) if isinstance(x, CONTAINERS)}
        after = run(*values)
        for name, (x, items) in before.items():
            now = _items(x)
            if len(now) != len(items) or any(map(operator.is_not, now, items)):
                raise _fixed(name, x, what)
        return after

    return checked


def _outside(run: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """The variables of the functions around one that it uses."""
    for name, cell in builtins.zip(run.__code__.co_freevars, run.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is not set
            yield name, cell.cell_contents


def _items(x: Any) -> list[Any]:
    return [*x, *x.values()] if isinstance(x, dict) else [*x]


def own(values: Values, changed: Sequence[bool]) -> Values:
    """The values, with copies of arrays that are assigned to by items."""

    def copied(x: Any) -> Any:
        return x.copy() if isinstance(x, Array | TracedTensor) else x

    pairs = builtins.zip(values, changed, strict=True)
    return tuple(pytree.map(copied, v) if c and _is_numeric(v) else v for v, c in pairs)


# -- choice ----------------------------------------------------------------------------------------


def choose(
    test: Any,
    true: Callable[..., Values],
    false: Callable[..., Values],
    values: Values,
    names: Sequence[str],
    both: Sequence[bool],
) -> Values:
    """An `if` statement: the variables after it.

    `both` says of each whether both branches set it. A variable that one branch alone sets, and
    that was not set before, is not set afterwards.
    """
    if not is_traced(test):
        return true(*values) if test else false(*values)
    carried = _Carried(names, values)
    kept = [i for i in builtins.range(len(names)) if i in carried.places or both[i]]

    def branch(run: Callable[..., Values]) -> Callable[..., Values]:
        def chosen(*numbers: Any) -> Values:
            after = _watched(run, "an `if`")(*carried.whole(numbers))
            fixed = [i for i in kept if i not in carried.places]
            carried.check(after, "an `if`", [*carried.places, *fixed])
            for i in kept:
                if _is_unset(after[i]):
                    _refuse(names[i])
            return tuple(after[i] for i in kept)

        return _named(chosen, run)

    found = cond(test, branch(true), branch(false), *carried.numbers(values))
    return carried.after(kept, found)


def returned(test: Any, true: Callable[..., Any], false: Callable[..., Any], values: Values) -> Any:
    """An `if` whose branches both return: what it returns."""
    if not is_traced(test):
        return true(*values) if test else false(*values)
    carried = _Carried([""] * len(values), values)

    def branch(run: Callable[..., Any]) -> Callable[..., Any]:
        checked = _watched(run, "an `if`")
        return _named(lambda *numbers: checked(*carried.whole(numbers)), run)

    return cond(test, branch(true), branch(false), *carried.numbers(values))


def either(test: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
    """The expression `true if test else false`."""
    if not is_traced(test):
        return true() if test else false()
    return cond(test, true, false)


def _named(function: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = like.__name__
    return function


# -- loops -----------------------------------------------------------------------------------------


def repeat(
    test: Callable[..., Any], body: Callable[..., Values], values: Values, names: Sequence[str]
) -> Values:
    """A `while` statement: the variables after it."""
    while True:
        goes_on = test(*values)
        if is_traced(goes_on):
            return _loop(test, body, values, names)
        if not goes_on:
            return values
        values = body(*values)


def _loop(
    test: Callable[..., Any], body: Callable[..., Values], values: Values, names: Sequence[str]
) -> Values:
    carried = _Carried(names, values)

    def step(numbers: Values) -> Values:
        after = _watched(body, "a loop")(*carried.whole(numbers))
        carried.check(after, "a loop", carried.places)
        return carried.numbers(after)

    found = while_loop(
        _named(lambda numbers: test(*carried.whole(numbers)), test),
        _named(step, body),
        carried.numbers(values),
    )
    return carried.after(carried.places, found)


class Range:
    """A `range` of numbers that are traced."""

    def __init__(self, *bounds: Any) -> None:
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = start, stop, step
        if is_traced(step):
            raise ConcretizationError(
                "range: the step is traced, so nobody knows in which direction it goes",
                fix="let the step be a number of Python",
            )


def range(*bounds: Any) -> Any:
    """Python's range, or a `Range` where a bound is traced."""
    return Range(*bounds) if any(map(is_traced, bounds)) else builtins.range(*bounds)


def each(items: Any, body: Callable[..., Values], values: Values, names: Sequence[str]) -> Values:
    """A `for` statement: the variables after it; `body` takes an item before them."""
    if isinstance(items, Range):
        rising, watched = items.step > 0, _watched(body, "a loop")

        def test(i: Any, *rest: Any) -> Any:
            return i < items.stop if rising else i > items.stop

        def counted(i: Any, *rest: Any) -> Values:
            return (i + items.step, *watched(i, *rest))

        return repeat(test, _named(counted, body), (items.start, *values), ("", *names))[1:]
    if not is_traced(items):
        for item in items:
            values = body(item, *values)
        return values
    carried = _Carried(names, values)

    def step(numbers: Values, item: Any) -> tuple[Values, None]:
        after = _watched(body, "a loop")(item, *carried.whole(numbers))
        carried.check(after, "a loop", carried.places)
        return carried.numbers(after), None

    found, _ = scan(_named(step, body), carried.numbers(values), items)
    return carried.after(carried.places, found)


# -- expressions -----------------------------------------------------------------------------------


def both(first: Any, *others: Callable[[], Any]) -> Any:
    """The expression `a and b`."""
    for other in others:
        if is_traced(first):
            first = logical_and(first, other())
        elif not first:
            return first
        else:
            first = other()
    return first


def some(first: Any, *others: Callable[[], Any]) -> Any:
    """The expression `a or b`."""
    for other in others:
        if is_traced(first):
            first = logical_or(first, other())
        elif first:
            return first
        else:
            first = other()
    return first


def invert(value: Any) -> Any:
    """The expression `not a`."""
    return logical_not(value) if is_traced(value) else not value
