"""The audit sees: each fault, put into a room, breaks the law that is there for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from audit import Case
from test_every_op import LAWS

from rlx.ir import ops
from rlx.ir.body import Gather, Pointwise, Read, Scan
from rlx.ir.graph import OPS
from rlx.ir.types import Type

Fault = tuple[str, str, Any, str]  # op, rule, what stands there instead, the law that breaks


def broken_laws(name: str) -> set[str]:
    """The laws that the samples of an op break."""
    broken = set()
    for sample in OPS[name].sample_list:
        for law in LAWS:
            try:
                law(Case(OPS[name], sample))
            except Exception:  # a fault may end in any error
                broken.add(law.__name__.removeprefix("law_"))
    return broken


def nothing_moved(args: Any, batched: Any, *, axes: tuple[int, ...]) -> Any:
    return ops.reduce_sum(args[0], axes=axes)


def one_too_far(index: Any, load: Any, types: Any, *, sizes: tuple[int, ...]) -> Read:
    sizes = tuple(zip(index, types[0].shape, sizes, strict=True))
    return Read(0, tuple(k + load(1 + i, (), 1, n - s) for i, (k, n, s) in enumerate(sizes)))


def wrong_axis(args: Any, batched: Any, **attrs: Any) -> Any:
    """The rule of dot_general, but for the place where the batch ends up."""
    result = _DOT_BATCH(args, batched, **attrs)
    return result if all(batched) else ops.flip(result, axes=(0,))


def leaky(primals: Any, tangents: Any, **attrs: Any) -> Any:
    """The jvp of softmax with a constant in it: right the first time, wrong the second."""
    out = ops.softmax(primals[0], **attrs)
    fixed, t = ops.stop_gradient(out), tangents[0]
    product = ops.reduce_sum(fixed * t, **attrs)
    kept = tuple(i for i in range(t.rank) if i not in attrs["axes"])
    return out, fixed * (t - ops.broadcast(product, shape=t.shape, axes=kept))


def rounds_each_time(x: np.ndarray, y: np.ndarray, **attrs: Any) -> np.ndarray:
    """A sum of halves whose running total is a half too."""
    if x.dtype != np.float16 or x.shape != (1, 512):
        return _DOT_REFERENCE(x, y, **attrs)
    return np.add.accumulate(x * y, axis=1)[:, -1:]


def no_house_error(x: Type, *, axis: int, reverse: bool = False) -> Type:
    x.shape[axis]
    return x


_DOT_REFERENCE = OPS["dot_general"].rules.reference
_DOT_BATCH = OPS["dot_general"].rules.batch
_SCATTER_TRANSPOSE = OPS["scatter"].rules.transpose
MISSING = object()

FAULTS: dict[str, Fault] = {
    "jvp of the wrong function": (
        "sin", "jvp", [lambda t, out, x: t * ops.sin(x)], "jvp_is_the_slope",
    ),
    "jvp that forgets an operand": (
        "mul", "jvp", [lambda t, out, x, y: t * y, None], "jvp_is_the_slope",
    ),
    "jvp right the first time only": (
        "softmax", "jvp", leaky, "second_derivatives_are_slopes",
    ),
    "transpose with the wrong sign": (
        "sub", "transpose", lambda ct, x, y: [ct, ct], "linear_arguments_have_a_transpose",
    ),
    "transpose that runs the wrong way": (
        "cumsum", "transpose",
        lambda ct, x, *, axis, reverse: [ops.cumsum(ct, axis=axis, reverse=reverse)],
        "transpose_is_adjoint",
    ),
    "transpose that sees no duplicates": (
        "scatter", "transpose",
        lambda *args, **attrs: _SCATTER_TRANSPOSE(*args, **{**attrs, "unique": True}),
        "transpose_is_adjoint",
    ),
    "batch that moves no axis": ("reduce_sum", "batch", nothing_moved, "batch_is_a_loop"),
    "batch with its members mixed up": (
        "dot_general", "batch", wrong_axis, "batch_is_a_loop",
    ),
    "type of the wrong shape": (
        "reduce_max", "type", lambda x, *, axes: x, "type_is_that_of_the_reference",
    ),
    "type that lets everything in": (
        "cumsum", "type", no_house_error, "wrong_arguments_are_refused",
    ),
    "type that fixes a symbolic size": (
        "abs", "type", lambda x: x.with_shape(tuple(3 for _ in x.shape)) if x.shape else x,
        "type_is_that_of_the_reference",
    ),
    "body with the wrong instruction": (
        "sub", "body", Pointwise("add"), "program_is_the_reference",
    ),
    "body with the wrong combination": (
        "cumprod", "body", Scan("add"), "program_is_the_reference",
    ),
    "body off by one": (
        "dynamic_slice", "body", Gather(one_too_far), "program_is_the_reference",
    ),
    "expansion that is another function": (
        "silu", "expand", lambda x: ops.logistic(x), "expansion_is_the_reference",
    ),
    "expansion that overflows": (
        "logsumexp", "expand",
        lambda x, *, axes: ops.log(ops.reduce_sum(ops.exp(x), axes=axes)),
        "expansion_is_the_reference",
    ),
    "fold that forgets NaN": (
        "sub", "fold",
        lambda x, y: ops.full(shape=x.shape, value=0, dtype=x.dtype) if x is y else None,
        "folding_keeps_the_meaning",
    ),
    "fold that swaps": (
        "select", "fold", lambda which, x, y: y if x is which else x if x is y else y,
        "folding_keeps_the_meaning",
    ),
    "reference that agrees with itself alone": (
        "cumsum", "reference", lambda x, *, axis, reverse: x, "sample_gives_what_it_expects",
    ),
    "reference that rounds too early": (
        "dot_general", "reference",
        rounds_each_time,
        "short_dtypes_are_near_the_long_one",
    ),
    "rule that is missing": ("sin", "batch", MISSING, "room_is_complete"),
    "reason that is missing": ("floor", "nondifferentiable", MISSING, "room_is_complete"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, rule, given, law = FAULTS[fault]
    op = OPS[name]
    if rule == "type":
        monkeypatch.setattr(op, "type_rule", given)
    elif given is MISSING:
        monkeypatch.setattr(op.rules, rule, None)
    else:
        monkeypatch.setattr(op.rules, rule, given)
    assert law in broken_laws(name)


@pytest.mark.parametrize("name", sorted({fault[0] for fault in FAULTS.values()}))
def test_without_a_fault_nothing_is_seen(name: str) -> None:
    assert broken_laws(name) == set()
