"""The small packages of `rlx.scipy` against SciPy: transforms, samples, solvers, rotations."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.optimize
import scipy.spatial.transform
from jax.scipy.spatial import transform as their_transform

import rlx
import rlx.numpy as rnp
from rlx import scipy as ours
from rlx.ir.errors import RlxError

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.normal(size=(5, 6))


def close(got: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def refused(*calls: Any) -> None:
    for call in calls:
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


PACKAGES = "fft integrate interpolate ndimage cluster.vq sparse.linalg optimize".split()


def test_signatures_are_those_of_jax() -> None:
    for package in PACKAGES:
        theirs = import_module(f"jax.scipy.{package}")
        mine = import_module(f"rlx.scipy.{package}")
        for name, other in vars(theirs).items():
            if not callable(other) or name.startswith("_") or name == "OptimizeResults":
                continue
            wanted, got = (
                [(p.name, p.kind) for p in inspect.signature(f).parameters.values()]
                for f in (other, getattr(mine, name))
            )
            assert got == wanted, name
    assert (
        ours.optimize.OptimizeResults._fields
        == import_module("jax.scipy.optimize").OptimizeResults._fields
    )
    for name in ("Rotation", "Slerp"):
        wanted = getattr(their_transform, name)
        mine = getattr(ours.spatial.transform, name)
        methods = [n for n in vars(wanted) if not n.startswith("_") and n not in wanted._fields]
        assert not [n for n in methods if not hasattr(mine, n)]


def test_packages_are_loaded_when_they_are_named() -> None:
    assert "stats" in dir(ours)
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = ours.magic


# -- transforms and integrals ---------------------------------------------------------------------


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms_are_those_of_scipy(norm: str | None) -> None:
    for n in (None, 4, 9):
        for axis in (0, 1):
            close(
                ours.fft.dct(IMAGE, n=n, axis=axis, norm=norm),
                scipy.fft.dct(IMAGE, n=n, axis=axis, norm=norm),
            )
            close(
                ours.fft.idct(IMAGE, n=n, axis=axis, norm=norm),
                scipy.fft.idct(IMAGE, n=n, axis=axis, norm=norm),
            )
    cube = RANDOM.normal(size=(3, 4, 5))
    for settings in ({}, {"axes": (0, 2)}, {"s": (4, 6)}, {"s": [5, 2], "axes": [2, 0]}):
        close(
            ours.fft.dctn(cube, norm=norm, **settings), scipy.fft.dctn(cube, norm=norm, **settings)
        )
        close(
            ours.fft.idctn(cube, norm=norm, **settings),
            scipy.fft.idctn(cube, norm=norm, **settings),
        )
    close(
        ours.fft.dct(IMAGE + 1j * IMAGE[::-1], norm=norm),
        scipy.fft.dct(IMAGE + 1j * IMAGE[::-1], norm=norm),
    )
    assert ours.fft.dct(IMAGE.astype("float32")).dtype == "float32"
    slope = rlx.jit(rlx.grad(lambda x: (ours.fft.dct(x, norm="ortho") ** 2).sum()))(IMAGE)
    close(slope, 2 * IMAGE)
    refused(lambda: ours.fft.dct(IMAGE, type=3), lambda: ours.fft.dctn(IMAGE, s=(2,), axes=(0, 1)))


def test_trapezoids_are_those_of_scipy() -> None:
    x = np.sort(RANDOM.random(6))
    close(ours.integrate.trapezoid(IMAGE, x), scipy.integrate.trapezoid(IMAGE, x))
    close(
        ours.integrate.trapezoid(IMAGE, dx=0.3, axis=0),
        scipy.integrate.trapezoid(IMAGE, dx=0.3, axis=0),
    )


# -- between samples ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_images_between_pixels_are_those_of_scipy(mode: str) -> None:
    places = np.concatenate([RANDOM.uniform(0.1, 3.9, (2, 30)), RANDOM.uniform(-7, 12, (2, 20))], 1)
    mode_of_scipy = {"constant": "constant", "wrap": "grid-wrap"}.get(mode, mode)
    inner = (places > 0).all(0) & (places[0] < 4) & (places[1] < 5) if mode == "constant" else ...
    for order in (0, 1):
        got = rlx.jit(
            lambda x, p, order=order: ours.ndimage.map_coordinates(x, p, order, mode, 2.5)
        )(IMAGE, places)
        wanted = scipy.ndimage.map_coordinates(IMAGE, places, None, order, mode_of_scipy, 2.5)
        close(np.asarray(got)[inner], wanted[inner])
    far = np.array([[-3.0, 9.0], [1.0, 2.0]])
    if mode == "constant":
        close(ours.ndimage.map_coordinates(IMAGE, far, 1, cval=2.5), [2.5, 2.5])


def test_whole_numbers_are_rounded_between_pixels() -> None:
    x = np.array([1, 4, 8], "int32")
    got = ours.ndimage.map_coordinates(x, [[0.5, 1.2, 5.0]], 1, cval=-1)
    assert got.dtype == "int32"
    assert got.tolist() == [3, 5, -1]
    slope = rlx.grad(lambda p: ours.ndimage.map_coordinates(IMAGE, p, 1).sum())(
        np.full((2, 1), 1.5)
    )
    close(
        slope[:, 0],
        [(IMAGE[2, 1:3] - IMAGE[1, 1:3]).mean(), (IMAGE[1:3, 2] - IMAGE[1:3, 1]).mean()],
    )
    refused(
        lambda: ours.ndimage.map_coordinates(IMAGE, [[1.0]], 1),
        lambda: ours.ndimage.map_coordinates(IMAGE, [[1.0], [1.0]], 3),
        lambda: ours.ndimage.map_coordinates(IMAGE, [[1.0], [1.0]], 1, "cliff"),
    )


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_grids_are_those_of_scipy(method: str) -> None:
    grid = (np.cumsum(RANDOM.random(5)), np.cumsum(RANDOM.random(6)))
    values = RANDOM.normal(size=(5, 6, 2))
    places = RANDOM.uniform(-0.5, 4.0, (3, 20, 2))
    for fill in (np.nan, 1.5, None):
        settings = {"method": method, "bounds_error": False, "fill_value": fill}
        mine = ours.interpolate.RegularGridInterpolator(grid, values, **settings)
        theirs = scipy.interpolate.RegularGridInterpolator(grid, values, **settings)
        close(rlx.jit(lambda f, x: f(x))(mine, places), theirs(places))
        close(mine((0.7, places[..., 1])), theirs((0.7, places[..., 1])))
    slope = rlx.grad(
        lambda v: ours.interpolate.RegularGridInterpolator(grid, v)([[1.0, 1.0]]).sum()
    )
    close(slope(values).sum(), 2.0)
    refused(
        lambda: ours.interpolate.RegularGridInterpolator(grid, values, "cubic"),
        lambda: ours.interpolate.RegularGridInterpolator(grid, values, bounds_error=True),
        lambda: ours.interpolate.RegularGridInterpolator(grid, values[:4]),
        lambda: ours.interpolate.RegularGridInterpolator(grid, values)(np.ones((2, 3))),
    )


def test_nearest_codes_are_those_of_scipy() -> None:
    x, book = RANDOM.normal(size=(10, 3)), RANDOM.normal(size=(4, 3))
    for got, wanted in zip(ours.cluster.vq.vq(x, book), scipy.cluster.vq.vq(x, book), strict=True):
        close(got, wanted)
    close(ours.cluster.vq.vq(x[:, 0], book[:, 0])[0], scipy.cluster.vq.vq(x[:, 0], book[:, 0])[0])
    refused(lambda: ours.cluster.vq.vq(x, book[:, :2]))


# -- solvers --------------------------------------------------------------------------------------

A = RANDOM.normal(size=(8, 8)) + 6 * np.eye(8)
POSITIVE = A @ A.T
B = RANDOM.normal(size=8)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_linear_equations_are_solved(name: str) -> None:
    solve = getattr(ours.sparse.linalg, name)
    a = POSITIVE if name == "cg" else A
    exact = np.linalg.solve(a, B)
    for settings in ({}, {"x0": exact + 1}, {"M": np.diag(1 / np.diag(a))}, {"M": lambda x: x / 2}):
        x, info = solve(a, B, tol=1e-12, **settings)
        close(x, exact, 1e-9)
        assert not info
    got = rlx.jit(lambda a, b: solve(lambda x: a @ x, b, tol=1e-12)[0])(a, B)
    close(got, exact, 1e-9)

    def parts(b: Any) -> Any:
        """The same, b in two pieces."""

        def product(x: Any) -> Any:
            made = a @ rnp.concatenate([x["low"], x["high"].ravel()])
            return {"low": made[:2], "high": made[2:].reshape(2, 3)}

        x = solve(product, {"low": b[:2], "high": b[2:].reshape(2, 3)}, tol=1e-12)[0]
        return rnp.concatenate([x["low"], x["high"].ravel()])

    close(parts(B), exact, 1e-9)
    # the derivative is that of the solution, not of the steps
    slope_a, slope_b = rlx.grad(lambda a, b: solve(a, b, tol=1e-12)[0].sum(), (0, 1))(a, B)
    pulled = np.linalg.solve(a.T, np.ones(8))
    close(slope_b, pulled, 1e-9)
    close(slope_a, -np.outer(pulled, exact), 1e-8)


def test_complex_and_restarted_equations_are_solved() -> None:
    a, b = A + 1j * RANDOM.normal(size=(8, 8)), B + 1j
    for name in ("gmres", "bicgstab"):
        close(getattr(ours.sparse.linalg, name)(a, b, tol=1e-12)[0], np.linalg.solve(a, b), 1e-9)
    hermitian = a @ a.conj().T
    close(ours.sparse.linalg.cg(hermitian, b, tol=1e-13)[0], np.linalg.solve(hermitian, b), 1e-8)
    for method in ("batched", "incremental"):
        x, info = ours.sparse.linalg.gmres(A, B, tol=1e-12, restart=4, solve_method=method)
        close(x, np.linalg.solve(A, B), 1e-9)
        assert info == 0
    # few steps leave a residual
    rough = ours.sparse.linalg.cg(POSITIVE, B, maxiter=2)[0]
    assert 1e-3 < np.linalg.norm(POSITIVE @ rough - B) < np.linalg.norm(B)
    refused(
        lambda: ours.sparse.linalg.cg(A[:3], B),
        lambda: ours.sparse.linalg.cg(A, B, x0=B[:3]),
        lambda: ours.sparse.linalg.gmres(A, B, solve_method="magic"),
    )


def rosenbrock(x: Any, shift: Any = 0.0) -> Any:
    y = x - shift
    return (100.0 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2).sum()


METHODS = ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"]


@pytest.mark.parametrize("method", METHODS)
def test_minima_are_found(method: str) -> None:
    minimize = ours.optimize.minimize
    start = np.array([-1.2, 1.0, 0.3, 2.0])
    options = {"gtol": 1e-8} if method == "BFGS" else {"gtol": 1e-8, "ftol": 0.0}
    found = rlx.jit(
        lambda x, shift: minimize(rosenbrock, x, (shift,), method=method, options=options)
    )(start, 0.5)
    assert bool(found.success)
    assert found.status == 0
    close(found.x, np.full(4, 1.5), 1e-6)
    close(found.jac, np.zeros(4), 1e-7)
    assert 10 < found.nit < 150
    assert found.nfev < 3 * found.nit
    if method != "BFGS":
        return
    theirs = scipy.optimize.minimize(rosenbrock, start, (0.5,), method="BFGS")
    assert found.nit < 1.5 * theirs.nit
    # at the minimum nothing is to do
    assert minimize(rosenbrock, np.ones(3), method=method).nit == 0
    cut = minimize(rosenbrock, start, method=method, options={"maxiter": 3})
    assert cut.status == 1
    assert not bool(cut.success)
    many = rlx.vmap(lambda x: minimize(rosenbrock, x, method=method, options=options).x)
    close(many(np.stack([np.full(4, 1.7), np.zeros(4)])), np.ones((2, 4)), 1e-5)


def test_inverse_curvature_is_found() -> None:
    found = ours.optimize.minimize(lambda x: 0.5 * x @ POSITIVE @ x - B @ x, B, method="bfgs")
    close(found.x, np.linalg.solve(POSITIVE, B), 1e-6)
    step = RANDOM.normal(size=8)
    assert step @ found.hess_inv @ step > 0
    refused(
        lambda: ours.optimize.minimize(rosenbrock, B, method="CG"),
        lambda: ours.optimize.minimize(rosenbrock, A, method="BFGS"),
        lambda: ours.optimize.minimize(rosenbrock, B, [1.0], method="BFGS"),
        lambda: ours.optimize.minimize(rosenbrock, B, method="BFGS", options={"steps": 3}),
    )


# -- rotations ------------------------------------------------------------------------------------

Rotation, Slerp = ours.spatial.transform.Rotation, ours.spatial.transform.Slerp
THEIRS = scipy.spatial.transform
QUATS = RANDOM.normal(size=(6, 4))
MINE, OTHER = Rotation.from_quat(QUATS), THEIRS.Rotation.from_quat(QUATS)


def same(mine: Any, other: Any) -> None:
    close(mine.as_matrix(), other.as_matrix(), 1e-9)


def test_rotations_are_those_of_scipy() -> None:
    vectors = RANDOM.normal(size=(6, 3))
    close(MINE.as_matrix(), OTHER.as_matrix())
    close(MINE.as_rotvec(), OTHER.as_rotvec())
    close(MINE.as_mrp(), OTHER.as_mrp())
    close(MINE.as_quat(canonical=True), OTHER.as_quat(canonical=True))
    close(MINE.as_quat(scalar_first=True), OTHER.as_quat(scalar_first=True))
    close(MINE.magnitude(), OTHER.magnitude())
    close(MINE.apply(vectors), OTHER.apply(vectors))
    close(MINE.apply(vectors, inverse=True), OTHER.apply(vectors, inverse=True))
    same(MINE * MINE[::-1], OTHER * OTHER[::-1])
    same(MINE.inv(), OTHER.inv())
    same(MINE.mean(), OTHER.mean())
    same(MINE.mean(np.arange(6.0)), OTHER.mean(np.arange(6.0)))
    same(Rotation.concatenate([MINE, MINE[:2]]), THEIRS.Rotation.concatenate([OTHER, OTHER[:2]]))
    same(Rotation.from_matrix(OTHER.as_matrix()), OTHER)
    same(Rotation.from_mrp(vectors), THEIRS.Rotation.from_mrp(vectors))
    same(
        Rotation.from_rotvec(90 * vectors, degrees=True),
        THEIRS.Rotation.from_rotvec(90 * vectors, degrees=True),
    )
    same(Rotation.from_rotvec(1e-6 * vectors), THEIRS.Rotation.from_rotvec(1e-6 * vectors))
    assert len(MINE) == 6
    assert MINE[0].single
    close(Rotation.identity().as_matrix(), np.eye(3))
    close(rnp.linalg.det(Rotation.random(rlx.random.key(0), 4).as_matrix()), np.ones(4), 1e-5)


@pytest.mark.parametrize("seq", ["xyz", "ZYX", "zxz", "YXY", "xzy", "XYZ"])
def test_angles_are_those_of_scipy(seq: str) -> None:
    close(MINE.as_euler(seq), OTHER.as_euler(seq), 1e-9)
    angles = RANDOM.uniform(-90, 90, (4, 3))
    same(
        Rotation.from_euler(seq, angles, degrees=True),
        THEIRS.Rotation.from_euler(seq, angles, degrees=True),
    )
    same(
        Rotation.from_euler(seq[:2], angles[0, :2]),
        THEIRS.Rotation.from_euler(seq[:2], angles[0, :2]),
    )
    # two axes fall together: the angles still make the rotation
    locked = np.array([20.0, 0.0 if seq[0] == seq[2] else 90.0, 30.0])
    given = Rotation.from_euler(seq, locked, degrees=True)
    close(Rotation.from_euler(seq, given.as_euler(seq)).as_matrix(), given.as_matrix(), 1e-6)


def test_turns_between_rotations_are_those_of_scipy() -> None:
    times = np.cumsum(RANDOM.random(6))
    mine, other = Slerp.init(times, MINE), THEIRS.Slerp(times, OTHER)
    places = np.linspace(times[0], times[-1], 9)
    same(rlx.jit(lambda s, t: s(t))(mine, places), other(places))
    same(mine(places[3]), other(places[3]))
    slope = rlx.grad(lambda t: mine(t).magnitude())(places[4])
    ends = [float(mine(places[4] + h).magnitude()) for h in (1e-6, -1e-6)]
    close(slope, (ends[0] - ends[1]) / 2e-6, 1e-6)
    still = rlx.grad(lambda v: Rotation.from_rotvec(v).as_rotvec().sum())(np.zeros(3))
    close(still, np.ones(3))
    refused(
        lambda: Rotation.from_euler("xxz", [1.0, 2.0, 3.0]),
        lambda: Rotation.from_euler("xYz", [1.0, 2.0, 3.0]),
        lambda: Rotation.from_euler("xyz", [1.0, 2.0]),
        lambda: MINE.as_euler("xy"),
        lambda: len(MINE[0]),
        lambda: MINE[0][0],
        lambda: MINE.mean([1.0]),
        lambda: Slerp.init(times[:3], MINE),
        lambda: mine(np.ones((2, 2))),
    )
