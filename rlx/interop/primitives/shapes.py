"""Primitives that move elements, change shapes, read and write at places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from ... import lax
from ... import numpy as rnp
from ...trace.apply import as_tensor
from ...trace.tensor import TracedTensor
from ..replay import RULES, made, rule
from .reductions import of_numbers


@rule("broadcast_in_dim")
def broadcast_rule(equation: Any, x: Any, *sizes: Any) -> Any:
    params, x = equation.params, as_tensor(x)
    if x.shape or isinstance(x, TracedTensor):
        return lax.broadcast_in_dim(x, params["shape"], params["broadcast_dimensions"])
    value = np.asarray(x.host()).item()  # nothing large is made now
    return made("full", shape=params["shape"], value=value, dtype=x.dtype)


@rule("reshape")
def reshape_rule(equation: Any, x: Any, *sizes: Any) -> Any:
    return lax.reshape(x, equation.params["new_sizes"], equation.params["dimensions"])


@rule("squeeze")
def squeeze_rule(equation: Any, x: Any) -> Any:
    return lax.squeeze(x, equation.params["dimensions"])


@rule("expand_dims")
def expand_dims_rule(equation: Any, x: Any) -> Any:
    return lax.expand_dims(x, equation.params["dimensions"])


@rule("transpose")
def transpose_rule(equation: Any, x: Any) -> Any:
    return lax.transpose(x, equation.params["permutation"])


@rule("rev")
def rev_rule(equation: Any, x: Any) -> Any:
    return lax.rev(x, equation.params["dimensions"])


@rule("concatenate")
def concatenate_rule(equation: Any, *xs: Any) -> Any:
    return lax.concatenate(xs, equation.params["dimension"])


@rule("stack")
def stack_rule(equation: Any, *xs: Any) -> Any:
    return lax.stack(xs, equation.params["axis"])


@rule("unstack")
def unstack_rule(equation: Any, x: Any) -> Any:
    return lax.unstack(x, equation.params["axis"])


@rule("split")
def split_rule(equation: Any, x: Any) -> Any:
    return lax.split(x, equation.params["sizes"], equation.params["axis"])


@rule("tile")
def tile_rule(equation: Any, x: Any) -> Any:
    return lax.tile(x, equation.params["reps"])


@rule("pad")
def pad_rule(equation: Any, x: Any, value: Any) -> Any:
    return lax.pad(x, value, equation.params["padding_config"])


@rule("slice")
def slice_rule(equation: Any, x: Any) -> Any:
    params = equation.params
    return lax.slice(x, params["start_indices"], params["limit_indices"], params["strides"])


# -- primitives that read and write at computed places ---------------------------------------------


@rule("dynamic_slice")
def dynamic_slice_rule(equation: Any, x: Any, *starts: Any) -> Any:
    sizes = equation.params["slice_sizes"]
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


@rule("dynamic_update_slice")
def dynamic_update_slice_rule(equation: Any, x: Any, update: Any, *starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def _mode(params: dict[str, Any]) -> lax.GatherScatterMode:
    return lax.GatherScatterMode[params["mode"].name]


@rule("gather")
def gather_rule(equation: Any, x: Any, starts: Any) -> Any:
    params = equation.params
    numbers = params["dimension_numbers"]
    return lax.gather(
        x,
        starts,
        lax.GatherDimensionNumbers(
            numbers.offset_dims,
            numbers.collapsed_slice_dims,
            numbers.start_index_map,
            numbers.operand_batching_dims,
            numbers.start_indices_batching_dims,
        ),
        params["slice_sizes"],
        mode=_mode(params),
        fill_value=params["fill_value"],
    )


def _scatter(name: str, function: Callable[..., Any]) -> None:
    @rule(name)
    def scatter_rule(equation: Any, x: Any, starts: Any, updates: Any) -> Any:
        params = equation.params
        numbers = params["dimension_numbers"]
        return function(
            x,
            starts,
            updates,
            lax.ScatterDimensionNumbers(
                numbers.update_window_dims,
                numbers.inserted_window_dims,
                numbers.scatter_dims_to_operand_dims,
                numbers.operand_batching_dims,
                numbers.scatter_indices_batching_dims,
            ),
            unique_indices=params["unique_indices"],
            mode=_mode(params),
        )


_scatter("scatter", lax.scatter)
_scatter("scatter-add", lax.scatter_add)
_scatter("scatter-sub", lax.scatter_sub)
_scatter("scatter-mul", lax.scatter_mul)
_scatter("scatter-min", lax.scatter_min)
_scatter("scatter-max", lax.scatter_max)


plain_scatter = RULES["scatter"]


@rule("scatter")
def scatter_apply_rule(equation: Any, x: Any, starts: Any, updates: Any) -> Any:
    """A scatter may apply a function to its places, as often as each is named."""
    params = equation.params
    if params["update_jaxpr"] is None:
        return plain_scatter(equation, x, starts, updates)
    none, ones = (rnp.full_like(y, n, "int32") for y, n in ((x, 0), (updates, 1)))
    counted = RULES["scatter-add"](equation, none, starts, ones)
    inner = of_numbers(ClosedJaxpr(params["update_jaxpr"], params["update_consts"]))

    def applied(times: Any, x: Any) -> Any:
        return rnp.where(counted > times, inner(x, rnp.zeros_like(x))[0], x)

    if params["unique_indices"]:
        return applied(0, x)
    most = rnp.max(counted, initial=0)
    start = rnp.zeros((), "int32"), as_tensor(x)
    return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, applied(*c)), start)[1]
