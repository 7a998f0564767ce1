"""Scalar expressions, which a kernel computes for each element.

Expressions are interned: building the same one twice gives the same object, so a DAG is shared by
itself and `is` compares. Build them with the lower-case functions, never with the classes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.dims import Size, is_at_least
from ...ir.graph import OPS
from ...ir.lazy import lazy
from ...ir.record import field, record
from .index import Index, Variable

if TYPE_CHECKING:
    from .program import Buffer

# Rough cost of one evaluation in units of an addition, and the number of operands. Comparisons
# and `is_finite` give bool; `and or xor not` are logical on bool and bitwise on integers; `max`
# and `min` give NaN if an operand is; `div` and `rem` of integers truncate towards zero; `round`
# is half to even; `select` is (condition, on_true, on_false); `convert` and `bitcast` go to the
# dtype of the expression. Float to integer `convert` truncates, saturates, and gives 0 for NaN; to
# bool it is `!= 0`. Shifts by the width or more give 0 (`shr_arithmetic`: the sign everywhere).
INSTRUCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(["add", "sub", "mul", "max", "min"], (1, 2)),
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"], (1, 2)),
    **dict.fromkeys(["shl", "shr_logical", "shr_arithmetic"], (1, 2)),
    **dict.fromkeys(["neg", "abs", "sign", "not", "is_finite", "convert", "bitcast"], (1, 1)),
    **dict.fromkeys(["floor", "ceil", "round", "trunc", "popcount", "clz"], (1, 1)),
    "select": (1, 3),
    **dict.fromkeys(["div", "rem"], (5, 2)),
    **dict.fromkeys(["sqrt", "rsqrt"], (5, 1)),
    **dict.fromkeys(["exp", "exp2", "log"], (15, 1)),
    **dict.fromkeys(["logistic", "tanh", "expm1", "log1p", "tan", "erf", "erfc", "cbrt"], (25, 1)),
    **dict.fromkeys(["sin", "cos", "asin", "acos", "atan", "sinh", "cosh", "erf_inv"], (30, 1)),
    **dict.fromkeys(["asinh", "acosh", "atanh"], (40, 1)),
    **dict.fromkeys(["pow", "atan2"], (40, 2)),
}
IN_TURN = "add in turn"  # a sum whose terms are added one after another, from the first to the last
COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "is_finite"])


def in_numpy(instruction: str, dtype: np.dtype, *arrays: np.ndarray) -> np.ndarray:
    """Apply an instruction in NumPy: the reference of the op that it stands for."""
    op = OPS.instructions.get(instruction) or OPS[instruction]  # perhaps not loaded yet
    attrs = {"dtype": dtype} if "dtype" in op.attr_defaults else {}
    return op.rules.reference(*arrays, **attrs)


# not frozen, which would double the time to make one
@record(frozen=False, eq=False)
class Expr:
    """A scalar expression of one dtype, with its `operands`."""

    dtype: np.dtype
    serial: int = field(kw_only=True, default_factory=itertools.count().__next__)

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The expressions it is made of."""
        return ()

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices directly in it (those of operands not included)."""
        return ()

    @lazy
    def parts(self) -> tuple[Expr, ...]:
        """The expressions directly in it, those inside of its indices first."""
        return (*(e for index in self.indices for e in index.loads), *self.operands)

    @lazy
    def variables(self) -> frozenset[Variable]:
        """The free loop variables, without those of its own reductions."""
        found = frozenset(v for index in self.indices for v in index.variables)
        return found.union(*(operand.variables for operand in self.operands))

    @lazy
    def loads(self) -> frozenset[Load]:
        """Every load in it, those inside of indices included."""
        own = [self] if isinstance(self, Load) else []
        return frozenset(own).union(*[e.loads for e in self.parts])


@record(frozen=False, eq=False)
class Const(Expr):
    """A constant: a NumPy scalar of the dtype."""

    number: Any


@record(frozen=False, eq=False)
class IndexValue(Expr):
    """An index as a number of the dtype, converted as an int64 is."""

    index: Index

    @property
    def indices(self) -> tuple[Index, ...]:
        """The index it takes."""
        return (self.index,)


@record(frozen=False, eq=False)
class Load(Expr):
    """The element of a buffer at an offset, counted in elements or parts of them."""

    buffer: Buffer
    index: Index

    @property
    def indices(self) -> tuple[Index, ...]:
        """The place it reads."""
        return (self.index,)


@record(frozen=False, eq=False)
class Apply(Expr):
    """A scalar instruction of `INSTRUCTIONS` with a result of the dtype.

    All operands have one dtype, except for the condition of `select`, which is bool. The result
    has that dtype too, except for comparisons (bool), `convert` and `bitcast`.
    """

    instruction: str
    args: tuple[Expr, ...]

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The operands of the instruction."""
        return self.args


@record(frozen=False, eq=False)
class Reduce(Expr):
    """A reduction of `body` over all values of the variables in `loops`.

    Its order is any but for `IN_TURN`, where products are added in fused multiply-adds.

    Body, init and result have one dtype; sums of half floats are in float32.
    """

    combine: str  # add, mul, max, min, and, or, xor, IN_TURN
    loops: tuple[Variable, ...]
    init: Const  # the accumulator's first value
    body: Expr  # of these variables and those of the loops around it

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The start and the body."""
        return (self.init, self.body)

    @lazy
    def variables(self) -> frozenset[Variable]:
        """The variables outside of its own loops."""
        return self.body.variables - frozenset(self.loops)


@record(frozen=False, eq=False)
class Guard(Expr):
    """A guarded expression: `inside` where all conditions hold, else `outside`."""

    bounds: tuple[tuple[Index, Size, Size], ...]  # the conditions low <= index < high
    steps: tuple[tuple[Index, int], ...]  # the conditions index % step == 0
    # its loads may be out of their buffers elsewhere: branch, mask, split the loop, or clamp the
    # index and select
    inside: Expr
    outside: Expr

    @property
    def operands(self) -> tuple[Expr, ...]:
        """What is inside and outside."""
        return (self.inside, self.outside)

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the conditions."""
        return (*(b[0] for b in self.bounds), *(s[0] for s in self.steps))


@record(frozen=False, eq=False)
class Accumulated(Expr):
    """The finished sum of this row and column, in the stores of a `Contraction`."""


_interned: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()


def _intern(kind: type[Any], key: tuple, *fields: Any) -> Any:
    key = (kind, *key)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = kind(*fields)
    return found


def const(dtype: np.dtype, number: Any) -> Const:
    """Make a constant of the dtype."""
    with np.errstate(all="ignore"):
        number = np.asarray(number).astype(dtype)[()]
    return _intern(Const, (dtype, number.tobytes()), dtype, number)


def index_value(index: Index, dtype: np.dtype) -> Expr:
    """Make a number of an index."""
    if index.is_constant and isinstance(index.constant, int):
        return const(dtype, index.constant)
    return _intern(IndexValue, (dtype, index), dtype, index)


def load(buffer: Buffer, index: Index) -> Load:
    """Make the load of an element of a buffer."""
    return _intern(Load, (buffer, index), buffer.number_dtype, buffer, index)


def apply(instruction: str, dtype: np.dtype, *args: Expr) -> Expr:
    """Make a scalar instruction; a conversion to the same dtype gives its operand."""
    assert len(args) == INSTRUCTIONS[instruction][1], f"{instruction} with {len(args)} operands"
    if instruction in ("convert", "bitcast") and args[0].dtype == dtype:
        return args[0]
    if instruction == "convert" and isinstance(args[0], Const) and args[0].dtype.kind != "c":
        return const(dtype, args[0].number)
    return _intern(Apply, (dtype, instruction, args), dtype, instruction, args)


def reduce(combine: str, loops: tuple[Variable, ...], init: Const, body: Expr) -> Expr:
    """Make a reduction; over no loops it is the body."""
    if not loops:
        return body
    key = (combine, loops, init, body)
    return _intern(Reduce, key, body.dtype, combine, loops, init, body)


def guard(
    bounds: Iterable[tuple[Index, Size, Size]],
    steps: Iterable[tuple[Index, int]],
    inside: Expr,
    outside: Expr,
) -> Expr:
    """Make a guard without the conditions that always hold."""
    bounds = tuple(b for b in bounds if not _always(*b))
    steps = tuple(s for s in steps if s[0] % s[1] != Index())
    if any(is_at_least(b[1] - 1, b[0].high) or is_at_least(b[0].low, b[2]) for b in bounds):
        return outside
    if inside is outside or not (bounds or steps):
        return inside
    key = (bounds, steps, inside, outside)
    return _intern(Guard, key, inside.dtype, bounds, steps, inside, outside)


def _always(index: Index, low: Size, high: Size) -> bool:
    return is_at_least(index.low, low) and is_at_least(high - 1, index.high)


def is_view(expr: Expr) -> bool:
    """Whether an expression is a guarded affine load with a constant outside."""
    if isinstance(expr, Guard):
        is_plain = isinstance(expr.outside, Const) and all(i.is_affine for i in expr.indices)
        return is_plain and is_view(expr.inside)
    return isinstance(expr, Load) and expr.index.is_affine


def load_of(view: Expr) -> Load:
    """The load of a view."""
    while isinstance(view, Guard):
        view = view.inside
    assert isinstance(view, Load), f"{view} is no view"
    return view


def accumulated(dtype: np.dtype) -> Accumulated:
    """Make the expression for the sum of a contraction."""
    return _intern(Accumulated, (dtype,), dtype)


def walk(*roots: Expr) -> Iterator[Expr]:
    """Every expression once, operands first, those inside of indices included."""
    seen: set[Expr] = set()
    stack = list(reversed(roots))
    open_ones: set[Expr] = set()
    while stack:
        expr = stack[-1]
        if expr in seen or expr in open_ones:
            stack.pop()
            if expr not in seen:
                seen.add(expr)
                yield expr
            continue
        open_ones.add(expr)
        stack += [e for e in reversed(expr.parts) if e not in seen]


def unconditional(exprs: Iterable[Expr]) -> Iterator[Expr]:
    """Every expression that all elements evaluate, so none in guards or reductions."""
    seen: set[Expr] = set()
    left = list(exprs)
    while left:
        expr = left.pop()
        if expr in seen:
            continue
        seen.add(expr)
        yield expr
        if isinstance(expr, Apply):
            left += expr.args


def substitute(
    expr: Expr,
    table: dict[Variable, Index],
    leaf: Callable[[Expr], Expr | None] = lambda expr: None,
    memo: dict[Expr, Expr] | None = None,
) -> Expr:
    """Substitute indices for loop variables, and `leaf(expr)` for expressions.

    An expression for which `leaf` gives None is rebuilt from its parts.
    """
    memo = {} if memo is None else memo

    def again(e: Expr) -> Expr:
        if e not in memo:
            memo[e] = leaf(e) or _rebuild(e, again, moved, table)
        return memo[e]

    def moved(index: Index) -> Index:
        return index.substitute(table, again)

    return again(expr)


def _rebuild(
    e: Expr,
    again: Callable[[Expr], Expr],
    moved: Callable[[Index], Index],
    table: dict[Variable, Index],
) -> Expr:
    if isinstance(e, IndexValue):
        return index_value(moved(e.index), e.dtype)
    if isinstance(e, Load):
        index = moved(e.index)
        return e if index is e.index else load(e.buffer, index)
    if isinstance(e, Apply):
        args = tuple([again(a) for a in e.args])
        return e if args == e.args else apply(e.instruction, e.dtype, *args)
    if isinstance(e, Reduce):
        loops = tuple(_renamed(v, table) for v in e.loops)
        return reduce(e.combine, tuple(v for v in loops if v), e.init, again(e.body))
    if isinstance(e, Guard):
        bounds = [(moved(i), low, high) for i, low, high in e.bounds]
        steps = [(moved(i), step) for i, step in e.steps]
        return guard(bounds, steps, again(e.inside), again(e.outside))
    return e


def _renamed(variable: Variable, table: dict[Variable, Index]) -> Variable | None:
    """The substitute for a reduction variable; None if it was merged into another."""
    index = table.get(variable)
    if index is None:
        return variable
    return index.terms[0][0] if index.terms else None  # type: ignore[return-value]
