"""Primitives that hold functions: calls, choices, loops, solvers, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from ... import lax, numpy as rnp
from ...ir.builder import current
from ...trace.apply import as_tensor, to_value
from ...trace.array import Array
from ...trace.callback import debug_callback, io_callback, pure_callback
from ...trace.make_graph import spec
from ...trace.tensor import TracedTensor
from ...transforms import checkpoint_policies
from ...transforms.ad_checkpoint import checkpoint, checkpoint_name
from ..replay import replay, rule

CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call", "callee")  # what calls call it


def closed(jaxpr: Any) -> Any:
    """A jaxpr together with its constants, of which it may have none."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


CALLS = """
    jit pjit closed_call core_call call composite custom_vmap_call eval_jaxpr linear_call remat_opt
"""


@rule(*CALLS.split(), knows_keys=True)
def call_rule(equation: Any, *operands: Any) -> Any:
    """What is called is recorded in its place; rlx compiles all of it as one."""
    params = equation.params
    inner = next(params[name] for name in CALLED if name in params)
    return replay(closed(inner), operands)


@rule("remat2", "checkpoint", knows_keys=True)
def checkpoint_rule(equation: Any, *operands: Any) -> Any:
    params = equation.params
    inner = closed(params["jaxpr"])
    policy = getattr(params["policy"], "__name__", "")
    kept = getattr(checkpoint_policies, policy, None) if policy.endswith("saveable") else None
    again = checkpoint(
        lambda *xs: replay(inner, xs), policy=kept, prevent_cse=bool(params["prevent_cse"])
    )
    return again(*operands)


@rule("name", knows_keys=True)
def name_rule(equation: Any, x: Any) -> Any:
    return checkpoint_name(x, equation.params["name"])


# -- control flow -------------------------------------------------------------------------------


def lifted(operands: Sequence[Any]) -> list[Any]:
    """Operands as values of the graph under construction, to record a loop there."""
    if current() is None:
        return list(operands)
    return [x if isinstance(x, TracedTensor) else TracedTensor(to_value(x)) for x in operands]


def _as_function(inner: Any) -> Callable[..., list[Any]]:
    return lambda *xs: list(map(as_tensor, replay(inner, xs)))


@rule("cond", knows_keys=True)
def cond_rule(equation: Any, index: Any, *operands: Any) -> Any:
    branches = [_as_function(branch) for branch in equation.params["branches"]]
    return lax.switch(lax.convert_element_type(index, "int32"), branches, *operands)


@rule("platform_index")
def platform_rule(equation: Any) -> Any:
    """The branch for the CPU, whose meaning is that of all, or the default."""
    places = equation.params["platforms"]
    named = [i for i, names in enumerate(places) if names is not None and "cpu" in names]
    others = [i for i, names in enumerate(places) if names is None]
    return Array(np.array([*named, *others, 0][0], np.int32))


@rule("while", knows_keys=True)
def while_rule(equation: Any, *operands: Any) -> Any:
    params = equation.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    tested, stepped = operands[:first], operands[first:second]

    def holds(carry: list[Any]) -> Any:
        return as_tensor(replay(params["cond_jaxpr"], [*tested, *carry])[0])

    def test(carry: list[Any]) -> Any:
        found = holds(carry)
        return found.any() if found.ndim else found

    def body(carry: list[Any]) -> list[Any]:
        after = list(map(as_tensor, replay(params["body_jaxpr"], [*stepped, *carry])))
        if not params["cond_jaxpr"].out_avals[0].shape:
            return after
        goes_on = holds(carry)
        return [_where_on(goes_on, x, y) for x, y in zip(after, carry, strict=True)]

    return lax.while_loop(test, body, lifted(operands[second:]))


def _where_on(goes_on: Any, after: Any, before: Any) -> Any:
    """Members of a batch that go on, and those that are done."""
    return rnp.where(
        goes_on.reshape(goes_on.shape + (1,) * (after.ndim - goes_on.ndim)), after, before
    )


@rule("scan", knows_keys=True)
def scan_rule(equation: Any, *operands: Any) -> Any:
    params = equation.params
    first = params["num_consts"]
    second = first + params["num_carry"]
    constants = operands[:first]

    def body(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        found = replay(params["jaxpr"], [*constants, *carry, *row])
        return found[: params["num_carry"]], found[params["num_carry"] :]

    carry, stacked = lax.scan(
        body,
        lifted(operands[first:second]),
        lifted(operands[second:]),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carry, *stacked]


@rule("custom_linear_solve")
def linear_solve_rule(equation: Any, *operands: Any) -> Any:
    lengths, inner = equation.params["const_lengths"], equation.params["jaxprs"]
    parts, start = [], 0
    for count in lengths:
        parts.append(operands[start : start + count])
        start += count
    product, _, solve, transpose_solve = (
        None if jaxpr is None else lambda x, jaxpr=jaxpr, part=part: replay(jaxpr, [*part, *x])
        for jaxpr, part in zip(inner, parts, strict=True)
    )
    assert product is not None
    assert solve is not None
    b = [as_tensor(x) for x in operands[start:]]
    back = None if transpose_solve is None else lambda _, y: transpose_solve(y)[: len(b)]
    count = len(b)
    if len(equation.outvars) == count:
        return lax.custom_linear_solve(product, b, lambda _, y: solve(y), back)

    def with_extra(_: Any, y: Any) -> Any:
        found = solve(y)
        return found[:count], found[count:]

    pair = back and (lambda f, y: (back(f, y), []))
    x, extra = lax.custom_linear_solve(product, b, with_extra, pair, has_aux=True)
    return [*x, *extra]


# -- primitives that call Python functions while a program runs ------------------------------------


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
