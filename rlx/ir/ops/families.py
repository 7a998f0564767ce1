"""Families of ops: what every member would say in the same words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..body import Pointwise
from ..errors import AxisError, DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, Op, is_linear
from ..types import Type, is_bool, is_complex, is_float, is_integer

KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": is_bool,
    "integer": is_integer,
    "float": is_float,
    "complex": is_complex,
}
ORDERED = ("integer", "float")
NUMBERS = (*ORDERED, "complex")


def check_same(*types: Type) -> Type:
    """Give the first type if all are equal, else raise an error.

    The error says how to make them so.
    """
    first = types[0]
    for other in types[1:]:
        if other.shape != first.shape:
            raise ShapeError(
                f"the shapes differ, {first} and {other}",
                fix="broadcast them to one shape first, as rlx.numpy does by itself",
            )
        check_dtypes(first, other)
    return first


def check_dtypes(x: Type, other: Type, which: str = "one: x") -> None:
    """Raise unless the dtypes are equal; `which` tells what to convert."""
    if other.dtype != x.dtype:
        raise DtypeError(
            f"the dtypes differ, {x} and {other}",
            fix=f"convert {which}.astype({x.dtype.name!r})",
        )


def check_axis(x: Type, axis: int) -> None:
    """Raise an `AxisError` unless the axis is one of x."""
    if not 0 <= axis < x.rank:
        raise AxisError(f"axis {axis} is outside {x}", fix=f"pick an axis from 0 to {x.rank - 1}")


def check_integers(name: str, x: Type) -> None:
    """Raise unless the operand of this name holds integers."""
    if not is_integer(x.dtype):
        raise DtypeError(f"the {name} are {x}", fix=f"convert them: {name}.astype('int32')")


def check_kind(x: Type, kinds: Sequence[str]) -> None:
    """Raise a `DtypeError` unless the dtype is of one of the kinds."""
    if not any(KINDS[kind](x.dtype) for kind in kinds):
        raise DtypeError(
            f"there is no meaning for {x.dtype.name}",
            fix=f"convert the operand to a {' or '.join(kinds)} dtype with x.astype(...)",
        )


def pointwise(
    name: str,
    reference: Callable[..., Any],
    instruction: str,
    *,
    doc: str,
    operands: Sequence[str] = ("x",),
    kinds: Sequence[str] = ("float", "complex"),
    result: str | None = None,
    jvp: Any = None,
    transpose: Any = None,
    nondifferentiable: str | None = None,
    samples: Sequence[dict[str, Any]] = (),
) -> Op:
    """Make a pointwise op.

    Type rule, body, batching and default samples come from here. `kinds` are the operand dtypes it
    accepts, `result` the result's dtype if it is not theirs. Each of `samples` is the keywords of
    `Op.samples` with the positional ones under "args".
    """

    def type_rule(*types: Type) -> Type:
        x = check_same(*types)
        check_kind(x, kinds)
        return x if result is None else x.with_dtype(result)

    made = Op(name, type_rule, doc, operands)
    made.reference(reference)
    made.body(Pointwise(instruction))
    if jvp is not None:
        made.jvp(jvp)
    if transpose is not None:
        made.transpose(transpose)
    if nondifferentiable is not None:
        made.nondifferentiable(nondifferentiable)
    made.batch(ALIGNED)
    attach_samples(made, samples or [dict(args=[(2, 3)] * len(operands))])
    return made


def attach_samples(op: Op, samples: Sequence[dict[str, Any]]) -> None:
    """Attach samples: keywords of `Op.samples`, the positional ones in "args"."""
    for sample in samples:
        op.samples(*sample["args"], **{name: x for name, x in sample.items() if name != "args"})


def linear_in_each(*rules: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Make a transpose rule from one rule for each argument that may be linear."""

    def transpose_each(ct: Value, *args: Any, **attrs: Any) -> list[Any]:
        return [
            rule(ct, *args, **attrs) if is_linear(arg) else None
            for rule, arg in zip(rules, args, strict=True)
        ]

    return transpose_each
