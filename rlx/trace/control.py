"""Control flow on pytrees: cond, switch, while_loop, fori_loop.

Functions given to these are recorded once. What they use from outside becomes operands of the
op, so closures work. With known conditions the chosen function just runs;
the others are compared with it, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..ir.dims import Dim, Size, is_at_least
from ..ir.errors import ArgumentError, DtypeError, ShapeError, StructureError
from ..ir.tracebacks import boundary
from ..ir.types import DTYPES, Type, is_bool, is_integer
from . import pytree
from .apply import apply, as_operand, as_tensor, operand_type
from .arguments import count_of
from .array import Array, ArrayLike
from .closures import (
    constants_first,
    lift_leaf,
    lift_leaves,
    trace_body,
    union,
    with_captures,
    with_weak,
)
from .host import scalar_to_numpy, to_numpy
from .index import aliasing
from .make_graph import Traced, check_function, function_name, trace
from .promotion import convert, result_dtype
from .scan import scan
from .tensor import TracedTensor

INDEX = DTYPES["int32"]
Result = TypeVar("Result")
TENSORS = (Array, TracedTensor)
MOST_COMPARED = 4096  # pairs of branches whose comparison is remembered

_compared: set[Any] = set()
_is_comparing: ContextVar[bool] = ContextVar("is_comparing", default=False)


# -- choice -------------------------------------------------------------------------------------


@boundary
def cond(
    pred: ArrayLike, true_fn: Callable[..., Result], false_fn: Callable[..., Result], *operands: Any
) -> Result:
    """Return `true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Both must return the same structure, dtypes and shapes, else it is a `StructureError`,
    `DtypeError` or `ShapeError`. With a known condition the chosen function just runs, and may use
    Python's `if` on its numbers; the other is looked at once, and not compared if it cannot be
    recorded.
    """
    test = as_operand(pred)
    _check_scalar("cond", "the condition", test)
    check_function(true_fn, "cond: true_fn")
    check_function(false_fn, "cond: false_fn")
    branches = {"false_fn": false_fn, "true_fn": true_fn}
    if not isinstance(test, TracedTensor):
        _check_alike("cond", branches, operands)
        return _run(true_fn if test else false_fn, operands)
    if not is_bool(test.dtype):
        test = apply("ne", test, 0)
    return _branch("cond", convert(test, INDEX), branches, operands)


@boundary
def switch(index: ArrayLike, branches: Sequence[Callable[..., Result]], *operands: Any) -> Result:
    """Call `branches[index](*operands)` and return its result.

    The index is clamped to the branches there are. All branches return trees of one structure, with
    the same shapes and dtypes; without any branch it is an `ArgumentError`.
    """
    if not isinstance(branches, Sequence) or not branches:
        raise ArgumentError(
            "switch: there are no branches",
            fix="give a list of one or more functions",
        )
    for i, branch in enumerate(branches):
        check_function(branch, f"switch: branch {i}")
    place = as_operand(index)
    _check_integer("switch", "the index", place)
    named = {f"branch {i}": branch for i, branch in enumerate(branches)}
    if not isinstance(place, TracedTensor):
        _check_alike("switch", named, operands)
        return _run(branches[min(max(int(place), 0), len(branches) - 1)], operands)
    return _branch("switch", convert(place, INDEX), named, operands)


def _run(branch: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a branch at once, with the restrictions on assignments of a traced one."""
    owner = f"the caller has it too: it is an operand of {function_name(branch)}"

    def lent(x: Any) -> Any:
        x = as_tensor(x) if isinstance(x, np.ndarray | np.generic) else x
        return aliasing.lend(x.copy(), owner) if isinstance(x, TENSORS) else x

    def own(x: Any) -> Any:
        return x.copy() if isinstance(x, TENSORS) else Array(to_numpy(x, copy=True))

    with aliasing.tracing():
        results = branch(*pytree.map(lent, tuple(operands)))
    return pytree.map(own, results)


def _check_scalar(name: str, what: str, operand: Any) -> None:
    type = operand_type(operand)
    if type.shape:
        raise ShapeError(
            f"{name}: {what} is {type}, not a scalar",
            fix="reduce it with .any() or .all(), use vmap, or choose elementwise with "
            "rlx.numpy.where",
        )


def _rounds(lower: Any, upper: Any, first: Any, last: Any) -> Size | None:
    """How often a loop runs, as a number or an open size; None if neither can tell."""
    if not isinstance(first, TracedTensor) and not isinstance(last, TracedTensor):
        return max(int(last) - int(first), 0)
    if not isinstance(lower, int | Dim) or not isinstance(upper, int | Dim):
        return None
    count = upper - lower
    return count if is_at_least(count, 0) else None


def _check_integer(name: str, what: str, operand: Any) -> None:
    _check_scalar(name, what, operand)
    if not is_integer(operand_type(operand).dtype):
        raise DtypeError(
            f"{name}: {what} is {operand_type(operand)}, not an integer",
            fix='convert it: int(n) for a number, n.astype("int32") for an array',
        )


def _branch(
    name: str, index: Any, branches: Mapping[str, Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    traced = {branch: trace(fn, operands) for branch, fn in branches.items()}
    _check_structures(name, traced)
    return _choice(name, index, traced, operands)


def _check_structures(name: str, traced: Mapping[str, Traced]) -> None:
    """All branches return the containers of the first."""
    (one, first), *others = traced.items()
    for other, found in others:
        place = pytree.difference(first.out_tree, found.out_tree, "the result", (one, other))
        if place:
            raise StructureError(
                f"{name}: {one} and {other} return different structures: {place}",
                fix=f"return the same containers from {one} and {other}",
            )


def _check_alike(
    name: str, branches: Mapping[str, Callable[..., Any]], operands: Sequence[Any]
) -> None:
    """Compare what branches return, of which one will run, the first time that they meet.

    A branch that can only run with known numbers is not compared.
    """
    kind = _kind_of(branches.values(), operands)
    if kind is None or kind in _compared or _is_comparing.get():
        return
    token = _is_comparing.set(True)
    try:
        traced = {branch: trace(fn, operands) for branch, fn in branches.items()}
    except Exception:  # of the user's branch; if it is the one to run, running it raises that
        traced = {}
    finally:
        _is_comparing.reset(token)
    if traced:
        _check_structures(name, traced)
        _meeting_types(name, traced)
    if len(_compared) >= MOST_COMPARED:
        _compared.clear()
    _compared.add(kind)


def _kind_of(branches: Iterable[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """What comparisons are remembered by: code and types; None if that says too little."""
    codes = tuple(getattr(branch, "__code__", None) for branch in branches)
    if None in codes or len(codes) < 2:
        return None
    leaves, structure = pytree.flatten(tuple(operands))
    arrays = (*TENSORS, np.ndarray, np.generic)
    types = tuple((type(x), *((x.shape, x.dtype) if isinstance(x, arrays) else ())) for x in leaves)
    return codes, structure, types


def _choice(name: str, index: Any, branches: Mapping[str, Traced], operands: Sequence[Any]) -> Any:
    """Record the choice between branches that were traced."""
    traced = [*branches.values()]
    first = traced[0]
    captures = union(traced)
    types = _meeting_types(name, branches)
    graphs = tuple(with_captures(t, captures, types) for t in traced)
    leaves = lift_leaves(operands, first)
    results: Any = apply("cond", index, *leaves, *captures, branches=graphs)
    weak = [all(column) for column in zip(*(t.out_weak for t in traced), strict=True)]
    return pytree.unflatten(first.out_tree, with_weak(results, weak))


def _meeting_types(name: str, branches: Mapping[str, Traced]) -> list[Type]:
    """The common type of each result of branches; Python numbers take that of the others."""
    traced = [*branches.values()]
    paths = pytree.paths(traced[0].out_tree, "result")
    types = []
    for i, path in enumerate(paths):
        column = [t.graph.results[i].type for t in traced]
        strong = [c for c, t in zip(column, traced, strict=True) if not t.out_weak[i]]
        dtype = result_dtype(*(TracedTensor(t.graph.results[i], t.out_weak[i]) for t in traced))
        if any(c.dtype != dtype for c in strong) or any(c.shape != column[0].shape for c in column):
            kind = ShapeError if any(c.shape != column[0].shape for c in column) else DtypeError
            raise kind(
                f"{name}: the branches return different types for {path}",
                notes=[f"{branch}: {c}" for branch, c in zip(branches, column, strict=True)],
                fix="make them equal with astype, reshape or broadcast_to",
            )
        types.append(column[0].with_dtype(dtype))
    return types


# -- loops --------------------------------------------------------------------------------------


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init: Any,
    max_steps: int | None = None,
) -> Any:
    """Call `carry = body_fun(carry)` while `cond_fun(carry)` holds.

    Returns the final carry. Forward mode works; reverse mode needs `max_steps`, an upper bound of
    the number of steps.
    """
    check_function(cond_fun, "while_loop: cond_fun")
    check_function(body_fun, "while_loop: body_fun")
    if max_steps is not None:
        most = count_of("while_loop: max_steps", max_steps)
        return _bounded_loop(cond_fun, body_fun, init, most)
    body, leaves = trace_body("while_loop", body_fun, init, lambda result: result)
    carry = pytree.unflatten(body.out_tree, leaves)
    test = trace(cond_fun, (carry,))
    _check_test(test)
    types = list(body.graph.param_types[: len(leaves)])
    condition = constants_first(test, test.graph.result_types)
    step = constants_first(body, types)
    operands = [lift_leaf(x, t) for x, t in zip(leaves, types, strict=True)]
    results: Any = apply(
        "while_loop",
        *[*test.captures, *body.captures, *operands],
        condition=condition,
        body=step,
        n_condition=len(test.captures),
        n_body=len(body.captures),
    )
    return pytree.unflatten(body.out_tree, with_weak(results, body.in_weak))


def _check_test(test: Traced) -> None:
    if test.graph.result_types != (Type(DTYPES["bool"]),):
        given = ", ".join(map(str, test.graph.result_types)) or "nothing"
        raise DtypeError(
            f"while_loop: {test.graph.name} returns {given}, not bool[]",
            fix="return one comparison, as carry < 10; combine many with .any() or .all()",
        )


def _bounded_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any, max_steps: int
) -> Any:
    """Run at most `max_steps` steps as a scan, so that reverse mode works."""

    def one(carry: Any) -> Any:
        # the body may assign to what it carries
        return body_fun(pytree.map(lambda x: x.copy(), carry))

    def step(carry: Any, _: None) -> tuple[Any, None]:
        return cond(cond_fun(carry), one, lambda same: same, carry), None

    step.__name__ = function_name(body_fun)
    return scan(step, init, None, length=max_steps)[0]


@boundary
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """Call `carry = body_fun(i, carry)` for i from `lower` below `upper`.

    Returns the final carry. Reverse mode works with bounds that are Python numbers or open sizes.
    """
    check_function(body_fun, "fori_loop: body_fun")
    first, last = as_operand(lower), as_operand(upper)
    _check_integer("fori_loop", "the lower bound", first)
    _check_integer("fori_loop", "the upper bound", last)
    count = _rounds(lower, upper, first, last)
    if count is not None:

        def step(pair: Any, _: None) -> tuple[Any, None]:
            i, carry = pair
            return (i + 1, body_fun(i, carry)), None

        step.__name__ = function_name(body_fun)
        is_open = isinstance(first, TracedTensor)
        begin = convert(first, INDEX) if is_open else Array(scalar_to_numpy(int(first), INDEX))
        return scan(step, (begin, init), None, length=count)[0][1]
    dtype = result_dtype(first, last)

    def move(triple: Any) -> Any:
        i, end, carry = triple
        return i + 1, end, body_fun(i, carry)

    move.__name__ = function_name(body_fun)
    bounds = (convert(as_tensor(lower), dtype), convert(as_tensor(upper), dtype))
    return while_loop(lambda triple: triple[0] < triple[1], move, (*bounds, init))[2]
