"""Primitives without a rule here: what libraries made, with a meaning in JAX.

Such a primitive has an `impl`, which computes it with JAX's own functions. They are recorded and
replayed in its place. Derivatives are those that the library has given the primitive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import ad

from ...ir.errors import UnknownPrimitive
from ...trace.apply import as_tensor
from ..jaxprs import moves, spec_of
from ..replay import OTHERS, replay, rule
from .derivatives import with_jvp_of_jax, with_vjp_of_jax

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
