"""Python functions called while a program runs: pure_callback and its like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import Library
from ..builder import build
from ..errors import CallbackError, GradientError
from ..graph import OPS, Value
from ..op import Op, define
from ..rules import batch_size, spread_those
from ..types import Type, as_dtype, type_of
from .control import pick, weave
from .custom import Rule


@define
def pure_callback(
    *operands: Type, fn: Rule, results: tuple[Type, ...], vmap_method: str = "sequential"
) -> Any:
    """Call a pure Python function of arrays, which may be dropped or repeated."""
    return results


@define
def io_callback(*operands: Type, fn: Rule, results: tuple[Type, ...]) -> Any:
    """Call a Python function of arrays that does something else besides."""
    return results


@define
def debug_callback(*operands: Type, fn: Rule) -> Type:
    """Call a Python function of arrays for what it shows; derivatives pass it by."""
    return Type(as_dtype("int32"))


def _checked(name: str, given: Any, results: Sequence[Type]) -> tuple[np.ndarray, ...]:
    found = given if isinstance(given, tuple | list) else (given,)
    types = [type_of(np.asarray(x)) for x in found]
    if types != list(results):
        made, promised = (", ".join(map(str, t)) or "nothing" for t in (types, results))
        raise CallbackError(
            f"{name}: the function gave {made}, it was to give {promised}",
            fix="convert what it returns, or say so in the result's shapes and dtypes",
        )
    return tuple(np.array(x) for x in found)


@pure_callback.reference
def pure_callback_reference(*operands: np.ndarray, fn: Rule, results: Any, vmap_method: str) -> Any:
    return _checked("pure_callback", fn(*operands), results)


@io_callback.reference
def io_callback_reference(*operands: np.ndarray, fn: Rule, results: Any) -> Any:
    return _checked("io_callback", fn(*operands), results)


@debug_callback.reference
def debug_callback_reference(*operands: np.ndarray, fn: Rule) -> np.ndarray:
    fn(*operands)
    return np.zeros((), np.int32)


for _op in (pure_callback, io_callback, debug_callback):
    _op.body(Library())
    _op.rules.calls_python = True  # two calls are two calls
for _op in (pure_callback, io_callback):
    _op.rules.multiple = True
for _op in (io_callback, debug_callback):
    _op.rules.effect = True


def _no_derivative(op: Op) -> Callable[..., Any]:
    def callback_jvp(primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any) -> Any:
        raise GradientError(
            f"{op.name}: nothing is known of the derivative of a Python function",
            fix="wrap it in a function with rlx.custom_jvp or custom_vjp, or use stop_gradient",
        )

    return callback_jvp


pure_callback.jvp(_no_derivative(pure_callback))
io_callback.jvp(_no_derivative(io_callback))
debug_callback.nondifferentiable("it only shows")


def one_by_one(
    op: Op, args: Sequence[Value], batched: Sequence[bool], attrs: dict[str, Any]
) -> Sequence[Value]:
    """Apply an op to each member of a batch, in their order."""
    size = batch_size(args, batched)
    same, rows = pick(args, batched, False), pick(args, batched)

    def step(*xs: Value) -> Sequence[Value]:
        results = op(*weave(batched, xs[len(same) :], xs[: len(same)]), **attrs)
        return results if isinstance(results, tuple) else [results]

    types = [*(x.type for x in same), *(x.type.with_shape(x.shape[1:]) for x in rows)]
    body = build(step, types, op.name)
    return OPS["scan"](*same, *rows, body=body, n_constants=len(same), n_carry=0, length=size)


@pure_callback.batch
def pure_callback_batch(
    args: Sequence[Value], batched: Sequence[bool], *, results: tuple[Type, ...], **attrs: Any
) -> Sequence[Value]:
    if attrs["vmap_method"] == "sequential":
        return one_by_one(pure_callback, args, batched, {**attrs, "results": results})
    size = batch_size(args, batched)
    # the function is one of whole batches
    count = size if attrs["vmap_method"] == "broadcast_all" else 1
    given = spread_those(args, batched, count)
    many = tuple(t.with_shape((size, *t.shape)) for t in results)
    return pure_callback(*given, results=many, **attrs)


io_callback.batch(lambda args, flags, **attrs: one_by_one(io_callback, args, flags, attrs))
debug_callback.batch(lambda args, flags, **attrs: one_by_one(debug_callback, args, flags, attrs))


def _doubled(*operands: np.ndarray) -> np.ndarray:
    """Twice 1, 2, 3 for each member of a batch, whatever the operands are."""
    batch = np.shape(operands[0])[:-1] if operands else ()
    return np.broadcast_to(np.array([2, 4, 6], np.int32), (*batch, 3))


_NUMBERS, _RESULTS = np.array([1, 2, 3], np.int32), (Type(as_dtype("int32"), (3,)),)
for _method in ("sequential", "broadcast_all"):
    pure_callback.samples(
        _NUMBERS, fn=Rule(_doubled), results=_RESULTS, vmap_method=_method, expect=[[2, 4, 6]]
    )
io_callback.samples(_NUMBERS, fn=Rule(_doubled), results=_RESULTS, expect=[[2, 4, 6]])
debug_callback.samples(np.array([1.0, 2.0]), fn=Rule(lambda *xs: None), expect=0)
