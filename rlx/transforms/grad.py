"""Reverse mode: grad, value_and_grad, vjp, linear_transpose.

Outside of a trace the function is recorded with known numbers, so Python control flow on values
works; the derivative graph is then run at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from ..ir.builder import build, inline
from ..ir.errors import ArgumentError, GradientError
from ..ir.graph import OPS, Graph, Value
from ..ir.ops.control import Split, filled, pick
from ..ir.tracebacks import boundary
from ..ir.types import is_complex, is_float, is_inexact
from ..trace import pytree
from ..trace.arguments import flag
from ..trace.axes import integer
from ..trace.make_graph import Traced, check_function, function_name, titled, trace
from .closures import Closure
from .jvp import jvp_graph
from .linearize import split_graph
from .repeated import repeated, typed
from .run_graph import like_primals, plain, run_beside, run_graph
from .transpose import pull, transpose_graph
from .zeros import check_float0, slopes_with_zeros, with_zeros_of_state

REAL_FIX = "return a float such as y.sum() or y.mean(), or use rlx.jacrev"
COMPLEX_FIX = "return a float such as abs(y), or say holomorphic=True for a complex derivative"


def linearized(graph: Graph, active: Sequence[bool]) -> tuple[Split, list[bool]]:
    """Split the jvp graph into values with residuals, and the linear map of tangents.

    Returns also which results have a tangent.
    """
    pushed, out_active = jvp_graph(graph, active)
    known = [True] * len(graph.params) + [False] * sum(active)
    out_known = [True] * len(graph.results) + [False] * sum(out_active)
    return split_graph(pushed, known, out_known), out_active


def vjp_graph(graph: Graph, active: Sequence[bool]) -> Graph:
    """Make the graph of results and cotangents.

    It takes the parameters, then a cotangent for each floating-point result; it gives the
    results, then a cotangent for each active parameter.
    """
    parts, out_active = linearized(graph, active)
    floats = [is_inexact(r.dtype) for r in graph.results]
    n = len(graph.params)

    def run(*xs: Value) -> list[Value]:
        early = inline(parts.known, xs[:n])
        given = iter(xs[n:])
        cts = [next(given) if is_there else None for is_there in floats]
        count = len(graph.results)
        pulled = pull(parts.unknown, early[count:], pick(cts, out_active))
        return [*early[:count], *filled(pulled, pick(graph.param_types, active))]

    types = [*graph.param_types, *pick(graph.result_types, floats)]
    return build(run, types, graph.name, [p.origin for p in graph.params])


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Aux = TypeVar("Aux")
First = TypeVar("First", bound=Any)  # an argument of a lambda is of any type


@overload
def value_and_grad(
    fun: Callable[Concatenate[First, Parameters], Result],
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[First, Parameters], tuple[Result, First]]: ...


@overload
def value_and_grad(
    fun: Callable[Parameters, Result],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, tuple[Result, Any]]: ...


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the value and gradient of a scalar function.

    `fun` returns a real scalar, else it is a `GradientError`. The gradient has the structure of
    argument `argnums` (a tuple of gradients for several). With `has_aux` the function returns
    (value, extra) and the result is ((value, extra), gradient). With `holomorphic` arguments and
    value are complex, and the gradient is the complex derivative. With `allow_int` arguments may
    hold integers, whose gradients are `rlx.Float0`. The gradient with respect to state of modules,
    see `nn.field`, is zero.

    >>> import rlx
    >>> value, slope = rlx.value_and_grad(lambda x: x**3)(2.0)
    >>> float(value), float(slope)
    (8.0, 12.0)
    """

    check_function(fun, "value_and_grad: the function")
    has_aux = flag("value_and_grad: has_aux", has_aux)
    holomorphic = flag("value_and_grad: holomorphic", holomorphic)
    allow_int = flag("value_and_grad: allow_int", allow_int)

    def plain(*args: Any, **kwargs: Any) -> Any:
        return _both(fun, argnums, has_aux, holomorphic, allow_int, args, kwargs)

    options = argnums, has_aux, holomorphic, allow_int
    return wrapped(plain, "value_and_grad", fun, options)


def _both(
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The value and the gradient."""
    chosen = chosen_arguments(fun, argnums, len(args))
    # the others reach the function as they are, whatever they are
    held = tuple(a if i in chosen else pytree.Static(a) for i, a in enumerate(args))
    traced = trace(fun, held, {k: pytree.Static(a) for k, a in kwargs.items()}, concrete=True)
    chosen_params = traced.graph.params[: traced.n_args]
    active, state = _trained(traced)
    trained = [p for p, is_state in zip(chosen_params, state, strict=False) if not is_state]
    _check_inputs(trained, holomorphic, allow_int)
    _check_loss(fun, traced, has_aux, holomorphic)
    graph = _with_unit_cotangent(traced.graph, active, state)
    results = run_graph(graph, [*pytree.leaves(held), *traced.captures])
    count = len(traced.graph.results)
    value = traced.unflatten([plain(r) for r in results[:count]])
    slopes = slopes_with_zeros(results[count:], chosen_params, active, state)
    return value, _as_arguments(args, chosen, slopes, argnums)


def _trained(traced: Traced) -> tuple[list[bool], list[bool]]:
    """Which parameters of the graph have a gradient, and which are state, whose is zero."""
    rest = [False] * len(traced.captures)
    state = pytree.state_mask(traced.in_tree) + rest
    rows = zip(traced.graph.params[: traced.n_args], state, strict=False)
    return [is_inexact(p.dtype) and not is_state for p, is_state in rows] + rest, state


def check_pair(what: str, traced: Traced) -> None:
    """Raise an error unless a function with `has_aux` returns a pair."""
    if traced.out_tree.num_children != 2:
        raise GradientError(
            f"{what}: with has_aux, {traced.graph.name} must return (result, extra)",
            fix="return a pair, or leave has_aux out",
        )


def wrapped(
    plain: Callable[..., Any], name: str, fun: Callable[..., Any], options: tuple[Any, ...]
) -> Callable[..., Any]:
    """Wrap a derivative as a function with the arguments and the name of `fun`.

    `options` begin with the places of the chosen arguments.
    """
    lent, kind = _not_chosen(options[0]), typed(options)

    @boundary
    @functools.wraps(fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def called(*args: Any, **kwargs: Any) -> Any:
        return repeated(plain, name, (fun,), args, kwargs, kind, lent)

    called.__qualname__ = titled(name, fun)
    return called


def _not_chosen(argnums: Any) -> Callable[[Any, int], bool]:
    """Make the test for arguments that a derivative passes on as they are."""
    many = argnums if isinstance(argnums, Sequence) else (argnums,)
    return lambda place, count: isinstance(place, str) or not {place, place - count} & {*many}


@overload
def grad(
    fun: Callable[Concatenate[First, Parameters], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[First, Parameters], First]: ...


@overload
def grad(
    fun: Callable[Concatenate[First, Parameters], tuple[Any, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[First, Parameters], tuple[First, Aux]]: ...


@overload
def grad(
    fun: Callable[Parameters, Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, Any]: ...


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    `fun`, `argnums`, `has_aux`, `holomorphic` and `allow_int` are as for `value_and_grad`. With
    `has_aux` the result is (gradient, extra).

    >>> import rlx
    >>> float(rlx.grad(rlx.grad(lambda x: x**3))(2.0))
    12.0
    """
    check_function(fun, "grad: the function")
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def slopes(*args: Any, **kwargs: Any) -> Any:
        value, slope = both(*args, **kwargs)
        return (slope, value[1]) if has_aux else slope

    return wrapped(slopes, "grad", fun, (argnums, has_aux, holomorphic, allow_int))


@overload
def vjp(
    fun: Callable[..., tuple[Result, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[Result, Callable[..., tuple[Any, ...]], Aux]: ...


@overload
def vjp(
    fun: Callable[..., Result], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Result, Callable[..., tuple[Any, ...]]]: ...


@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of a function and its vector-Jacobian product (VJP).

    `fun` is called with `primals`. The product maps a cotangent of the value to a tuple of
    cotangents of the arguments. With `has_aux` the function returns (value, extra), and the result
    is (value, product, extra).

    >>> import rlx
    >>> value, pull_back = rlx.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> [float(ct) for ct in pull_back(1.0)]
    [5.0, 2.0]
    """

    has_aux = flag("vjp: has_aux", has_aux)

    def plain(*primals: Any) -> Any:
        return _vjp(fun, primals, has_aux)

    return repeated(plain, "vjp", (fun,), primals, {}, has_aux)


def _vjp(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """The value and the pullback."""
    traced = trace(fun, primals, concrete=True)
    if has_aux:
        check_pair("vjp", traced)
    active, state = _trained(traced)
    parts, out_active = linearized(traced.graph, active)
    leaves, tree = pytree.flatten(primals)
    early = run_graph(parts.known, [*leaves, *traced.captures])
    count = len(traced.graph.results)
    if not early[count:]:  # else these tell where the map runs
        run_beside(parts.unknown, early, f"the vjp of {traced.graph.name}")
    value, residuals = traced.unflatten([plain(r) for r in early[:count]]), early[count:]
    out_tree = traced.out_tree
    if has_aux:
        out_tree, n_value = out_tree.children()[0], out_tree.children()[0].num_leaves
    else:
        n_value = count
    types, held = traced.graph.result_types, parts.known.result_types[count:]
    wanted = [i for i in range(count) if out_active[i]]
    moving = [i for i in wanted if i < n_value]
    slots, paths = [types[i] for i in moving], pytree.paths(out_tree)
    what = f"vjp of {traced.graph.name}: the cotangent"

    def run(*xs: Value) -> list[Value]:
        known, cts = xs[: len(held)], xs[len(held) :]
        table = dict(zip(moving, cts, strict=True))
        pulled = pull(parts.unknown, known, [table.get(i) for i in wanted])
        types = traced.graph.param_types
        return with_zeros_of_state(filled(pulled, pick(types, active)), types, active, state)

    @functools.cache
    def back_graph() -> Graph:
        return build(run, [*held, *slots], traced.graph.name)

    def pull_back(residuals: Sequence[Any], *cotangents: Any) -> Any:
        cotangent = _only("vjp", traced, cotangents)
        given = pytree.flatten_like(out_tree, cotangent, "vjp", ("the result", "the cotangent"))
        for i, path in enumerate(paths):
            check_float0(what + path, given[i], types[i])
        places = [paths[i] for i in moving]
        cts = like_primals(what, [given[i] for i in moving], slots, places)
        results = run_graph(back_graph(), [*residuals, *cts])
        params = traced.graph.params[: len(leaves)]
        return pytree.unflatten(tree, slopes_with_zeros(results, params, active, state))

    back = Closure(pull_back, residuals)
    return (value[0], back, value[1]) if has_aux else (value, back)


def _only(name: str, traced: Traced, cotangents: tuple[Any, ...]) -> Any:
    """The one argument of a pullback: results in a container have their cotangents in one, too."""
    if len(cotangents) == 1:
        return cotangents[0]
    raise ArgumentError(
        f"{name} of {traced.graph.name}: the pullback has {len(cotangents)} arguments, not 1",
        fix="pass one cotangent, in the structure of the result: a tuple if the result is one",
    )


def _with_unit_cotangent(graph: Graph, active: Sequence[bool], state: Sequence[bool]) -> Graph:
    """The results and the gradient of the first result, which is zero for state."""
    full = vjp_graph(graph, active)
    floats = [r for r in graph.results if is_inexact(r.dtype)]

    def run(*xs: Value) -> list[Value]:
        cts = [
            OPS["full"](shape=r.shape, value=int(r is graph.results[0] and i == 0), dtype=r.dtype)
            for i, r in enumerate(floats)
        ]
        found, count = inline(full, [*xs, *cts]), len(graph.results)
        slopes = with_zeros_of_state(found[count:], graph.param_types, active, state)
        return [*found[:count], *slopes]

    return build(run, graph.param_types, graph.name, [p.origin for p in graph.params])


def chosen_arguments(
    fn: Any, argnums: int | Sequence[int], count: int, what: str = "argnums"
) -> list[int]:
    """The places of the arguments `argnums` picks, all from the front."""
    many = argnums if isinstance(argnums, Sequence) else [argnums]
    numbers = [integer(what, i) for i in many]
    for i in numbers:
        if not -count <= i < count:
            raise ArgumentError(
                f"{what} {i} is outside the {count} positional arguments of {function_name(fn)}",
                fix=f"pick {what} from 0 to {count - 1}" if count else "pass it by position",
            )
    return [i % count for i in numbers]


def _check_inputs(params: Sequence[Value], holomorphic: bool, allow_int: bool) -> None:
    for param in params:
        if holomorphic and not is_complex(param.dtype):
            raise GradientError(
                f"grad: {param.origin} is {param.type}, and with holomorphic=True it must be "
                "complex",
                fix="convert it with astype('complex64'), or leave holomorphic out",
            )
        if not is_inexact(param.dtype) and not allow_int:
            raise GradientError(
                f"grad: {param.origin} is {param.type}, and integers have no gradient",
                fix="convert it with astype('float32'), or leave it out of argnums",
            )


def _check_loss(fn: Any, traced: Traced, has_aux: bool, holomorphic: bool) -> None:
    """Raise an error unless the loss is a real scalar, or a complex one as asked."""
    name, tree = function_name(fn), traced.out_tree
    if has_aux:
        check_pair("grad", traced)
        tree = tree.children()[0]
    if tree.num_leaves != 1 or tree != pytree.structure(0):
        raise GradientError(
            f"grad needs a scalar loss, {name} returned {tree.num_leaves} values",
            fix="return one number (use has_aux=True for more), or use rlx.jacrev",
        )
    loss = traced.graph.results[0]
    if holomorphic and loss.shape == () and not is_complex(loss.dtype):
        raise GradientError(
            f"grad with holomorphic=True needs a complex result, {name} returned {loss.type}",
            fix="return a complex number, or leave holomorphic out",
        )
    is_number = is_complex(loss.dtype) if holomorphic else is_float(loss.dtype)
    if loss.shape != () or not is_number:
        raise GradientError(
            f"grad needs a scalar loss, {name} returned {loss.type}",
            fix=COMPLEX_FIX if is_complex(loss.dtype) and not loss.shape else REAL_FIX,
        )


def _as_arguments(args: Any, chosen: Sequence[int], results: Sequence[Any], argnums: Any) -> Any:
    given = iter(results)
    table = {}
    for i in sorted(set(chosen)):
        leaves, tree = pytree.flatten(args[i])
        table[i] = pytree.unflatten(tree, [next(given) for _ in leaves])
    return tuple(table[i] for i in chosen) if isinstance(argnums, Sequence) else table[chosen[0]]


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all arguments.

    `fun` takes arguments like `primals`, arrays or `rlx.spec`s: only their types matter. The
    transpose takes a cotangent of the result and gives a tuple with a cotangent for each argument.
    Raises a `GradientError` for integer arguments, and for a function that is not linear.

    >>> import rlx
    >>> transposed = linear_transpose(lambda x: 3.0 * x[1:], rlx.spec((3,)))
    >>> transposed(rlx.array([1.0, 2.0]))[0].tolist()
    [0.0, 3.0, 6.0]
    """
    traced = trace(fun, primals)
    linear = [i < traced.n_args for i in range(len(traced.graph.params))]
    for param in pick(traced.graph.params, linear):
        if not is_inexact(param.dtype):
            raise GradientError(
                f"linear_transpose: {param.origin} is {param.type}, and integers are not linear",
                fix="convert it with astype('float32'), or close over it",
            )
    transposed = transpose_graph(traced.graph, linear)

    def pull_back(*cotangents: Any) -> Any:
        cotangent = _only("linear_transpose", traced, cotangents)
        sides = ("the result", "the cotangent")
        given = pytree.flatten_like(traced.out_tree, cotangent, "linear_transpose", sides)
        paths = pytree.paths(traced.out_tree)
        what = f"linear_transpose of {traced.graph.name}: the cotangent"
        cts = like_primals(what, given, list(traced.graph.result_types), paths)
        results = run_graph(transposed, [*traced.captures, *cts])
        args, _ = pytree.unflatten(traced.in_tree, results)
        return args

    pull_back.__qualname__ = titled("linear_transpose", fun)
    return pull_back
