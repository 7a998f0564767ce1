"""The cases of the tables with JAX's functions brought to rlx by `rlx.from_jax`.

Each must give what JAX gives, in value and under every law. `make interop` runs all of them, on the
device that the environment variable INTEROP_DEVICE names; `tests/test_from_jax.py` a part.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import rlx
import rlx.numpy as rnp

from .compare import leaves_of
from .engine import JAX, RLX, Case, Check, Library, attempt, inputs, said

DEVICE = os.environ.get("INTEROP_DEVICE", "cpu")
NARROW = {"float64": np.float32, "int64": np.int32, "complex128": np.complex64}


class Converted(Case):
    """A case whose function for rlx is JAX's, converted."""

    def of(self, library: Library) -> Callable[..., Any]:
        """The expression as a function of its arrays."""
        function = super().of(JAX)
        if library is JAX:
            return function
        converted = rlx.from_jax(function)
        return lambda *xs: converted(*map(_as_in_jax, xs))


def _as_in_jax(x: Any) -> Any:
    """The array as JAX takes it, which makes 64 bits 32."""
    narrow = NARROW.get(str(getattr(x, "dtype", "")))
    return x if narrow is None else x.astype(narrow)


def is_convertible(case: Case) -> bool:
    """Whether JAX can trace a case, and it gives arrays."""
    flags: list[bool] = []

    def flat(*xs: Any) -> Any:
        leaves = leaves_of(case.of(JAX)(*xs))
        flags[:] = [isinstance(leaf, jax.Array) for leaf in leaves]
        return [x for x in leaves if isinstance(x, jax.Array)]

    try:
        jax.eval_shape(flat, *map(jnp.asarray, inputs(case)))
    except Exception:  # it needs the numbers, or is about something else
        return False
    return bool(flags) and all(flags)


def check_on_device(case: Case, device: str) -> Check:
    """Compare a converted case, jitted for a device, with JAX."""

    def run(library: Library, *xs: np.ndarray) -> Any:
        if library is JAX:
            return case.of(JAX)(*map(jnp.asarray, xs))
        function = rlx.jit(Converted(case.module, case.text).of(RLX), device=device)
        return leaves_of(function(*map(rnp.asarray, xs)))

    wanted = attempt(run, JAX, inputs(case))
    if isinstance(wanted, Exception):
        return Check(case.text, "value", f"JAX: {type(wanted).__name__}: {wanted}")
    if not all(isinstance(leaf, jax.Array) for leaf in leaves_of(wanted)):
        return Check(case.text, "value", "")  # it is about something else than arrays
    return Check(case.text, "value", said(run, inputs(case), leaves_of(wanted)))
