"""Equations: Diffrax, Lineax and Optimistix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import optimistix

from .program import Made, normal, program

START = np.array([1.0, 2.0], np.float32)
MATRIX = normal(4, 4) + 4 * np.eye(4, dtype=np.float32)
B = normal(4, seed=1)


# -- Diffrax ------------------------------------------------------------------------------------


def _swing(t: Any, y: Any, rate: Any) -> Any:
    return jnp.stack([y[1], -rate * jnp.sin(y[0])])


def _solved(solver: Any, **options: Any) -> Callable[..., Any]:
    """A pendulum's way, at some times or at the end alone."""
    options.setdefault("saveat", diffrax.SaveAt(ts=jnp.linspace(0, 2, 5)))

    def function(y: Any, rate: Any) -> Any:
        term = diffrax.ODETerm(_swing)
        return diffrax.diffeqsolve(term, solver, 0.0, 2.0, 0.1, y, rate, **options).ys

    return function


def _gradient(adjoint: Any) -> Made:
    end = _solved(diffrax.Tsit5(), saveat=diffrax.SaveAt(t1=True), adjoint=adjoint)
    return jax.grad(lambda y, rate: jnp.sum(end(y, rate)), (0, 1)), (START, np.float32(1.5))


@program("diffrax")
def tsitouras() -> Made:
    return _solved(diffrax.Tsit5()), (START, np.float32(1.5))


@program("diffrax")
def dormand_prince_with_step_control() -> Made:
    control = diffrax.PIDController(rtol=1e-5, atol=1e-6)
    return _solved(diffrax.Dopri8(), stepsize_controller=control), (START, np.float32(1.5))


@program("diffrax", is_double=True)
def implicit_with_step_control() -> Made:
    control = diffrax.PIDController(rtol=1e-5, atol=1e-6)
    return _solved(diffrax.Kvaerno5(), stepsize_controller=control), (START, np.float32(1.5))


@program("diffrax")
def stochastic_heun() -> Made:
    def function(y: Any, key: Any) -> Any:
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, _: -y),
            diffrax.ControlTerm(lambda t, y, _: jnp.diag(0.1 * y), noise),
        )
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.1, y).ys

    return function, (START, jax.random.key(0))


@program("diffrax")
def gradient_through_the_steps() -> Made:
    return _gradient(diffrax.RecursiveCheckpointAdjoint())


@program("diffrax")
def gradient_backwards_in_time() -> Made:
    return _gradient(diffrax.BacksolveAdjoint())


# -- Lineax -------------------------------------------------------------------------------------


def _linear(solver: Any, shape: Callable[[Any], Any], *tags: Any) -> Made:
    """The solution of linear equations, and its derivatives."""

    def function(a: Any, b: Any) -> Any:
        def solved(a: Any, b: Any) -> Any:
            operator = lineax.MatrixLinearOperator(shape(a), tags)
            return lineax.linear_solve(operator, b, solver).value

        slopes = jax.grad(lambda a, b: jnp.sum(solved(a, b) ** 2), (0, 1))(a, b)
        return solved(a, b), slopes

    return function, (MATRIX, B)


@program("lineax")
def factors_lu() -> Made:
    return _linear(lineax.LU(), lambda a: a)


@program("lineax")
def least_squares_by_qr() -> Made:
    return _linear(lineax.QR(), lambda a: a[:, :3])


@program("lineax")
def conjugate_gradients() -> Made:
    tag = lineax.positive_semidefinite_tag
    return _linear(lineax.CG(1e-6, 1e-6), lambda a: a @ a.T, tag)


@program("lineax", is_double=True)
def residuals_minimized() -> Made:
    return _linear(lineax.GMRES(1e-9, 1e-9), lambda a: a)


# -- Optimistix ---------------------------------------------------------------------------------


@program("optimistix")
def root_by_newton_and_its_derivative() -> Made:
    def root(a: Any) -> Any:
        solver = optimistix.Newton(1e-6, 1e-6)
        return optimistix.root_find(lambda y, a: y**3 + y - a, solver, jnp.ones(2), a).value

    return lambda a: (root(a), jax.jacrev(root)(a)), (START,)


@program("optimistix", is_double=True)
def least_squares_by_levenberg_marquardt() -> Made:
    def function(y: Any, a: Any) -> Any:
        solver = optimistix.LevenbergMarquardt(1e-6, 1e-6)
        residuals = lambda y, a: y[0] * jnp.exp(y[1] * a) - jnp.sin(a)  # noqa: E731
        return optimistix.least_squares(residuals, solver, y, a).value

    return function, (START, B)


@program("optimistix", is_double=True)
def minimum_by_bfgs() -> Made:
    def function(y: Any, a: Any) -> Any:
        solver = optimistix.BFGS(1e-6, 1e-6)
        return optimistix.minimise(lambda y, a: jnp.sum((y - a) ** 4), solver, y, a).value

    return function, (START, B[:2])


@program("optimistix")
def fixed_point() -> Made:
    def function(y: Any, a: Any) -> Any:
        solver = optimistix.FixedPointIteration(1e-6, 1e-6)
        return optimistix.fixed_point(lambda y, a: 0.5 * jnp.cos(y) + a, solver, y, a).value

    return function, (START, B[:2])
