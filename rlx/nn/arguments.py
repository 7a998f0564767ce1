"""What arguments of layers mean: sizes of axes, paddings, lengths, initializers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import lax, numpy as rnp
from ..ir.errors import ArgumentError, BoundsError, ShapeError
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, flag
from ..trace.axes import integer
from ..trace.index.items import check_ends
from .initializers import Initializer

Numbers = int | Sequence[int]
Pads = str | int | Sequence[int | Sequence[int]]


# -- sizes and paddings of axes --------------------------------------------------------------------


def numbers(what: str, given: Numbers, count: int | None = None) -> tuple[int, ...]:
    """Positive integers, one for each axis.

    A single one is meant for all `count` axes.
    """
    many = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = tuple(integer(what, n) for n in many)
    found = found * (count or 1) if not isinstance(given, Sequence) else found
    if min(found, default=1) < 1 or (count is not None and len(found) != count):
        raise ArgumentError(
            f"{what} is {given}, not a positive integer for each of {count or 'some'} axes",
            fix="give an integer of 1 or more, or one for each axis",
        )
    return found


def pads_of(name: str, padding: Pads, count: int) -> str | tuple[tuple[int, int], ...]:
    """Padding by its name, or (before, after) for each axis."""
    if isinstance(padding, str):
        lax.padtype_to_pads((), (), (), padding)  # raises if it has no meaning
        return padding.upper()
    each = padding if isinstance(padding, Sequence) else [padding] * count
    pairs = [tuple(p) if isinstance(p, Sequence) else (p, p) for p in each]
    if len(pairs) != count or any(len(p) != 2 for p in pairs):
        raise ArgumentError(
            f"{name}: the padding is {padding}, not one or two integers for each of {count} axes",
            fix='give "SAME", "VALID", an integer, or (before, after) for each axis',
        )
    what = f"{name}: a padding"
    return tuple((integer(what, low), integer(what, high)) for low, high in pairs)


def as_given(given: Numbers) -> int | tuple[int, ...]:
    """A number as one, several as a tuple."""
    return tuple(given) if isinstance(given, Sequence) else given


def check_one_axis(name: str, what: str, given: Any, x: Any) -> None:
    """Raise for a single number, which is for 1 axis, where there may be more.

    That is an array with more axes than a batch, a length and features.
    """
    if isinstance(given, Sequence) or x.ndim <= 3:
        return
    many = ", ".join([str(given)] * (x.ndim - 2))
    raise ShapeError(
        f"{name}: {what} is {given}, a number for 1 axis, and the input is {x.type}",
        fix=f"write ({many}) for {x.ndim - 2} axes, as of images,\n"
        f"or ({given},) for 1 axis and batches of {x.ndim - 2}",
    )


def with_one_batch_axis(name: str, x: Any, count: int) -> tuple[Any, tuple[Any, ...]]:
    """The array with all axes of batches as one, and those axes' sizes."""
    if x.ndim < count + 1:
        raise ShapeError(
            f"{name}: the input is {x.type}, which has not {count} axes and features",
            fix=f"give an array of {count + 1} axes or more, features last",
        )
    batch = x.shape[: x.ndim - count - 1]
    rest = x.shape[len(batch) :]
    return rnp.reshape(x, (math.prod(batch), *rest)), batch


def check_features(name: str, x: Any, wanted: int, count: int) -> None:
    """Raise unless the last axis has the features that a layer takes."""
    if x.ndim < count + 1 or x.shape[-1] == wanted:
        return
    place = x.ndim - count - 1
    fix = f"give an array whose last axis is {wanted} long"
    if x.shape[place] == wanted:
        order = (*range(place), *range(place + 1, x.ndim), place)
        fix = f"channels come last here: x.transpose({', '.join(map(str, order))})"
    raise ShapeError(
        f"{name}: the layer takes {wanted} features, the input {x.type} has {x.shape[-1]}",
        fix=fix,
    )


def lengths_of(what: str, given: Any, shape: tuple[Any, ...], most: Any) -> Any:
    """Lengths of sequences, from 0 to `most`: integers of a shape.

    Others are a `BoundsError` where they are known.
    """
    lengths = as_tensor(given)
    if lengths.shape != shape or lengths.dtype.kind not in "iu":
        raise ShapeError(f"{what} is {lengths.type}", fix=f"give integers of the shape {shape}")
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, most: Any = most) -> None:
        if low < 0 or high > most:
            raise BoundsError(
                f"{what}: {int(low if low < 0 else high)} is no length",
                where=where,
                fix=f"use lengths from 0 to {int(most)}",
            )

    check_ends(lengths, most, Rule(look, (what, where, most)))
    return lengths


# -- parameters ------------------------------------------------------------------------------------


def drawn(
    name: str, given: Any, default: Initializer, key: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    """A parameter by the initializer that was given, or by the default one."""
    what = f"{name}: the initializer"
    made = (default if given is None else callable_of(what, given))(key, shape, dtype)
    found = getattr(made, "shape", None)
    if found != shape:
        raise ShapeError(
            f"{what} gave {type(made).__name__} of shape {found}, not one of {shape}",
            fix="give one of nn.initializers, or a function of (key, shape, dtype) like them",
        )
    return made


def bias_of(name: str, use_bias: Any, size: int, dtype: Any) -> Any:
    """Zeros, or None without a bias."""
    return rnp.zeros((size,), dtype) if flag(f"{name}: use_bias", use_bias) else None


def scale_of(name: str, use_scale: Any, size: int, dtype: Any) -> Any:
    """Ones, or None without a scale."""
    return rnp.ones((size,), dtype) if flag(f"{name}: use_scale", use_scale) else None


# -- keys ------------------------------------------------------------------------------------------


def call_layer(layer: Any, *args: Any, **keywords: Any) -> Any:
    """What a layer gives; a key is only for one that takes it."""
    if "key" in keywords and not _takes_key(type(layer)):
        del keywords["key"]
    return layer(*args, **keywords)


@lru_cache(1024)
def _takes_key(cls: type) -> bool:
    """Whether the modules of a class are called with a key."""
    parameters = inspect.signature(cls.__call__).parameters
    return "key" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
