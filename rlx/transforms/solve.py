"""Implicit differentiation: solvers of equations with derivatives of the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import builder
from ..ir.errors import ArgumentError, ShapeError
from ..ir.record import record
from ..ir.tracebacks import boundary
from ..trace import pytree
from ..trace.apply import as_operand, as_tensor, operand_type
from ..trace.arguments import flag
from ..trace.make_graph import check_function, from_values, trace
from .custom import custom_jvp, stop_gradient
from .forward import jvp, linearize
from .grad import linear_transpose
from .run_graph import run_graph


def _closed(name: str, fn: Callable[[Any], Any], x: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Convert a function of x to one of its captures and x."""
    traced = trace(fn, (x,))
    leaves, tree = pytree.flatten(x)
    place = pytree.difference(tree, traced.out_tree, "", ("its argument", "its result"))
    types = [operand_type(as_operand(leaf)) for leaf in leaves]
    if place or types != list(traced.graph.result_types):
        raise ShapeError(
            f"{name}: {traced.graph.name} gives another kind of thing than it takes",
            notes=[place] if place else [f"takes: {types}", f"gives: {traced.graph.result_types}"],
            fix="return the containers, shapes and dtypes of the argument",
        )

    def explicit(outside: list[Any], x: Any) -> Any:
        results = run_graph(traced.graph, [*pytree.leaves(x), *outside])
        return pytree.unflatten(tree, results)

    return explicit, [as_tensor(c) for c in from_values(traced.captures)]


def _push(fn: Callable[..., Any], outside: list[Any], tangents: list[Any], x: Any) -> Any:
    """The tangent of fn(outside, x) along tangents of `outside`."""
    return jvp(lambda given: fn(given, x), (outside,), (tangents,))[1]


# -- linear equations ---------------------------------------------------------------------------


def _closed_solver(
    solve: Callable[..., Any], product: Callable[..., Any], outside: list[Any], b: Any
) -> Callable[..., Any]:
    """Convert a solver to a function of `outside`, with its own captures, and b."""
    recorder = builder.current()

    def plain(outside: list[Any], b: Any) -> Any:
        return solve(lambda x: product(outside, x), b)

    if recorder is None:
        return plain
    known, start = list(outside), len(outside)
    traced = trace(plain, (known, b), concrete=recorder.runs_once)
    outside += [as_tensor(c) for c in from_values(traced.captures)]
    end = len(outside)

    def explicit(outside: list[Any], b: Any) -> Any:
        operands = [*outside[:start], *pytree.leaves(b), *outside[start:end]]
        return traced.unflatten(run_graph(traced.graph, operands))

    return explicit


@record(eq=False)
class _System:
    """A linear map, its transpose, and their solvers, functions of `outside` and x."""

    product: Callable[..., Any]
    transposed: Callable[..., Any]
    solve: Callable[..., Any]
    transpose_solve: Callable[..., Any] | None

    def swapped(self) -> _System:
        """The transposed system."""
        if self.transpose_solve is None:
            raise ArgumentError(
                "custom_linear_solve: reverse mode needs the transposed system solved",
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
    has_aux: bool = False,
) -> Any:
    """Solve `matvec(x) = b` by `solve(matvec, b)`, for a linear `matvec`.

    Returns x, with the structure and shapes of `b`. Derivatives solve once more with the same
    solver, instead of going through it; those of reverse mode use `transpose_solve(vecmat, b)`, or
    `solve` itself if the matrix is `symmetric`. With `has_aux` both give (x, extra), and so does
    this; what is extra has no derivative.

    >>> import rlx
    >>> divide = lambda product, b: b / product(1.0)
    >>> f = lambda a: custom_linear_solve(lambda x: a * x, 6.0, divide, divide)
    >>> float(f(2.0)), float(rlx.grad(f)(2.0))
    (3.0, -1.5)
    """
    check_function(matvec, "custom_linear_solve: matvec")
    check_function(solve, "custom_linear_solve: solve")
    if transpose_solve is not None:
        check_function(transpose_solve, "custom_linear_solve: transpose_solve")
    symmetric = flag("custom_linear_solve: symmetric", symmetric)
    has_aux = flag("custom_linear_solve: has_aux", has_aux)
    b = pytree.map(as_tensor, b)
    product, outside = _closed("custom_linear_solve", matvec, b)
    count, specs = len(outside), pytree.map(lambda leaf: leaf.type, b)
    if symmetric:
        transpose_solve = transpose_solve or solve

    def forward(outside: list[Any], x: Any) -> Any:
        return product(outside[:count], x)

    def transposed(outside: list[Any], y: Any) -> Any:
        if symmetric:
            return forward(outside, y)
        return linear_transpose(lambda x: forward(outside, x), specs)(y)[0]

    full = _closed_solver(solve, forward, outside, b)
    back = transpose_solve and _closed_solver(transpose_solve, transposed, outside, b)
    if not has_aux:
        return _solved(_System(forward, transposed, full, back), outside, b)
    system = _System(forward, transposed, _first(full), back and _first(back))
    extra = pytree.map(stop_gradient, full(outside, b)[1])
    return _solved(system, outside, b), extra


def _first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A solver without its extra results."""
    return lambda outside, b: fn(outside, b)[0]


def _solved(system: _System, outside: list[Any], b: Any) -> Any:
    @custom_jvp
    def linear_solution(outside: list[Any], b: Any) -> Any:
        return system.solve(outside, b)

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
    has_aux = flag("custom_root: has_aux", has_aux)
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
