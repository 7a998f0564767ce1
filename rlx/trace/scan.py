"""Loops over the first axis of arrays: scan, map, associative_scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..ir.dims import Dim
from ..ir.errors import ArgumentError, ShapeError, StructureError
from ..ir.tracebacks import boundary
from ..ir.types import Size, Type
from . import pytree
from .apply import apply, as_tensor
from .arguments import flag, size_of
from .axes import integer, one_axis
from .closures import constants_first, lift_leaf, trace_body, with_weak
from .make_graph import Traced, check_function, function_name

Result = TypeVar("Result")
Elements = TypeVar("Elements")


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Size | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Call `carry, y = f(carry, x)` for each x along axis 0 of `xs`.

    Gives the last carry and all y stacked. `reverse` starts at the end; `unroll` steps are
    recorded as one.
    """
    check_function(f, "scan: the body")
    leaves, xs_tree = pytree.flatten(xs)
    arrays = [as_tensor(x) for x in leaves]
    count = _length(arrays, xs_tree, length)
    reverse = flag("scan: reverse", reverse)
    together = unroll if isinstance(unroll, bool) else integer("scan: unroll", unroll)
    if together is not False and together != 1 and isinstance(count, int) and count:
        group = count if together is True else _divisor(count, together)
        return _unrolled(f, init, arrays, xs_tree, count, reverse, group)
    rows = pytree.unflatten(xs_tree, [x.type.with_shape(x.shape[1:]) for x in arrays])
    body, carry = trace_body("scan", f, init, _carry_of, rows)
    return _run(body, carry, arrays, count, reverse)


def _carry_of(result: Any) -> Any:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise StructureError(
            "scan: the body does not return a pair (carry, y)",
            fix="return carry, y; with nothing to stack return carry, None",
        )
    return result[0]


def _length(arrays: Sequence[Any], tree: pytree.Structure, length: Size | None) -> Size:
    sizes: list[tuple[str, Size]] = (
        [] if length is None else [("length", size_of("scan: length", length))]
    )
    for x, path in zip(arrays, pytree.paths(tree, "xs"), strict=True):
        if not x.shape:
            raise ShapeError(
                f"scan: {path} is {x.type}, which has no axis to go along",
                fix="use the value in the body directly, or give it an axis",
            )
        sizes.append((path, x.shape[0]))
    if not sizes:
        raise ArgumentError(
            "scan: the number of steps is not known",
            fix="give xs with an axis 0, or length=n",
        )
    for name, size in sizes[1:]:
        if size != sizes[0][1]:
            raise ShapeError(
                f"scan: {sizes[0][0]} has {sizes[0][1]} steps, {name} has {size}",
                fix="make the sizes of axis 0 equal",
            )
    return sizes[0][1]


def _run(
    body: Traced, carry: Sequence[Any], arrays: Sequence[Any], count: Size, reverse: bool
) -> tuple[Any, Any]:
    n_carry = len(carry)
    types = body.graph.param_types[:n_carry]
    # the results of the graph stand in the order (carry, y)
    results = [*types, *body.graph.result_types[n_carry:]]
    outputs: Any = apply(
        "scan",
        *body.captures,
        *[lift_leaf(x, t) for x, t in zip(carry, types, strict=True)],
        *arrays,
        body=constants_first(body, results),
        n_constants=len(body.captures),
        n_carry=n_carry,
        length=count,
        reverse=reverse,
    )
    weak = [*body.in_weak[:n_carry], *body.out_weak[n_carry:]]
    last, stacked = pytree.unflatten(body.out_tree, with_weak(outputs, weak))
    return last, stacked


def _divisor(count: int, wanted: int) -> int:
    """The greatest divisor of `count` that is at most `wanted`."""
    return max(n for n in range(1, max(1, min(wanted, count)) + 1) if count % n == 0)


def _unrolled(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    arrays: Sequence[Any],
    tree: pytree.Structure,
    count: int,
    reverse: bool,
    group: int,
) -> tuple[Any, Any]:
    """A scan over groups of steps."""

    def steps(carry: Any, rows: Any) -> tuple[Any, Any]:
        row_leaves = pytree.leaves(rows)
        found: list[Any] = [None] * group
        for i in reversed(range(group)) if reverse else range(group):
            carry, found[i] = f(carry, pytree.unflatten(tree, [x[i] for x in row_leaves]))
        return carry, pytree.map(lambda *ys: _stack(ys), *found)

    steps.__name__ = function_name(f)
    grouped = [apply("reshape", x, shape=(count // group, group, *x.shape[1:])) for x in arrays]
    last, ys = scan(steps, init, grouped, length=count // group, reverse=reverse)
    return last, pytree.map(lambda y: apply("reshape", y, shape=(count, *y.shape[2:])), ys)


def _stack(ys: Sequence[Any]) -> Any:
    tensors = [as_tensor(y) for y in ys]
    rows = [apply("reshape", y, shape=(1, *y.shape)) for y in tensors]
    return apply("concat", *rows, axis=0)


@boundary
def map(f: Callable[[Any], Result], xs: Any) -> Result:
    """Call `f` on each element of `xs` along axis 0, and stack the results.

    The calls are one after another, in a loop. `xs` may be a tree of arrays of one length; returns
    a tree like what `f` returns, with a new axis 0.
    """

    check_function(f, "map: the function")

    def step(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    step.__name__ = function_name(f)
    return scan(step, None, xs)[1]


@boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Elements, reverse: bool = False, axis: int = 0
) -> Elements:
    """Prefix scan along an axis by an associative function, in log2(n) rounds.

    `fn(a, b)` combines trees of arrays, elementwise along the `axis`; `elems` is such a tree. The
    result has the structure and shapes of `elems`; entry i combines all entries up to i, or from i
    on with `reverse`. Raises a `ShapeError` for a symbolic length, an `ArgumentError` for a tree
    without arrays.
    """
    check_function(fn, "associative_scan: the function")
    leaves, tree = pytree.flatten(elems)
    tensors = [as_tensor(x) for x in leaves]
    if not tensors:
        raise ArgumentError(
            "associative_scan: elems has no arrays", fix="give an array, or a tree of them"
        )
    place = one_axis("associative_scan", axis, tensors[0].ndim)
    size = tensors[0].shape[place]
    if isinstance(size, Dim):
        raise ShapeError(
            f"associative_scan: the size {size} is symbolic",
            fix="use rlx.scan, which takes symbolic lengths",
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        result = fn(pytree.unflatten(tree, a), pytree.unflatten(tree, b))
        sides = ("elems", "the result")
        found = pytree.flatten_like(tree, result, "associative_scan", sides)
        return [_as_before(as_tensor(y), x.type) for y, x in zip(found, a, strict=True)]

    if flag("associative_scan: reverse", reverse):
        tensors = [apply("flip", x, axes=(place,)) for x in tensors]
    results = _associative(combine, tensors, place)
    if reverse:
        results = [apply("flip", x, axes=(place,)) for x in results]
    return pytree.unflatten(tree, results)


def _as_before(y: Any, wanted: Type) -> Any:
    if y.type == wanted:
        return y
    raise ShapeError(
        f"associative_scan: the function makes {y.type} of two {wanted}",
        fix="combine elementwise along the axis, and keep the dtype (astype)",
    )


def _associative(combine: Callable[..., list[Any]], elems: Sequence[Any], axis: int) -> list[Any]:
    """Combine neighbours, scan the half as long row, and fill in the even places."""
    count = elems[0].shape[axis]
    if count < 2:
        return list(elems)

    def part(x: Any, start: int | None, stop: int | None, step: int) -> Any:
        return x[(slice(None),) * axis + (slice(start, stop, step),)]

    pairs = combine([part(x, 0, count - 1, 2) for x in elems], [part(x, 1, None, 2) for x in elems])
    odd = _associative(combine, pairs, axis)
    left = odd if count % 2 else [part(x, 0, -1, 1) for x in odd]
    even = combine(left, [part(x, 2, None, 2) for x in elems]) if count > 2 else None
    firsts = [part(x, 0, 1, 1) for x in elems]
    if even is not None:
        firsts = [apply("concat", a, b, axis=axis) for a, b in zip(firsts, even, strict=True)]
    return [_interleave(a, b, axis) for a, b in zip(firsts, odd, strict=True)]


def _interleave(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], b[1] ...; a may be longer by one."""
    total = a.shape[axis] + b.shape[axis]
    shape = a.shape
    pad = a.shape[axis] - b.shape[axis]
    if pad:
        extra = a[(slice(None),) * axis + (slice(-1, None),)]
        b = apply("concat", b, extra, axis=axis)
    split = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    pair = [apply("reshape", x, shape=split) for x in (a, b)]
    both = apply("concat", *pair, axis=axis + 1)
    merged = apply("reshape", both, shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
    return merged[(slice(None),) * axis + (slice(0, total),)]
