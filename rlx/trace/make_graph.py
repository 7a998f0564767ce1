"""Tracing of Python functions to graphs.

Takes a function on pytrees and examples of its arguments; gives `Traced`, a graph whose parameters
are the leaves of the arguments, then the captures of the function.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from ..ir import builder
from ..ir.dims import Dim, dim
from ..ir.errors import ArgumentError, ConcretizationError, DonatedError, RlxError, StructureError
from ..ir.graph import Graph, Value
from ..ir.record import record
from ..ir.source import at
from ..ir.tracebacks import boundary, raised_in_python, user_source_in
from ..ir.types import Type, as_dtype
from . import pytree
from .apply import as_operand, is_weak, operand_type, to_value
from .arguments import members
from .array import Array
from .axes import as_shape, integer
from .host import dense_copy, is_python_scalar, scalar_to_numpy
from .index import aliasing
from .operators import Operators
from .tensor import TracedTensor, fix_for, knowing, known_array


@record
class Traced:
    """A recorded function."""

    graph: Graph  # takes the leaves of (args, kwargs), then the captures
    captures: tuple[Array | Value, ...]  # arrays, or values of enclosing graphs
    in_tree: pytree.Structure  # of (args, kwargs)
    out_tree: pytree.Structure
    in_weak: tuple[bool, ...]  # which leaves are weakly typed
    out_weak: tuple[bool, ...]  # which results are
    baked: tuple[Any, ...] = ()  # arrays whose elements are constants in the graph

    @property
    def n_args(self) -> int:
        """The number of parameters that are leaves of arguments."""
        return len(self.in_weak)

    def unflatten(self, results: Sequence[Any]) -> Any:
        """Give results (values, arrays or tensors) the structure the function returned."""
        return pytree.unflatten(self.out_tree, from_values(results, self.out_weak))


def trace(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    concrete: bool = False,
    name: str | None = None,
    owned: int = 0,
) -> Traced:
    """Record `fn` called with arguments like these.

    Leaves are arrays, tensors, Python numbers, or `Type`s that stand for arrays. An argument
    wrapped in `pytree.Static` reaches `fn` as it is. With `concrete` the numbers of the
    arguments are known while tracing, so that Python control flow can use them. The first `owned`
    leaves are the function's own: it may assign to them.
    """
    check_function(fn, "what is traced")
    name = name or function_name(fn)
    leaves, in_tree = pytree.flatten((tuple(args), dict(kwargs or {})))
    origins = argument_origins(fn, args, in_tree, name)
    types = [_leaf_type(x, origin) for x, origin in zip(leaves, origins, strict=True)]
    weak = tuple(not isinstance(x, Type) and is_weak(x) for x in leaves)
    with builder.recording(name) as recorder, aliasing.tracing():
        graph, recorder.runs_once = recorder.graph, concrete
        params = [graph.add_param(t, origin) for t, origin in zip(types, origins, strict=True)]
        tensors = [TracedTensor(p, w) for p, w in zip(params, weak, strict=True)]
        aliasing.give(tensors[owned:])
        known = dict(_known_arrays(params, leaves)) if concrete else {}
        with knowing(known):
            results = _call(fn, in_tree, tensors, name)
        out_leaves, out_tree = pytree.flatten(results)
        out_leaves = [as_operand(x) if isinstance(x, Dim) else x for x in out_leaves]
        out_weak = _check_results(out_leaves, out_tree, name)
        graph.results = [to_value(as_operand(x)) for x in out_leaves]
    outermost = next(iter(builder.open_builders()), recorder)
    recorder.repeats.tell(name, is_silent=outermost.runs_once or outermost.is_trial)
    graph.params = [*graph.params, *recorder.capture_params]
    captures = tuple(_frozen(x) for x in recorder.captures)
    around = builder.current()
    if around is not None:
        around.baked += recorder.baked
        around.graph.place(graph.placed)
    return Traced(graph, captures, in_tree, out_tree, weak, out_weak, tuple(recorder.baked))


def make_graph(fn: Callable[..., Any]) -> Callable[..., Graph]:
    """Return a function that traces `fn` for arrays or `spec`s to a graph.

    >>> make_graph(lambda x: x * 2.0)(spec((3,), "float32")).result_types
    (Type(dtype=dtype('float32'), shape=(3,)),)
    """

    check_function(fn, "what make_graph records")

    @boundary
    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Graph:
        return trace(fn, args, kwargs).graph

    return recorded


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), *, return_shape: bool = False
) -> Callable[..., Any]:
    """Return a function that traces `fun` to a graph, under JAX's name.

    Arguments at the places `static_argnums` reach `fun` as they are. With `return_shape` the graph
    comes with the types of the results, in the structure that `fun` gives them.

    >>> print(make_jaxpr(lambda x, n: x * n, static_argnums=1)(spec((3,)), 2))
    graph "<lambda>"(%0: f32[3] "argument 0 of <lambda>, x") -> f32[3] {
      %1: f32[3] = full {shape=(3,), value=2.0, dtype=f32}  # ...
      %2: f32[3] = mul %0, %1  # ...
      return %2
    }
    """
    check_function(fun, "what make_jaxpr records")
    many = static_argnums if isinstance(static_argnums, Sequence | Set) else [static_argnums]
    static = {integer("make_jaxpr: static_argnums", i) for i in many}

    @boundary
    @functools.wraps(fun)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        places = {i % len(args) for i in static if -len(args) <= i < len(args)}
        given = [pytree.Static(x) if i in places else x for i, x in enumerate(args)]
        traced = trace(fun, given, kwargs)
        if not return_shape:
            return traced.graph
        return traced.graph, pytree.unflatten(traced.out_tree, list(traced.graph.result_types))

    return recorded


def typeof(x: Any) -> Type:
    """The dtype and shape of `x`: an array, a traced tensor or a number.

    >>> print(typeof(np.ones((2, 3))), typeof(1.0))
    f64[2, 3] f32[]
    """
    return x if isinstance(x, Type) else operand_type(as_operand(x))


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of a function's results, without computing them.

    The results are those of `fn(*args, **kwargs)`. Arguments are arrays or specs. Each leaf of the
    result has a `shape` and a `dtype`.

    >>> print(eval_shape(lambda x: x.sum(), spec((2, 3))))
    f32[]
    """
    traced = trace(fn, args, kwargs)
    return pytree.unflatten(traced.out_tree, list(traced.graph.result_types))


def spec(shape: Any, dtype: Any = "float32") -> Type:
    """Describe an array by `shape` and `dtype`.

    Functions that record or compile others take it in place of an array. A name as a size makes it
    symbolic: `spec(("batch", 3))`. Returns a `Type`.

    >>> print(spec(("batch", 3)))
    f32[batch, 3]
    """
    sizes = (shape,) if isinstance(shape, int | str | Dim) else members("spec: shape", shape)
    return Type(as_dtype(dtype), as_shape([dim(n) if isinstance(n, str) else n for n in sizes]))


def to_values(tree: Any) -> tuple[list[Value], pytree.Structure]:
    """The values of the open graph for the leaves of a tree."""
    leaves, structure = pytree.flatten(tree)
    return [to_value(as_operand(x)) for x in leaves], structure


def from_values(values: Sequence[Any], weak: Sequence[bool] | None = None) -> list[Any]:
    """Wrap values as tensors; arrays stay as they are."""
    flags = weak or [False] * len(values)
    return [
        TracedTensor(v, w) if isinstance(v, Value) else v
        for v, w in zip(values, flags, strict=True)
    ]


def titled(transform: str, fn: Any) -> str:
    """The name of a transformed function, as `grad(loss)`.

    >>> titled("grad", titled)
    'grad(titled)'
    """
    return f"{transform}({getattr(fn, '__qualname__', None) or function_name(fn)})"


def function_name(fn: Any) -> str:
    """The name of a function for graphs and errors."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def nested_too_deeply(name: str) -> StructureError:
    """The error for functions nested beyond Python's recursion limit."""
    return StructureError(
        f"{name}: functions call each other more deeply than Python's limit, "
        f"{sys.getrecursionlimit()} calls",
        fix="nest fewer functions, loops and conditions (a loop over layers is rlx.scan), end a "
        "recursion of\nyour own, or raise the limit: sys.setrecursionlimit(10_000)",
    )


def check_function(fn: Any, what: str) -> None:
    """Raise an `ArgumentError` unless `fn` can be called."""
    if not callable(fn):
        raise ArgumentError(
            f"{what} is {_a(type(fn).__name__)}, not a function",
            fix="pass a function, as rlx.jit(lambda x: x * 2)",
        )


def _a(name: str) -> str:
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"


def argument_origins(
    fn: Callable[..., Any], args: Sequence[Any], in_tree: pytree.Structure, name: str
) -> list[str]:
    """Say what each leaf of (args, kwargs) is: `argument 0 of loss, params["w"]`."""
    names = _positional_names(fn, len(args))
    positional, named = in_tree.children()
    found = []
    for i, (root, child) in enumerate(zip(names, positional.children(), strict=True)):
        found += [f"argument {i} of {name}, {path}" for path in pytree.paths(child, root)]
    for key, child in zip(named.entries(), named.children(), strict=True):
        found += [f"argument of {name}, {path}" for path in pytree.paths(child, key)]
    return found


def _positional_names(fn: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return [names[i] if i < len(names) else f"{rest}[{i - len(names)}]" for i in range(count)]


def _leaf_type(leaf: Any, origin: str) -> Type:
    if isinstance(leaf, Type):
        return leaf
    try:
        return operand_type(as_operand(leaf))
    except DonatedError:
        raise
    except RlxError as error:
        error.notes = (origin, *error.notes)
        error.fix = advice_for(leaf, origin)
        raise


def advice_for(leaf: Any, origin: str) -> str:
    """What to do about a leaf that is no array: an argument, or inside of one."""
    fix = "pass arrays or numbers; list other arguments in static_argnames"
    if not origin.rpartition(", ")[2].isidentifier():
        fix = "leave it out of the tree, or keep it in a static field of a module,\n"
        fix += "name: str = rlx.nn.field(static=True)"
    if isinstance(leaf, str | bytes | None) or hasattr(leaf, "dtype"):
        return fix
    return f"{fix}, or make\nthe class a pytree: rlx.tree_util.register_dataclass"


def _known_arrays(params: Sequence[Value], leaves: Sequence[Any]) -> Any:
    for param, leaf in zip(params, leaves, strict=True):
        if isinstance(leaf, TracedTensor):
            leaf = known_array(leaf.value)  # nobody asks yet
        elif isinstance(leaf, Array):
            # copied from a device only if somebody asks
            leaf = leaf.host() if leaf._device is None else leaf.copy()
        elif is_python_scalar(leaf):
            leaf = scalar_to_numpy(leaf, param.dtype)
        if leaf is not None and not isinstance(leaf, Type):
            yield param, leaf if isinstance(leaf, Array) else np.asarray(leaf)


def _call(
    fn: Callable[..., Any], in_tree: pytree.Structure, tensors: Sequence[Any], name: str
) -> Any:
    # equal structures share what is recorded, whatever the order of their keys
    given, named = pytree.unflatten(pytree.in_key_order(in_tree), tensors)
    args, kwargs = [_unwrap(x) for x in given], {key: _unwrap(x) for key, x in named.items()}
    try:
        return fn(*args, **kwargs)
    except RlxError:
        raise
    except Exception as error:
        found = _no_value(error, name) or _not_called(error, fn, args, kwargs, name)
        if found is None:
            raise
        raise found from error


def _no_value(error: Exception, name: str) -> RlxError | None:
    """The error for a library that was given a tensor without numbers, and does not say so."""
    if raised_in_python(error):
        return None
    if isinstance(error.__cause__, ConcretizationError):  # as NumPy's "setting an array element"
        return error.__cause__
    if TracedTensor.__name__ not in str(error):
        return None
    with at(user_source_in(error)):
        return ConcretizationError(
            f"{error}: a tensor has no numbers in memory while `{name}` is traced",
            fix=fix_for("from_dlpack"),
        )


def _not_called(
    error: Exception, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], name: str
) -> RlxError | None:
    """The error for arguments that are not those of the function, whose code did not begin."""
    if user_source_in(error) is not None:
        return None
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as wrong:
        return ArgumentError(f"{name}: {wrong}", fix=f"its arguments are {signature}")
    return None


def _unwrap(argument: Any) -> Any:
    return argument.value if isinstance(argument, pytree.Static) else argument


def _check_results(leaves: Sequence[Any], tree: pytree.Structure, name: str) -> tuple[bool, ...]:
    for leaf, path in zip(leaves, pytree.paths(tree, "result"), strict=True):
        is_array = isinstance(leaf, Operators | Value | np.ndarray | np.generic)
        if not (is_array or is_python_scalar(leaf)):
            raise ArgumentError(
                f"{name} returned a {type(leaf).__name__}, which is not an array",
                notes=[path],
                fix="return arrays, numbers or containers of them",
            )
    return tuple(not isinstance(x, Value) and is_weak(x) for x in leaves)


def _frozen(thing: Any) -> Array | Value:
    """NumPy arrays that were captured get memory of their own."""
    return Array(dense_copy(thing)) if isinstance(thing, np.ndarray) else thing
