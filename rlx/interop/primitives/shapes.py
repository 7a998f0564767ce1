"""Primitives that move elements, change shapes, read and write at places."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from ... import lax, numpy as rnp
from ...trace.apply import as_tensor
from ...trace.tensor import TracedTensor
from ..replay import made, rule, same
from .reductions import of_numbers

same(
    {
        "expand_dims": (lax.expand_dims, "dimensions"),
        "pad": (lax.pad, "padding_config"),
        "reshape": (lax.reshape, "new_sizes", "dimensions"),
        "rev": (lax.rev, "dimensions"),
        "slice": (lax.slice, "start_indices", "limit_indices", "strides"),
        "split": (lax.split, "sizes", "axis"),
        "squeeze": (lax.squeeze, "dimensions"),
        "tile": (lax.tile, "reps"),
        "transpose": (lax.transpose, "permutation"),
        "unstack": (lax.unstack, "axis"),
    }
)


@rule("broadcast_in_dim")
def broadcast_rule(equation: Any, x: Any, *sizes: Any) -> Any:
    params, x = equation.params, as_tensor(x)
    if x.shape or isinstance(x, TracedTensor):
        return lax.broadcast_in_dim(x, params["shape"], params["broadcast_dimensions"])
    value = np.asarray(x.host()).item()  # nothing large is made now
    return made("full", shape=params["shape"], value=value, dtype=x.dtype)


@rule("concatenate")
def concatenate_rule(equation: Any, *xs: Any) -> Any:
    return lax.concatenate(xs, equation.params["dimension"])


@rule("stack")
def stack_rule(equation: Any, *xs: Any) -> Any:
    return lax.stack(xs, equation.params["axis"])


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


def _numbers(kind: Any, params: dict[str, Any]) -> Any:
    """The axes that belong together: JAX's fields have the same names."""
    given = params["dimension_numbers"]
    return kind(*(getattr(given, name) for name in kind._fields))


@rule("gather")
def gather_rule(equation: Any, x: Any, starts: Any) -> Any:
    params = equation.params
    numbers = _numbers(lax.GatherDimensionNumbers, params)
    options = {"mode": _mode(params), "fill_value": params["fill_value"]}
    return lax.gather(x, starts, numbers, params["slice_sizes"], **options)


SCATTERS = {
    "scatter": lax.scatter,
    "scatter-add": lax.scatter_add,
    "scatter-sub": lax.scatter_sub,
    "scatter-mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min,
    "scatter-max": lax.scatter_max,
}


@rule(*SCATTERS)
def scatter_rule(equation: Any, x: Any, starts: Any, updates: Any) -> Any:
    """A scatter may apply a function to its places, as often as each is named."""
    name, params = equation.primitive.name, equation.params
    if name == "scatter" and params["update_jaxpr"] is not None:
        return _scatter_apply(equation, x, starts, updates)
    return _scattered(SCATTERS[name], params, x, starts, updates)


def _scattered(scatter: Any, params: dict[str, Any], x: Any, starts: Any, updates: Any) -> Any:
    numbers = _numbers(lax.ScatterDimensionNumbers, params)
    options = {"unique_indices": params["unique_indices"], "mode": _mode(params)}
    return scatter(x, starts, updates, numbers, **options)


def _scatter_apply(equation: Any, x: Any, starts: Any, updates: Any) -> Any:
    params = equation.params
    none, ones = (rnp.full_like(y, n, "int32") for y, n in ((x, 0), (updates, 1)))
    counted = _scattered(lax.scatter_add, params, none, starts, ones)
    inner = of_numbers(ClosedJaxpr(params["update_jaxpr"], params["update_consts"]))

    def applied(times: Any, x: Any) -> Any:
        return rnp.where(counted > times, inner(x, rnp.zeros_like(x))[0], x)

    if params["unique_indices"]:
        return applied(0, x)
    most = rnp.max(counted, initial=0)
    start = rnp.zeros((), "int32"), as_tensor(x)
    return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, applied(*c)), start)[1]
