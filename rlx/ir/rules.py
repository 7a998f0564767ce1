"""`Rules`, the rules that an op may have; and common batching rules.

Everything that is known of an op beside its type rule. `Op` has a decorator for most of them, which
says what the function takes and gives; what a room leaves out is None, empty or False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .graph import OPS, Value
from .types import Size

Function = Callable[..., Any]


class Rules:
    """The rules of one op."""

    # -- what it means --------------------------------------------------------------------------
    reference: Function | None = None  # in NumPy: the meaning all others are checked against
    ufuncs: Mapping[str, np.ufunc] = {}  # kind of dtypes -> what computes the reference for it
    kernels: Mapping[str, Function] = {}  # device -> another reference, of a user's op
    body: Any = None  # for loop backends: one of the classes of `ir.body`
    expand: Function | None = None  # in simpler ops
    parts: Function | None = None  # of complex operands, in ops on real ones
    invariant_parts: Function | None = None  # the same, adding in an order that no size changes

    # -- how transforms change it ---------------------------------------------------------------
    jvp: Any = None  # a function, or a list of one for each argument
    transpose: Function | None = None
    nondifferentiable: str | None = None  # the reason why there is no derivative
    batch: Function | None = None
    named: Function | None = None  # batching over an axis that the op names
    split: Function | None = None  # into what is known and what is not, of nested graphs

    # -- how it may be simplified ---------------------------------------------------------------
    fold: Function | None = None  # to a simpler value
    total: Function | None = None  # the sum of the results for the rows of the operands
    join: Function | None = None  # the sum of two results that are nowhere both other than zero
    multiplied: Function | None = None  # a product with the result, made without it
    product: Function | None = None  # of two operands: the axes that are not summed over
    padded: Function | None = None  # the first one of them with what is seen around it
    choice: Sequence[Function | None] = ()  # for each argument, where its numbers are taken
    work: str | None = None  # the class of `Policy` it belongs to
    library_work: tuple[str, Function] | None = None  # of a library call: its kind, and how much
    scheme: Function | None = None  # how operands and results are quantized
    work_kept: Function | None = None  # the operands that keep the dtype they were written in

    # -- what it is -----------------------------------------------------------------------------
    multiple: bool = False  # it gives a tuple, of one result too
    transparent: bool = False  # it means its graph, and no more
    calls_python: bool = False  # two calls are two calls
    effect: bool = False  # it does more than compute results
    of_user: bool = False  # a `custom_op`

    @property
    def has_derivative(self) -> bool:
        """Whether the room gives a derivative."""
        return self.jvp is not None or self.transpose is not None

    @property
    def runs_python(self) -> bool:
        """Whether it runs a Python function of the user."""
        return self.calls_python or self.of_user


# -- batching --------------------------------------------------------------------------------------


def aligned(op: Function, axes: Sequence[str]) -> Function:
    """The batching rule of an op that takes the batch as axis 0 of all arguments.

    Its attributes `axes` count axes, and are shifted by one.
    """

    def aligned_batch(args: Sequence[Value], batched: Sequence[bool], **attrs: Any) -> Any:
        for name in axes:
            numbers = attrs[name]
            attrs[name] = later(numbers) if isinstance(numbers, tuple) else later((numbers,))[0]
        return op(*align(args, batched), **attrs)

    return aligned_batch


def align(args: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
    """Give every argument the batch axis 0, the unbatched ones by broadcasting."""
    return spread_those(args, batched, batch_size(args, batched))


def spread_those(
    xs: Sequence[Value], batched: Sequence[bool], size: Size, wanted: Sequence[bool] | None = None
) -> list[Value]:
    """Values with the batch as axis 0; some as they are, if not all are `wanted`."""
    wanted = [True] * len(xs) if wanted is None else wanted
    return [
        spread(x, size) if is_wanted and not is_there else x
        for x, is_there, is_wanted in zip(xs, batched, wanted, strict=True)
    ]


def batch_size(args: Sequence[Value], batched: Sequence[bool]) -> Size:
    """The size of axis 0 of the first batched argument."""
    return next(a.shape[0] for a, is_batched in zip(args, batched, strict=True) if is_batched)


def spread(x: Value, size: Size) -> Value:
    """Repeat a value along a new axis 0."""
    axes = tuple(range(1, x.rank + 1))
    return OPS["broadcast"](x, shape=(size, *x.shape), axes=axes)


def later(axes: Sequence[int]) -> tuple[int, ...]:
    """The same axes behind a new axis 0; one counted from the end stays what it is."""
    return tuple(i + 1 if i >= 0 else i for i in axes)
