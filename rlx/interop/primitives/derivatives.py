"""Functions with derivatives of their own: custom_jvp and custom_vjp.

JAX itself is asked for the derivative of such an equation, by `jax.jvp` or `jax.vjp` of a function
that does nothing else. What it answers is recorded and replayed when rlx asks for the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import ad

from ... import numpy as rnp
from ...ir.errors import UnknownPrimitive
from ...trace.apply import as_tensor
from ...transforms.custom import custom_jvp, custom_vjp
from ...transforms.zeros import SymbolicZero
from ..jaxprs import moves, record, spec_of
from ..replay import OTHERS, replay, rule


def _in_jax(equation: Any) -> Callable[..., list[Any]]:
    """An equation as a function of JAX arrays."""

    def call(*operands: Any) -> list[Any]:
        primitive = equation.primitive
        found = primitive.bind(*operands, **primitive.get_bind_params(equation.params))
        return found if primitive.multiple_results else [found]

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
    return with_jvp_of_jax(equation, equation.params["call_jaxpr"], operands)


def with_jvp_of_jax(equation: Any, inner: Any, operands: Sequence[Any]) -> Any:
    """The results of a jaxpr, whose tangents are what JAX says of an equation."""
    call, results = _in_jax(equation), _moving(equation.outvars)
    specs = [spec_of(atom.aval) for atom in equation.invars]

    @custom_jvp
    def function(*xs: Any) -> list[Any]:
        return list(map(as_tensor, replay(inner, xs)))

    def function_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        # JAX's rules may ask that some operands have no tangent, so zeros are not told it
        moving = [i for i in _moving(equation.invars) if not isinstance(tangents[i], SymbolicZero)]

        def push(*given: Any) -> Any:
            primals, tangents = given[: len(specs)], given[len(specs) :]
            of_moving = _with_moving(call, primals, moving)
            values, slopes = jax.jvp(of_moving, tuple(_pick(primals, moving)), tangents)
            return values, _pick(slopes, results)

        recorded = record(push, [*specs, *_pick(specs, moving)])
        found = replay(recorded.closed, [*primals, *_pick(tangents, moving)])
        count = len(equation.outvars)
        return found[:count], _placed(found[count:], results, count)

    function.defjvp(function_jvp, symbolic_zeros=True)
    function.__name__ = inner.jaxpr.debug_info.func_name
    return function(*operands)


@rule("custom_vjp_call", knows_keys=True)
def custom_vjp_rule(equation: Any, *operands: Any) -> Any:
    return with_vjp_of_jax(equation, equation.params["call_jaxpr"], operands)


def with_vjp_of_jax(equation: Any, inner: Any, operands: Sequence[Any]) -> Any:
    """The results of a jaxpr, whose cotangents JAX pulls back through an equation."""
    call, results = _in_jax(equation), _moving(equation.outvars)
    specs = [spec_of(atom.aval) for atom in equation.invars]
    recorded: list[Any] = []  # what moves, and JAX's residuals, known from `forward` on

    @custom_vjp
    def function(*xs: Any) -> list[Any]:
        return list(map(as_tensor, replay(inner, xs)))

    def forward(*primals: Any) -> Any:
        moving = [i for i in _moving(equation.invars) if primals[i].perturbed]

        def with_pull(*given: Any) -> Any:
            values, pull = jax.vjp(_with_moving(call, given, moving), *_pick(given, moving))
            return _pick(values, results), pull

        made, xs = record(with_pull, specs), [p.value for p in primals]
        recorded[:] = [moving, made]
        return function(*xs), replay(made.closed, xs)[len(results) :]

    def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> Any:
        moving, made = recorded
        atoms = made.closed.jaxpr.outvars[len(results) :]

        def pulled(*given: Any) -> Any:
            blanks = [None] * len(results)
            _, pull = jax.tree_util.tree_unflatten(made.out_tree, [*blanks, *given[: len(atoms)]])
            return pull(_whole(given[len(atoms) :], equation, results))

        outs = [spec_of(equation.outvars[i].aval) for i in results]
        back = record(pulled, [*(spec_of(atom.aval) for atom in atoms), *outs])
        given = [
            rnp.zeros(ct.shape, ct.dtype) if isinstance(ct, SymbolicZero) else ct
            for ct in _pick(cts, results)
        ]
        return tuple(_placed(replay(back.closed, [*residuals, *given]), moving, len(specs)))

    function.defvjp(forward, backward, symbolic_zeros=True)
    function.transposable = equation.primitive in ad.primitive_transposes
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


# -- primitives without a rule here: what libraries made, with a meaning in JAX --------------------
#
# Such a primitive has an `impl`, which computes it with JAX's own functions. They are recorded and
# replayed in its place. Derivatives are those that the library has given the primitive.


# where a meaning has one of these JAX is asked for the whole of reverse mode: it may know how to
# transpose a linear primitive that is computed by a loop
NO_TRANSPOSE = {"while", "pure_callback", "io_callback"}


@rule(OTHERS, knows_keys=True)
def other_rule(equation: Any, *operands: Any) -> Any:
    inner = _meaning(equation)
    names = {one.primitive.name for one in _equations(inner.jaxpr)}
    itself = equation.primitive.name
    if itself in names and names <= {itself, "jit", "pjit"}:  # it says no more
        raise _unknown(equation)
    found = _replayed(equation, inner, operands, names)
    return found if equation.primitive.multiple_results else found[0]


def _replayed(equation: Any, inner: Any, operands: Any, names: set[str]) -> Any:
    atoms = (*equation.invars, *equation.outvars)
    has_own = equation.primitive in ad.primitive_jvps and any(moves(x.aval) for x in atoms)
    if not has_own:
        return replay(inner, operands)
    given = list(map(as_tensor, operands))
    way = with_vjp_of_jax if names & NO_TRANSPOSE else with_jvp_of_jax
    return way(equation, inner, given)


def _meaning(equation: Any) -> Any:
    """A primitive's own way to compute it, as a jaxpr."""
    primitive = equation.primitive
    specs = [spec_of(atom.aval) for atom in equation.invars]

    def flat(*operands: Any) -> list[Any]:
        found = primitive.impl(*operands, **equation.params)
        return list(found) if primitive.multiple_results else [found]

    try:
        return jax.make_jaxpr(flat)(*specs)
    except (NotImplementedError, jax.errors.JAXTypeError) as reason:
        raise _unknown(equation) from reason  # it has none, or one that JAX cannot trace


def _equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of functions that it calls too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in core.jaxprs_in_params(equation.params):
            yield from _equations(inner)


def _unknown(equation: Any) -> UnknownPrimitive:
    return UnknownPrimitive(
        f"rlx has no meaning for JAX's primitive `{equation.primitive.name}`",
        notes=[str(atom.aval) for atom in equation.invars],
        fix="write this line with other functions of jax.numpy or jax.lax, "
        "or compute it outside of what rlx.from_jax converts",
    )
