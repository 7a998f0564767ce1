"""Gradients of complex functions follow JAX: every function of one array that both have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from libraries import QUICK

import rlx
import rlx.numpy as rnp

POINT = np.array([[0.7 + 0.4j, -0.6 + 1.1j, 1.3 - 0.8j], [0.2 - 0.9j, 1.9 + 0.3j, -1.2 - 0.5j]])
POINT = np.concatenate([POINT, [[0.5 + 1.7j, -0.3 + 0.6j, 0.9 + 0.1j]]])
WEIGHT = POINT[::-1].T * (0.3 + 0.8j)
WHERE = {"": (rnp, jnp), "linalg.": (rnp.linalg, jnp.linalg), "fft.": (rnp.fft, jnp.fft)}


def is_of_use(ours: Callable, theirs: Callable) -> bool:
    """Whether both take the point and give one array of numbers, in compiled code too."""
    if not inspect.isfunction(ours):
        return False
    try:
        with jax.enable_x64(True):
            jax.eval_shape(lambda x: pulled(jax.vjp, theirs, x), POINT)
        found = rlx.jit(ours, device="reference")(POINT)
    except Exception:  # one of them wants something else
        return False
    return isinstance(found, rlx.Array) and found.dtype.kind in "fc"


@functools.cache
def shared() -> dict[str, tuple[Any, Any]]:
    """The functions of one complex array: rlx's and JAX's."""
    found = {}
    for prefix, (ours, theirs) in WHERE.items():
        for name in dir(ours):
            pair = getattr(ours, name), getattr(theirs, name, None)
            if name[0] != "_" and pair[1] is not None and is_of_use(*pair):
                found[prefix + name] = pair
    return found


def pulled(vjp: Callable, fn: Callable, point: Any) -> tuple[Any, Any]:
    """What a function gives, and what its derivative makes of a weight for it."""
    result, pull = vjp(fn, point)
    weight = np.resize(WEIGHT, result.shape)
    weight = weight if result.dtype.kind == "c" else weight.real
    return result, pull(weight.astype(result.dtype))[0]


def of_jax() -> dict[str, Any]:
    """What JAX gives for all of them, in one compile."""
    compiled = jax.jit(
        lambda x: {name: pulled(jax.vjp, theirs, x) for name, (_, theirs) in shared().items()},
        compiler_options=QUICK,
    )
    with jax.enable_x64(True):
        return compiled(POINT)


# JAX's slope of acosh has the wrong sign left of the imaginary axis; that of sign is 0 everywhere
BETTER = {"acosh", "arccosh", "sign"}


def test_gradients_are_those_of_jax() -> None:
    wanted = of_jax()
    assert len(wanted) > 100
    for name in wanted.keys() - BETTER:
        with rlx.config.using(device="reference"):
            found = pulled(rlx.vjp, shared()[name][0], rlx.array(POINT))
        for x, y in zip(found, wanted[name], strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", sorted(BETTER))
def test_slopes_where_those_of_jax_are_not(name: str) -> None:
    fn, step = getattr(rnp, name), 1e-6 * np.exp(0.7j)
    with rlx.config.using(device="reference"):
        _, tangent = rlx.jvp(fn, (rlx.array(POINT),), (rlx.array(np.full_like(POINT, step)),))
        ends = [np.asarray(fn(rlx.array(POINT + by))) for by in (step, -step)]
    np.testing.assert_allclose(np.asarray(tangent), (ends[0] - ends[1]) / 2, rtol=1e-7)


def test_gradient_of_a_real_function_is_that_of_jax() -> None:
    """The slope along 1 less i times that along i; of a holomorphic function, its derivative."""

    def loss(np_: Any, z: Any) -> Any:
        return np_.sum(np_.abs(np_.sin(z)) ** 2 + np_.real(z * z * 1j))

    def whole(np_: Any, z: Any) -> Any:
        return np_.sum(np_.sin(z) * z)

    for fn, options in ((loss, {}), (whole, {"holomorphic": True})):
        with jax.enable_x64(True):
            wanted = jax.grad(lambda z, fn=fn: fn(jnp, z), **options)(jnp.asarray(POINT))
        found = rlx.grad(lambda z, fn=fn: fn(rnp, z), **options)(rlx.array(POINT))
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-10)
