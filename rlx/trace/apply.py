"""Dispatch of ops: run at once on arrays, or record if an operand is traced.

Operands are `Array`s, `TracedTensor`s, NumPy arrays and Python numbers. An op without traced
operands runs at once even while a graph is recorded, so constants stay concrete, unless it would
make a large constant of small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ..ir import builder
from ..ir.dims import Dim
from ..ir.errors import ConcretizationError, RlxError
from ..ir.graph import OPS, Value, graphs_in
from ..ir.number_check import asked, check_results
from ..ir.op import Op
from ..ir.source import user_source
from ..ir.types import Type, is_bool, is_complex, is_float, type_of
from .array import Array, new_array
from .foreign import shared
from .host import (
    check_supported,
    default_of,
    dense_copy,
    is_python_scalar,
    no_memory,
    scalar_to_numpy,
    to_numpy,
)
from .placement import home
from .tensor import TracedTensor, leaked

Operand: TypeAlias = Any  # Array, TracedTensor, np.ndarray, np.generic or a Python number
LARGE = 1 << 14  # bytes of a constant: 4096 float32
Evaluator = Callable[[Op, Sequence[Array], dict[str, Any], Any], Sequence[Array]]


def evaluate_with_reference(
    op: Op, arrays: Sequence[Array], attrs: dict[str, Any], device: Any
) -> list[Array]:
    """Run the op's NumPy reference on the host; the results go back to the device."""
    keeps = op.rules.runs_python or any(graphs_in(attrs.values()))  # functions of the user may
    given = [a.host() if keeps else a._on_host() for a in arrays]
    try:
        made, bad = op.run(given, attrs), asked()
    except MemoryError as error:
        raise no_memory(op.name, error) from None
    if bad:
        check_results(op.name, user_source, given, made, bad)
    results = [Array(r) for r in made]
    return results if device is None else [r.to(device) for r in results]


_evaluator: Evaluator = evaluate_with_reference
# for each trace the arrays that `full` and `iota` made during it, by identity
_recipes: WeakKeyDictionary[builder.Builder, dict[int, tuple[Array, Op, dict[str, Any]]]] = (
    WeakKeyDictionary()
)


def set_evaluator(evaluator: Evaluator) -> Evaluator:
    """Replace what runs ops on concrete arrays; gives the one before.

    An evaluator is called with the op, arrays of one device, complete attributes and the device
    (None is the host), and gives all results. Arrays that one number fills lie on the host.
    """
    global _evaluator
    before, _evaluator = _evaluator, evaluator
    return before


def apply(op: Op | str, *operands: Any, **attrs: Any) -> Array:
    """Run or record an op, and give an array, or a tuple for an op of several results.

    Type checkers take the tuple for an array, which can be unpacked as well.

    A Python number takes the dtype and shape of the first operand that is not one.
    """
    known: Op = OPS[op] if isinstance(op, str) else op
    return apply_ready(known, [as_operand(x) for x in operands], known.complete(attrs))


def apply_ready(op: Op, given: Sequence[Operand], attrs: dict[str, Any]) -> Any:
    """Like `apply`, for operands from `as_operand` and complete attributes."""
    is_traced = any(isinstance(x, TracedTensor) for x in given) or _is_recorded(op, attrs)
    is_traced = is_traced or makes_much(op, given, attrs)
    results = record(op, given, attrs) if is_traced else evaluate(op, given, attrs)
    return tuple(results) if op.rules.multiple or len(results) != 1 else results[0]


def apply_like(like: Any, op: str, **attrs: Any) -> Any:
    """Apply an op without operands; it is recorded if `like` is traced."""
    if not isinstance(like, TracedTensor):
        return apply(op, **attrs)
    return record(OPS[op], [], OPS[op].complete(attrs))[0]


def _is_recorded(op: Op, attrs: dict[str, Any]) -> bool:
    """Whether an op must be recorded, even if its operands are known.

    Such are ops of symbolic sizes, nested graphs with collectives, and, while a graph is recorded,
    calls of Python functions, which happen when it runs.
    """
    ops = [op, *(node.op for graph in graphs_in(attrs.values()) for node in graph.walk())]
    if any([each.rules.named is not None for each in ops[1:]]):
        return True
    if any([each.rules.calls_python for each in ops]) and builder.current() is not None:
        return True
    flat = [a for attr in attrs.values() for a in (attr if isinstance(attr, tuple) else (attr,))]
    sizes = [a for a in flat if isinstance(a, Dim)]
    if sizes:
        _check_open(sizes)
    return bool(sizes)


def makes_much(op: Op, given: Sequence[Operand], attrs: dict[str, Any]) -> bool:
    """Whether an op would make a large constant of small ones while recording.

    That is one of more than `LARGE` bytes, and more than twice those of the operands. Compiled code
    recomputes it, fused with its users; else it would be a hidden argument.
    """
    around = builder.open_builders()
    if not around or around[0].runs_once:  # on known arrays: nothing is compiled
        return False
    types = [operand_type(x) for x in given]
    try:
        made = sum(_bytes(t) for t in op.infer(types, attrs))
    except RlxError:  # it is told where the op is run
        return False
    return made > LARGE and made > 2 * sum(map(_bytes, types))


def _bytes(type: Type) -> Any:
    return type.size * type.dtype.itemsize


def _check_open(sizes: Sequence[Any]) -> None:
    if builder.current() is None:
        raise ConcretizationError(
            f"the symbolic sizes ({', '.join(map(str, sizes))}) have no numbers outside of "
            "traced code",
            fix="use numbers for the sizes",
        )


def as_operand(x: Any) -> Operand:
    """Convert what a user wrote to an operand of `apply`; lists become arrays."""
    if isinstance(x, TracedTensor):
        if not builder.is_open(x.value.graph):
            raise leaked(x)
        return x
    if isinstance(x, Array) or is_python_scalar(x):
        return x
    if isinstance(x, np.ndarray | np.generic):
        check_supported(x.dtype, x)
        return x if x.dtype.isnative else to_numpy(x)
    if isinstance(x, Value):
        return TracedTensor(x)
    if isinstance(x, Dim):
        return _size_as_number(x)
    return new_array(to_numpy(x, copy=True))


def as_leaf(x: Any) -> Any:
    """View an array of another library as one of NumPy; others pass unchanged."""
    known = isinstance(x, Array | TracedTensor | np.ndarray | np.generic)
    return x if known or not hasattr(x, "__dlpack__") else shared(x)


def _size_as_number(size: Dim) -> TracedTensor:
    """A symbolic size as a weakly typed int32, like a Python integer."""
    _check_open((size,))
    if size.low is not None and size.low >= 0:
        return TracedTensor(_counted(size), weak=True)
    # as an axis it might have a negative size
    more, less = (
        Dim(tuple((monomial, abs(c)) for monomial, c in size.terms if (c > 0) == is_positive))
        for is_positive in (True, False)
    )
    return TracedTensor(OPS["sub"](_counted(more), _counted(less)), weak=True)


def _counted(size: Dim) -> Value:
    """The number of elements along an axis of a size."""
    ones = OPS["full"](shape=(size + 0,), value=1, dtype="int32")
    return OPS["reduce_sum"](ones, axes=(0,))


def operand_type(x: Operand) -> Type:
    """The dtype and shape of an operand."""
    return x.type if isinstance(x, Array | TracedTensor) else type_of(x)


def described(*operands: Any) -> list[str]:
    """Lines for an error: type and origin of each operand, of two as `x` and `y`."""
    names = "xy"[: len(operands)] if len(operands) <= 2 else [f"#{i}" for i in range(len(operands))]
    lines = []
    for name, x in zip(names, operands, strict=True):
        origin = x.value.origin if isinstance(x, TracedTensor) else ""
        lines.append(f"{name}: {operand_type(x)}" + (f"   {origin}" if origin else ""))
    return lines


def is_weak(x: Operand) -> bool:
    """Whether the operand is weakly typed: it came from Python numbers."""
    return x.weak if isinstance(x, TracedTensor) else is_python_scalar(x)


def record(op: Op, operands: Sequence[Operand], attrs: dict[str, Any]) -> list[TracedTensor]:
    """Record an op, of which an operand is traced, in the graph under construction."""
    like = next((x for x in operands if not is_python_scalar(x)), None)
    like_type = None if like is None else operand_type(like)
    args = [to_value(x, like_type) for x in operands]
    results = op.apply(args, attrs)
    weak = all(map(is_weak, operands))
    weak = weak and bool(operands)
    return [TracedTensor(r, weak and not is_bool(r.dtype)) for r in results]


def to_value(x: Operand, like: Type | None = None) -> Value:
    """Give the value that stands for an operand in the graph under construction.

    Arrays without axes become constants; others become hidden parameters, so that compiled code
    is not tied to their elements. A Python number takes the type of `like`.
    """
    recorder = builder.current()
    if recorder is None:
        raise builder.not_recording(x.value if isinstance(x, TracedTensor) else x)
    if isinstance(x, TracedTensor):
        return recorder.own(x.value)
    if is_python_scalar(x):
        type = like or Type(default_of(x))
        return OPS["full"](shape=type.shape, value=_number(x, type.dtype), dtype=type.dtype)
    type = operand_type(x)
    if not type.shape:
        bake(x)
        return OPS["full"](shape=(), value=np.asarray(x).item(), dtype=type.dtype)
    recipe = _recipes.get(recorder, {}).get(id(x))
    if recipe is not None:
        _, op, attrs = recipe
        return op.apply([], attrs)[0]
    return recorder.capture(x, type, "an array from outside")


def bake(x: Any) -> None:
    """Note that the elements of an array become constants of the open graph."""
    recorder = builder.current()
    if recorder is not None and isinstance(x, Array):
        recorder.baked.append(x)


def _number(x: Any, dtype: np.dtype) -> bool | int | float | complex:
    """Convert a number to the kind of the dtype, so that 2 and 2.0 make equal nodes."""
    if is_bool(dtype):
        return bool(x)
    if is_complex(dtype):
        return complex(x)
    if is_float(dtype):
        return float(x)
    return int(scalar_to_numpy(x, dtype))


def literal(array: np.ndarray, *, like: Operand | None = None) -> Any:
    """Convert a small array to a constant of the graph if `like` is traced."""
    if isinstance(like, TracedTensor):
        return TracedTensor(OPS["constant"].lift(array))
    return Array(array)


def evaluate(op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> list[Array]:
    """Run an op at once on operands of which none is traced."""
    placed = [p for graph in graphs_in(attrs.values()) for p in graph.placed]
    device = home(op.name, operands, placed)
    foreign = [x for x in operands if isinstance(x, np.ndarray)]
    arrays = _to_arrays(operands, device)
    try:
        results = _evaluator(op, arrays, attrs, device)
    except RlxError as error:
        error.at(op.name, op.named(a.type for a in arrays), user_source())
        raise
    if not operands:
        _remember(op, results, attrs)
    if not foreign or device is not None:
        return list(results)
    # the user may write to the NumPy arrays later
    try:
        return [
            Array(r.host().copy()) if any(np.may_share_memory(r.host(), x) for x in foreign) else r
            for r in results
        ]
    except MemoryError as error:
        raise no_memory(op.name, error) from None


def _remember(op: Op, results: Sequence[Array], attrs: dict[str, Any]) -> None:
    """Note how an array was made without operands, so that its use needs no capture."""
    recorder = builder.current()
    if recorder is not None:
        recipes = _recipes.setdefault(recorder, {})
        recipes.update({id(r): (r, op, attrs) for r in results})


def forget_recipe(recorder: builder.Builder, changed: Array, before: Array) -> None:
    """Let the note how an array was made refer to its elements `before` a change."""
    recipes = _recipes.get(recorder, {})
    if id(changed) in recipes:
        _, op, attrs = recipes.pop(id(changed))
        recipes[id(before)] = before, op, attrs


def _to_arrays(operands: Sequence[Any], device: Any) -> list[Array]:
    like = next((operand_type(x) for x in operands if not is_python_scalar(x)), None)
    arrays = []
    for x in operands:
        if isinstance(x, Array):
            arrays.append(x if x._device is not None else x.to(device))
            continue
        if is_python_scalar(x):
            type = like or Type(default_of(x))
            # evaluated at once, so no size is symbolic
            x = np.broadcast_to(scalar_to_numpy(x, type.dtype), type.shape)  # type: ignore[arg-type]
        x = np.asarray(x)
        is_filled = x.size > 1 and not any(x.strides)  # a device is sent the number once
        arrays.append(_view(x) if is_filled else _view(x).to(device))
    return arrays


def _view(data: np.ndarray) -> Array:
    """An `Array` on the user's memory or a broadcast view, for use in this file only."""
    view = data.view()
    view.flags.writeable = False
    made = Array.__new__(Array)
    made._data, made._device = view, None
    return made


def as_tensor(x: Any) -> Array:
    """Convert what a user wrote to an `Array` or a `TracedTensor`."""
    given = as_operand(x)
    if isinstance(given, Array | TracedTensor):
        return given  # type: ignore[return-value]  # (a tensor stands for an array)
    if is_python_scalar(given):
        return new_array(scalar_to_numpy(given, default_of(given)))
    return new_array(dense_copy(np.asarray(given)))
