"""Forward mode: jvp, linearize, hvp; and what both modes give, Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from ..ir.builder import build, current
from ..ir.dims import Dim
from ..ir.errors import ArgumentError, GradientError
from ..ir.graph import OPS, Graph, Placed, Value
from ..ir.ops.control import pick
from ..ir.tracebacks import boundary
from ..ir.types import Type, is_complex, is_inexact
from ..trace import pytree
from ..trace.apply import apply, as_operand, operand_type
from ..trace.arguments import flag, members
from ..trace.array import Array
from ..trace.make_graph import (
    Traced,
    argument_origins,
    check_function,
    from_values,
    function_name,
    titled,
    trace,
)
from .closures import Closure
from .grad import (
    Aux,
    Parameters,
    Result,
    check_pair,
    chosen_arguments,
    grad,
    linearized,
    vjp,
    wrapped,
)
from .jvp import jvp_graph
from .repeated import repeated
from .run_graph import like_primals, plain, run_beside, run_graph
from .vmap import vmap
from .zeros import Float0, check_float0

TANGENT_SIDES = ("the primals", "the tangents")


@overload
def jvp(
    fun: Callable[..., tuple[Result, Aux]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[Result, Result, Aux]: ...


@overload
def jvp(
    fun: Callable[..., Result],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[Result, Result]: ...


@boundary
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """Return the value of a function and its Jacobian-vector product (JVP).

    `fun` is called with the tuple `primals`; the tuple `tangents` has one of the same structure,
    shapes and dtypes for each. Anything but tuples is an `ArgumentError`. Returns (value, tangent);
    with `has_aux` the function returns (value, extra), and the result is (value, tangent, extra).

    >>> import rlx
    >>> value, slope = rlx.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    if not (isinstance(primals, tuple | list) and isinstance(tangents, tuple | list)):
        raise ArgumentError(
            "jvp: the primals and the tangents are each a tuple of arguments",
            fix="write rlx.jvp(f, (x,), (t,))",
        )

    has_aux = flag("jvp: has_aux", has_aux)

    def plain_call(primals: Any, tangents: Any) -> Any:
        return _jvp(fun, primals, tangents, has_aux)

    return repeated(plain_call, "jvp", (fun,), (primals, tangents), {}, has_aux)


def _jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> Any:
    """The value and the derivative."""
    traced = trace(fun, primals, concrete=True)
    if has_aux:
        check_pair("jvp", traced)
    leaves, tree = pytree.flatten(tuple(primals))
    given = pytree.flatten_like(tree, tuple(tangents), "jvp", TANGENT_SIDES)
    active = [is_inexact(p.dtype) for p in traced.graph.params[: traced.n_args]]
    graph, out_active = jvp_graph(traced.graph, active + [False] * len(traced.captures))
    moving = moving_tangents(traced, given)
    results = run_graph(graph, [*leaves, *traced.captures, *moving])
    count = len(traced.graph.results)
    run_beside(graph, results, f"the value of {traced.graph.name}")
    types = traced.graph.result_types
    slopes = slopes_of(traced, with_zeros(graph, results[count:], out_active, types))
    value = traced.unflatten([plain(r) for r in results[:count]])
    return (value[0], slopes[0], value[1]) if has_aux else (value, slopes)


@overload
def linearize(
    fun: Callable[..., tuple[Result, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[Result, Callable[..., Result], Aux]: ...


@overload
def linearize(
    fun: Callable[..., Result], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Result, Callable[..., Result]]: ...


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of a function and its derivative as a linear function.

    `fun` is called with `primals`. The linear function maps tangents of the arguments to the
    value's tangent. With `has_aux` the function returns (value, extra), and the result is (value,
    linear function, extra).

    >>> import rlx
    >>> value, push = rlx.linearize(lambda x: x * x, 3.0)
    >>> float(value), float(push(1.0))
    (9.0, 6.0)
    """
    has_aux = flag("linearize: has_aux", has_aux)

    def plain_call(*primals: Any) -> Any:
        return _linearize(fun, primals, has_aux)

    return repeated(plain_call, "linearize", (fun,), primals, {}, has_aux)


def _linearize(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """The value and the linear function."""
    traced = trace(fun, primals, concrete=True)
    if has_aux:
        check_pair("linearize", traced)
    active = [is_inexact(p.dtype) for p in traced.graph.params[: traced.n_args]]
    active += [False] * len(traced.captures)
    parts, out_active = linearized(traced.graph, active)
    leaves, tree = pytree.flatten(primals)
    early = run_graph(parts.known, [*leaves, *traced.captures])
    count = len(traced.graph.results)
    if not early[count:]:  # else these tell where the map runs
        run_beside(parts.unknown, early, f"the linear map of {traced.graph.name}")

    def push_forward(residuals: Sequence[Any], *tangents: Any) -> Any:
        given = pytree.flatten_like(tree, tangents, "linearize", TANGENT_SIDES)
        moving = run_graph(parts.unknown, [*residuals, *moving_tangents(traced, given)])
        types = traced.graph.result_types
        slopes = slopes_of(traced, with_zeros(parts.unknown, moving, out_active, types))
        return slopes[0] if has_aux else slopes

    value = traced.unflatten([plain(r) for r in early[:count]])
    push = Closure(push_forward, early[count:])
    return (value[0], push, value[1]) if has_aux else (value, push)


def slopes_of(traced: Traced, tangents: Sequence[Any]) -> Any:
    """Tangents of results in the structure of the results; `Float0` for integers."""
    types, weak = traced.graph.result_types, traced.out_weak
    tensors = from_values(tangents, weak)
    each = [
        x if is_inexact(t.dtype) else Float0(t.shape) for x, t in zip(tensors, types, strict=True)
    ]
    return pytree.unflatten(traced.out_tree, each)


def moving_tangents(traced: Traced, given: Sequence[Any]) -> list[Any]:
    """The tangents of floating-point arguments, checked against the arguments."""
    params = traced.graph.params[: traced.n_args]
    active = [is_inexact(p.dtype) for p in params]
    for x, p in zip(given, params, strict=True):
        check_float0(f"{traced.graph.name}: the tangent of {p.origin}", x, p.type)
    moving = pick(params, active)
    origins = [f" of {p.origin}" for p in moving]
    types = [p.type for p in moving]
    what = f"{traced.graph.name}: the tangent"
    return like_primals(what, pick(given, active), types, origins)


def with_zeros(
    graph: Graph, moving: Sequence[Any], active: Sequence[bool], types: Sequence[Type]
) -> list[Any]:
    """Put zeros where a result of a graph has no tangent, beside those that have one."""
    given, still = iter(moving), build(lambda: [], [], "zero")
    still.place(graph.placed)
    run_beside(still, moving, graph.name)
    return [
        plain(next(given) if a else _zero(t, still.placed))
        for a, t in zip(active, types, strict=True)
    ]


def _zero(type: Type, placed: Sequence[Placed]) -> Any:
    def make() -> list[Value]:
        return [OPS["full"](shape=type.shape, value=0, dtype=type.dtype)]

    if current() is not None:
        return make()[0]
    graph = build(make, [], "zero")
    graph.place(placed)
    return run_graph(graph, [])[0]


@boundary
def hvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Hessian-vector product of a scalar function.

    `fn` is called with `primals`. The Hessian itself is never formed. The vector has a part for
    each argument in `tangents`; so has the result, as a tuple if there are several.

    >>> import rlx
    >>> float(rlx.hvp(lambda x: x**3, (2.0,), (1.0,)))
    12.0
    """
    primals = members("hvp: primals", primals)
    tangents = members("hvp: tangents", tangents)
    argnums = tuple(range(len(primals))) if len(primals) > 1 else 0
    return jvp(grad(fn, argnums), primals, tangents)[1]


def jacfwd(
    fun: Callable[Parameters, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Parameters, Any]:
    """Return a function that computes the Jacobian of `fun` in forward mode.

    The Jacobian is made one column after another. The result has the structure of the value; each
    leaf that of argument `argnums` (a tuple for several), with the axes of the value first. With
    `has_aux` the result is (Jacobian, extra). The arguments are real, or with `holomorphic`
    complex, as then is the value.

    >>> import rlx
    >>> rlx.jacfwd(lambda x: x * x)(rlx.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    check_function(fun, "jacfwd: the function")
    has_aux = flag("jacfwd: has_aux", has_aux)

    def plain_call(*args: Any, **kwargs: Any) -> Any:
        inner, picked = _of_chosen("jacfwd", fun, argnums, args, kwargs)
        leaves, tree = pytree.flatten(picked)
        types = [operand_type(as_operand(x)) for x in leaves]
        _check_fields("jacfwd", "the argument", types, holomorphic)

        def along(*tangents: Any) -> Any:
            moved = pytree.unflatten(tree, tangents)
            found: Any = jvp(inner, picked, moved, has_aux)
            of_value = _check_result("jacfwd", fun, found[0])
            _check_fields("jacfwd", "the value", of_value if holomorphic else [], holomorphic)
            return found[1], found[2] if has_aux else None

        columns, extra = vmap(along, out_axes=(-1, None))(*_unit_vectors(types))
        shape = _as_asked(tree, argnums)
        slopes = pytree.map(lambda y: _unpacked(y, types, shape, last=True), columns)
        return (slopes, extra) if has_aux else slopes

    return wrapped(plain_call, "jacfwd", fun, (argnums, has_aux, holomorphic))


def jacrev(
    fun: Callable[Parameters, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, Any]:
    """Return a function that computes the Jacobian of `fun` in reverse mode.

    The Jacobian is made one row after another. The result, `argnums` and `has_aux` are as for
    `jacfwd`. The value is real, or with `holomorphic` complex, as then are the arguments. With
    `allow_int` arguments may hold integers, whose Jacobians are `rlx.Float0`.

    >>> import rlx
    >>> rlx.jacrev(lambda x: x * x)(rlx.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    check_function(fun, "jacrev: the function")
    has_aux = flag("jacrev: has_aux", has_aux)

    def plain_call(*args: Any, **kwargs: Any) -> Any:
        inner, picked = _of_chosen("jacrev", fun, argnums, args, kwargs, allow_int)
        value, pull_back, *extra = vjp(inner, *picked, has_aux=has_aux)
        types = _check_result("jacrev", fun, value)
        _check_fields("jacrev", "the value", types, holomorphic)
        of_arguments = [operand_type(as_operand(x)) for x in pytree.leaves(picked)]
        _check_fields("jacrev", "the argument", of_arguments if holomorphic else [], holomorphic)
        tree = pytree.structure(value)
        rows = vmap(lambda *cts: pull_back(pytree.unflatten(tree, cts)))(*_unit_vectors(types))
        flat, in_tree = pytree.flatten(rows)
        pieces = [pytree.leaves(_unpacked(x, types, tree, last=False)) for x in flat]
        shape = _as_asked(in_tree, argnums)
        columns = [pytree.unflatten(shape, list(each)) for each in zip(*pieces, strict=True)]
        slopes = pytree.unflatten(tree, columns)
        return (slopes, extra[0]) if has_aux else slopes

    return wrapped(plain_call, "jacrev", fun, (argnums, has_aux, holomorphic, allow_int))


jacobian = jacrev


def hessian(
    fun: Callable[Parameters, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Parameters, Any]:
    """Return a function that computes the Hessian, by forward over reverse mode.

    `fun` returns a scalar; the result has the axes of argument `argnums` twice. `has_aux` and
    `holomorphic` are as for `jacfwd`.

    >>> import rlx
    >>> rlx.hessian(lambda x: (x**3).sum())(rlx.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    rows = jacrev(fun, argnums, has_aux, holomorphic)
    wrapped = jacfwd(rows, argnums, has_aux, holomorphic)
    wrapped.__qualname__ = titled("hessian", fun)
    return wrapped


def _of_chosen(
    what: str,
    fn: Callable[..., Any],
    argnums: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    allow_int: bool = False,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Restrict `fn` to the chosen arguments, and give these; state in them does not move."""
    chosen = chosen_arguments(fn, argnums, len(args))
    name, state = function_name(fn), pytree.state_mask(pytree.structure(args))
    origins = argument_origins(fn, args, pytree.structure((args, {})), name)
    places = [i for i, arg in enumerate(args) for _ in pytree.leaves(arg)]
    rows = zip(places, pytree.leaves(args), origins, state, strict=True)
    for i, leaf, origin, is_state in rows:
        if i in chosen and not (allow_int or (is_state and what == "jacrev")):
            _check_float(what, origin, leaf)

    def inner(*picked: Any) -> Any:
        table = dict(zip(chosen, map(_without_slope_of_state, picked), strict=True))
        return fn(*(table.get(i, x) for i, x in enumerate(args)), **kwargs)

    inner.__name__ = name
    return inner, tuple(args[i] for i in chosen)


def _without_slope_of_state(tree: Any) -> Any:
    found, structure = pytree.flatten(tree)
    mask = pytree.state_mask(structure)
    if not any(mask):
        return tree
    rows = zip(found, mask, strict=True)
    still = [apply("stop_gradient", as_operand(x)) if is_state else x for x, is_state in rows]
    return pytree.unflatten(structure, still)


def _check_float(what: str, origin: str, leaf: Any) -> None:
    type = operand_type(as_operand(leaf))
    if not is_inexact(type.dtype):
        raise GradientError(
            f"{what}: {origin} is {type}, and integers have no gradient",
            fix="convert it with astype('float32'), or leave it out",
        )


def _check_fields(what: str, which: str, types: Sequence[Any], holomorphic: bool) -> None:
    """Raise an error unless all arguments are real, or all are complex."""
    wrong = [t for t in types if is_inexact(t.dtype) and is_complex(t.dtype) != holomorphic]
    if not wrong:
        return
    kinds = ("complex", "with holomorphic=True") if holomorphic else ("real", "without holomorphic")
    raise GradientError(
        f"{what}: {which} is {wrong[0]}, {kinds[1]} it must be {kinds[0]}",
        fix="leave holomorphic out"
        if holomorphic
        else "say holomorphic=True for a complex derivative, or take the parts apart",
    )


def _check_result(what: str, fn: Any, value: Any) -> list[Any]:
    """Check that all results have derivatives, and give their types."""
    paths = pytree.paths(pytree.structure(value), "result")
    for path, leaf in zip(paths, pytree.leaves(value), strict=True):
        _check_float(what, f"{path} of {function_name(fn)}", leaf)
    return [operand_type(as_operand(leaf)) for leaf in pytree.leaves(value)]


def _as_asked(tree: pytree.Structure, argnums: Any) -> pytree.Structure:
    """Give results in the structure of the chosen argument, or a tuple for several."""
    return tree.children()[0] if isinstance(argnums, int) else tree


def _unit_vectors(types: Sequence[Any]) -> list[Any]:
    """All unit vectors of the space of some types, along a new axis 0."""
    total = sum(t.size for t in types)
    found, start = [], 0
    for t in types:
        shape = (total, *t.shape)
        if isinstance(total, int):
            rows = np.eye(total, t.size, -start).astype(t.dtype)
            found.append(Array(rows.reshape(shape)))
        else:
            found.append(apply("reshape", _diagonal(total, t.size, start, t.dtype), shape=shape))
        start += t.size
    return found


def _diagonal(rows: Any, columns: Any, start: Any, dtype: np.dtype) -> Any:
    """A matrix of open sizes, with ones where row = column + start."""
    row, column = (
        apply("iota", shape=(rows, columns), axis=axis, dtype=np.dtype("int32")) for axis in (0, 1)
    )
    if isinstance(start, Dim):
        start = apply("broadcast", start, shape=(rows, columns), axes=())
    column = apply("add", column, start)
    return apply("convert", apply("eq", row, column), dtype=dtype)


def _unpacked(x: Any, types: Sequence[Any], tree: pytree.Structure, *, last: bool) -> Any:
    """Cut the axis of unit vectors into pieces with the shapes of the types."""
    pieces, start = [], 0
    for t in types:
        if last:
            piece = x[..., start : start + t.size].reshape((*x.shape[:-1], *t.shape))
        else:
            piece = x[start : start + t.size].reshape((*t.shape, *x.shape[1:]))
        pieces.append(piece)
        start += t.size
    return pytree.unflatten(tree, pieces)
