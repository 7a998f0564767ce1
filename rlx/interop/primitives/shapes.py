"""Primitives that move elements or change shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...trace.apply import as_tensor
from ...trace.tensor import TracedTensor
from ..replay import made, rule


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
