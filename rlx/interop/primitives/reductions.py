"""Primitives that reduce, accumulate, sort, multiply and convolve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from ... import lax
from ...ir.errors import UnknownPrimitive
from ...trace.apply import apply, as_tensor
from ...transforms.forward import jvp
from ...transforms.grad import vjp
from ...transforms.vmap import vmap
from ..replay import replay, rule, same

# -- along axes ---------------------------------------------------------------------------------


OF_BOOLS = {"reduce_max": lax.reduce_or, "reduce_min": lax.reduce_and}


@rule(*(f"reduce_{word}" for word in ("sum", "prod", "max", "min", "and", "or", "xor")))
def reduction_rule(equation: Any, x: Any) -> Any:
    name = equation.primitive.name
    of_bools = OF_BOOLS.get(name) if as_tensor(x).dtype.kind == "b" else None
    return (of_bools or getattr(lax, name))(x, equation.params["axes"])


@rule("psum", "pmax", "pmin")
def collective_rule(equation: Any, *xs: Any) -> Any:
    """What vmap of JAX has made a reduction along axes."""
    name, axes = equation.primitive.name, equation.params["axes"]
    if not all(isinstance(axis, int) for axis in axes):
        raise UnknownPrimitive(
            f"`{name}` over {axes} needs a mesh of JAX",
            fix="call it in a function under jax.vmap with this axis_name",
        )
    found = [getattr(lax, f"reduce_{name[1:]}")(x, axes) for x in xs]
    return found if equation.primitive.multiple_results else found[0]


@rule("argmax", "argmin")
def place_rule(equation: Any, x: Any) -> Any:
    (axis,) = equation.params["axes"]
    find = getattr(lax, equation.primitive.name)
    return find(x, axis, np.dtype(equation.params["index_dtype"]))


RUNNING = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
same({name: (getattr(lax, name), "axis", "reverse") for name in RUNNING})
same({"fft": (lax.fft, "fft_type", "fft_lengths"), "top_k": (lax.top_k, "k", "axis=")})


@rule("reduce")
def reduce_rule(equation: Any, *operands: Any) -> Any:
    params, count = equation.params, len(operands) // 2
    combine, axes = of_numbers(params["jaxpr"]), params["dimensions"]
    if count == 1:
        x, start = operands
        return [lax.reduce(x, start, lambda x, y: combine(x, y)[0], axes)]
    xs, starts = list(operands[:count]), list(operands[count:])
    return lax.reduce(xs, starts, lambda xs, ys: combine(*xs, *ys), axes)


def of_numbers(closed: Any) -> Callable[..., list[Any]]:
    """A jaxpr of single numbers as a function of arrays, number by number."""

    def on_arrays(*arrays: Any) -> list[Any]:
        shape = as_tensor(arrays[0]).shape
        if not shape:
            return replay(closed, arrays)
        flat = [lax.reshape(x, (-1,)) for x in arrays]
        found = vmap(lambda *numbers: list(map(as_tensor, replay(closed, numbers))))(*flat)
        return [lax.reshape(x, shape) for x in found]

    return on_arrays


@rule("sort")
def sort_rule(equation: Any, *xs: Any) -> Any:
    params = equation.params
    return lax.sort(xs, params["dimension"], params["is_stable"], params["num_keys"])


@rule("approx_top_k")
def approx_top_k_rule(equation: Any, x: Any) -> Any:
    params = equation.params
    find = lax.approx_max_k if params["is_max_k"] else lax.approx_min_k
    return find(x, params["k"], params["reduction_dimension"])


# -- windows ------------------------------------------------------------------------------------


def _windows(params: dict[str, Any], rank: int) -> tuple[Any, ...]:
    ones = (1,) * rank
    return (
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params.get("base_dilation") or ones,
        params.get("window_dilation") or ones,
    )


def _window_op(op: str, equation: Any) -> Callable[[Any], Any]:
    """The reduction of windows that an equation describes, as a function."""
    names = ("window", "strides", "padding", "base_dilation", "window_dilation")
    rank = len(equation.params["window_dimensions"])
    values = [tuple(v) for v in _windows(equation.params, rank)]
    attrs = dict(zip(names, values, strict=True))
    attrs["padding"] = tuple(map(tuple, attrs["padding"]))
    return lambda x: apply(op, as_tensor(x), **attrs)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def whole_windows_rule(equation: Any, x: Any) -> Any:
    return _window_op(equation.primitive.name, equation)(x)


@rule("reduce_window")
def reduce_window_rule(equation: Any, x: Any, start: Any) -> Any:
    params = equation.params
    inner = of_numbers(ClosedJaxpr(params["jaxpr"], params["consts"]))
    window, strides, padding, spread, dilation = _windows(params, as_tensor(x).ndim)

    def combine(x: Any, y: Any) -> Any:
        return inner(x, y)[0]

    made = lax.reduce_window(x, start, combine, window, strides, padding, spread, dilation)
    return [made]


CHOSEN = {"ge": "reduce_window_max", "le": "reduce_window_min"}


@rule("select_and_scatter_add")
def select_and_scatter_add_rule(equation: Any, source: Any, x: Any) -> Any:
    """Each number of `source` where its window's greatest or least one is in x."""
    op = CHOSEN[equation.params["select_prim"].name]
    return vjp(_window_op(op, equation), x)[1](source)[0]


@rule("select_and_gather_add")
def select_and_gather_add_rule(equation: Any, tangents: Any, x: Any) -> Any:
    """The tangent from the place of each window's greatest (or least) number in x."""
    op = CHOSEN[equation.params["select_prim"].name]
    return jvp(_window_op(op, equation), (x,), (tangents,))[1]


# -- products -----------------------------------------------------------------------------------


def _result_dtype(params: dict[str, Any]) -> Any:
    dtype = params["preferred_element_type"]
    return None if dtype is None else np.dtype(dtype)


@rule("dot_general")
def dot_general_rule(equation: Any, x: Any, y: Any) -> Any:
    params = equation.params
    wanted = _result_dtype(params)
    x, y = _one_dtype(as_tensor(x), as_tensor(y), wanted)
    numbers = params["dimension_numbers"]
    if x.dtype.kind != "b":
        return lax.dot_general(x, y, numbers, preferred_element_type=wanted)
    x, y = (lax.convert_element_type(each, "int32") for each in (x, y))
    return lax.ne(lax.dot_general(x, y, numbers), 0)  # whether both hold anywhere


def _one_dtype(x: Any, y: Any, wanted: Any) -> tuple[Any, Any]:
    """JAX multiplies operands of two dtypes in that of the result."""
    if x.dtype == y.dtype:
        return x, y
    return lax.convert_element_type(x, wanted), lax.convert_element_type(y, wanted)


@rule("ragged_dot_general")
def ragged_dot_rule(equation: Any, x: Any, y: Any, sizes: Any) -> Any:
    return lax.ragged_dot(x, y, sizes, preferred_element_type=_result_dtype(equation.params))


@rule("conv_general_dilated")
def convolution_rule(equation: Any, x: Any, kernel: Any) -> Any:
    params = equation.params
    numbers = params["dimension_numbers"]
    specs = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    return lax.conv_general_dilated(
        x,
        kernel,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        lax.ConvDimensionNumbers(*map(tuple, specs)),
        params["feature_group_count"],
        params["batch_group_count"],
        preferred_element_type=_result_dtype(params),
    )
