"""Solutions of equations, with derivatives that do not go through the solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..ir.builder import user_source
from ..ir.errors import ArgumentError, ShapeError
from ..ir.tracebacks import boundary
from ..trace import pytree
from ..trace.apply import as_operand, as_tensor, operand_type
from ..trace.make_graph import check_function, from_values, trace
from .custom import custom_jvp, stop_gradient
from .forward import jvp
from .grad import linear_transpose, linearize
from .run import run_graph


def _closed(name: str, fn: Callable[[Any], Any], x: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function of one argument as one of the things it uses from outside, and of x."""
    traced = trace(fn, (x,))
    leaves, tree = pytree.flatten(x)
    place = pytree.difference(tree, traced.out_tree, "", ("its argument", "its result"))
    types = [operand_type(as_operand(leaf)) for leaf in leaves]
    if place or types != list(traced.graph.result_types):
        raise ShapeError(
            f"{name}: {traced.graph.name} gives another kind of thing than it takes",
            where=str(user_source()),
            notes=[place] if place else [f"takes: {types}", f"gives: {traced.graph.result_types}"],
            fix="return the containers, shapes and dtypes of the argument",
        )

    def explicit(outside: list[Any], x: Any) -> Any:
        results = run_graph(traced.graph, [*pytree.leaves(x), *outside])
        return pytree.unflatten(tree, results)

    return explicit, [as_tensor(c) for c in from_values(traced.captures)]


def _push(fn: Callable[..., Any], outside: list[Any], tangents: list[Any], x: Any) -> Any:
    """How fn(outside, x) changes with what it uses from outside."""
    return jvp(lambda given: fn(given, x), (outside,), (tangents,))[1]


# -- linear equations ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _System:
    """A linear map, its transpose, and how each is solved."""

    product: Callable[..., Any]
    transposed: Callable[..., Any]
    solve: Callable[..., Any]
    transpose_solve: Callable[..., Any] | None

    def swapped(self) -> _System:
        """The transposed system."""
        if self.transpose_solve is None:
            raise ArgumentError(
                "custom_linear_solve: reverse mode needs the transposed system solved",
                where=str(user_source()),
                fix="give transpose_solve, or symmetric=True if the matrix is",
            )
        return _System(self.transposed, self.product, self.transpose_solve, self.solve)


@boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
) -> Any:
    """Solve `matvec(x) = b` by `solve(matvec, b)`, for a linear `matvec`.

    Derivatives solve once more with the same solver, instead of going through it; those of
    reverse mode use `transpose_solve(vecmat, b)`.

    >>> import rlx
    >>> divide = lambda product, b: b / product(1.0)
    >>> f = lambda a: custom_linear_solve(lambda x: a * x, 6.0, divide, divide)
    >>> float(f(2.0)), float(rlx.grad(f)(2.0))
    (3.0, -1.5)
    """
    check_function(matvec, "custom_linear_solve: matvec")
    check_function(solve, "custom_linear_solve: solve")
    b = pytree.map(as_tensor, b)
    product, outside = _closed("custom_linear_solve", matvec, b)
    if symmetric:
        return _solved(_System(product, product, solve, transpose_solve or solve), outside, b)
    specs = pytree.map(lambda leaf: leaf.type, b)

    def transposed(outside: list[Any], y: Any) -> Any:
        return linear_transpose(lambda x: product(outside, x), specs)(y)[0]

    return _solved(_System(product, transposed, solve, transpose_solve), outside, b)


def _solved(system: _System, outside: list[Any], b: Any) -> Any:
    @custom_jvp
    def linear_solution(outside: list[Any], b: Any) -> Any:
        return system.solve(lambda x: system.product(outside, x), b)

    @linear_solution.defjvp
    def linear_solution_jvp(primals: Any, tangents: Any) -> Any:
        (outside, b), (moving, db) = primals, tangents
        x = _solved(system, outside, b)
        missing = pytree.map(lambda d, p: d - p, db, _push(system.product, outside, moving, x))
        return x, _solved(system, outside, missing)

    @linear_solution.deftranspose
    def linear_solution_transpose(outside: list[Any], ct: Any) -> Any:
        return _solved(system.swapped(), outside, ct)

    return linear_solution(outside, b)


# -- roots --------------------------------------------------------------------------------------


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Find x with `f(x) = 0` by `solve(f, initial_guess)`.

    Derivatives come from the implicit function theorem: `tangent_solve(g, y)` solves g(x) = y for
    a linear g. With `has_aux` the solver gives (x, extra), and so does this.

    >>> import rlx
    >>> def newton(f, x):
    ...     for _ in range(20):
    ...         x = x - f(x) / rlx.grad(f)(x)
    ...     return x
    >>> root = lambda a: custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> float(root(4.0)), float(rlx.grad(root)(4.0))
    (2.0, 0.25)
    """
    check_function(f, "custom_root: f")
    check_function(solve, "custom_root: solve")
    check_function(tangent_solve, "custom_root: tangent_solve")
    guess = pytree.map(lambda x: stop_gradient(as_tensor(x)), initial_guess)
    explicit, outside = _closed("custom_root", f, guess)

    @custom_jvp
    def root(outside: list[Any], guess: Any) -> Any:
        return solve(lambda x: explicit(outside, x), guess)

    @root.defjvp
    def root_jvp(primals: Any, tangents: Any) -> Any:
        (outside, guess), (moving, _) = primals, tangents
        result = root(outside, guess)
        x = result[0] if has_aux else result
        _, push = linearize(lambda x: explicit(outside, x), x)
        change = pytree.map(lambda t: -t, _push(explicit, outside, moving, x))
        slope = tangent_solve(push, change)
        return result, (slope, pytree.map(lambda _: None, result[1])) if has_aux else slope

    return root(outside, guess)
