"""Primitives that call Python functions while a program runs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...trace.callback import debug_callback, io_callback, pure_callback
from ...trace.make_graph import spec
from ..replay import rule


def _on_arrays(equation: Any) -> Any:
    """JAX's function, on NumPy arrays and giving such."""
    callback = equation.params["callback"]

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        found = callback(*map(jax.numpy.asarray, arrays))
        return [np.asarray(x) for x in jax.tree_util.tree_leaves(found)]

    return call


def _specs(equation: Any) -> list[Any]:
    avals = equation.params["result_avals"]
    return [spec(a.shape, np.dtype(a.dtype)) for a in avals]


METHODS = {"expand_dims": "expand_dims", "broadcast_all": "broadcast_all"}


@rule("pure_callback")
def pure_callback_rule(equation: Any, *operands: Any) -> Any:
    method = METHODS.get(str(equation.params["vmap_method"]), "sequential")
    return pure_callback(_on_arrays(equation), _specs(equation), *operands, vmap_method=method)


@rule("io_callback")
def io_callback_rule(equation: Any, *operands: Any) -> Any:
    return io_callback(_on_arrays(equation), _specs(equation), *operands)


@rule("debug_callback")
def debug_callback_rule(equation: Any, *operands: Any) -> Any:
    debug_callback(_on_arrays(equation), *operands)
    return []


@rule("debug_print")
def debug_print_rule(equation: Any, *operands: Any) -> Any:
    """Print as JAX does: its own code does it, on the numbers."""

    def show(*arrays: np.ndarray) -> None:
        equation.primitive.bind(*map(jax.numpy.asarray, arrays), **equation.params)

    debug_callback(show, *operands)
    return []
