"""Functions with derivatives of their own: custom_jvp and custom_vjp.

JAX itself is asked for the derivative of such an equation, by `jax.jvp` or `jax.vjp` of a function
that does nothing else. What it answers is recorded and replayed when rlx asks for the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...trace.apply import as_tensor
from ...transforms import custom_jvp, custom_vjp
from ..jaxprs import moves, record, spec_of
from ..replay import replay, rule


def _in_jax(equation: Any) -> Callable[..., list[Any]]:
    """An equation as a function of JAX arrays."""

    def call(*operands: Any) -> list[Any]:
        params = equation.primitive.get_bind_params(equation.params)
        return equation.primitive.bind(*operands, **params)

    return call


def _with_moving(call: Callable[..., Any], given: Sequence[Any], moving: Sequence[int]) -> Any:
    """A function of the operands that move; the others are as given."""

    def of_moving(*xs: Any) -> Any:
        operands = list(given)
        for i, x in zip(moving, xs, strict=True):
            operands[i] = x
        return call(*operands)

    return of_moving


def _moving(atoms: Sequence[Any]) -> list[int]:
    return [i for i, atom in enumerate(atoms) if moves(atom.aval)]


def _pick(xs: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [xs[i] for i in places]


def _placed(found: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """What was found for some places, and None, which is zero, for the others."""
    table = dict(zip(places, found, strict=True))
    return [table.get(i) for i in range(count)]


@rule("custom_jvp_call", knows_keys=True)
def custom_jvp_rule(equation: Any, *operands: Any) -> Any:
    inner, call = equation.params["call_jaxpr"], _in_jax(equation)
    moving, results = _moving(equation.invars), _moving(equation.outvars)
    specs = [spec_of(atom.aval) for atom in equation.invars]

    def push(*given: Any) -> Any:
        primals, tangents = given[: len(specs)], given[len(specs) :]
        of_moving = _with_moving(call, primals, moving)
        values, slopes = jax.jvp(of_moving, tuple(_pick(primals, moving)), tangents)
        return values, _pick(slopes, results)

    @custom_jvp
    def function(*xs: Any) -> list[Any]:
        return list(map(as_tensor, replay(inner, xs)))

    @function.defjvp
    def function_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        recorded = record(push, [*specs, *_pick(specs, moving)])
        found = replay(recorded.closed, [*primals, *_pick(tangents, moving)])
        count = len(equation.outvars)
        return found[:count], _placed(found[count:], results, count)

    function.__name__ = equation.params["call_jaxpr"].jaxpr.debug_info.func_name
    return function(*operands)


@rule("custom_vjp_call", knows_keys=True)
def custom_vjp_rule(equation: Any, *operands: Any) -> Any:
    inner, call = equation.params["call_jaxpr"], _in_jax(equation)
    moving, results = _moving(equation.invars), _moving(equation.outvars)
    specs = [spec_of(atom.aval) for atom in equation.invars]

    def with_pull(*given: Any) -> Any:
        values, pull = jax.vjp(_with_moving(call, given, moving), *_pick(given, moving))
        return _pick(values, results), pull

    recorded: list[Any] = []  # with the structure of JAX's residuals, known from `forward` on

    @custom_vjp
    def function(*xs: Any) -> list[Any]:
        return list(map(as_tensor, replay(inner, xs)))

    def forward(*xs: Any) -> Any:
        recorded[:] = [record(with_pull, specs)]
        found = replay(recorded[0].closed, xs)
        return function(*xs), found[len(results) :]

    def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> Any:
        made = recorded[0]
        atoms = made.closed.jaxpr.outvars[len(results) :]

        def pulled(*given: Any) -> Any:
            blanks = [None] * len(results)
            _, pull = jax.tree_util.tree_unflatten(made.out_tree, [*blanks, *given[: len(atoms)]])
            return pull(_whole(given[len(atoms) :], equation, results))

        outs = [spec_of(equation.outvars[i].aval) for i in results]
        back = record(pulled, [*(spec_of(atom.aval) for atom in atoms), *outs])
        found = replay(back.closed, [*residuals, *_pick(cts, results)])
        return tuple(_placed(found, moving, len(specs)))

    function.defvjp(forward, backward)
    function.__name__ = inner.jaxpr.debug_info.func_name
    return function(*operands)


def _whole(cts: Sequence[Any], equation: Any, results: Sequence[int]) -> list[Any]:
    """Cotangents of all results; those of integers say nothing."""
    table = dict(zip(results, cts, strict=True))
    avals = [atom.aval for atom in equation.outvars]
    return [
        table[i] if i in table else jax.numpy.zeros(a.shape, jax.dtypes.float0)
        for i, a in enumerate(avals)
    ]
