"""What a reader found by using rlx: features together, at sizes and in places that are odd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import errors


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


TABLE = _numbers(16, 2)


def _doubled_places(x: Any) -> Any:
    x = x * 1
    x[::2] *= 2
    return x


def _attended(x: Any) -> Any:
    x = rnp.reshape(x, (1, -1, 1, 2))
    return rlx.nn.dot_product_attention(x, x, x, is_causal=True)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "the gradient of a slice with steps": rlx.grad(lambda x: (x[::3] ** 2).sum()),
    "an assignment with steps": _doubled_places,
    "causal attention": _attended,
    "a slice of a known size by a symbolic one": lambda x: x + rnp.asarray(TABLE)[: x.shape[0]],
    "a size divided between axes": lambda x: x.reshape(-1).reshape(-1, 2, 1),
    "a Python function": lambda x: rlx.pure_callback(np.sin, rlx.spec(x.shape), x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_symbolic_sizes_change_nothing(name: str) -> None:
    fn = PROGRAMS[name]
    jitted = rlx.jit(fn, dynamic={"x": {0: rlx.dim("n", min=0, max=16)}})
    for size in (0, 1, 2, 3, 9, 16):
        if name == "causal attention" and not size:
            continue
        x = _numbers(size, 2)
        np.testing.assert_allclose(jitted(x), fn(rlx.array(x)), rtol=1e-5, atol=1e-6)
    assert jitted.cache_info().compiles == 1


def test_slices_with_steps_of_nothing_keep_their_size() -> None:
    fn = PROGRAMS["the gradient of a slice with steps"]
    jitted = rlx.jit(fn, dynamic={"x": {0: rlx.dim("n", min=0)}}, specialize=True)
    assert jitted(_numbers(0, 2)).shape == (0, 2)


def test_padding_that_holds_too_little_is_an_error() -> None:
    dynamic: Any = {"x": {0: "n"}}
    rest = rlx.jit(lambda x: x[: x.shape[0] % 4] + 1, dynamic=dynamic, buckets={"n": (8,)})
    with pytest.raises(errors.UnsupportedOp, match="does not hold the true"):
        rest(_numbers(7, 2))
    inner = rlx.jit(lambda x: x[:-2] + x[1:-1], dynamic=dynamic, buckets={"n": (8,)})
    np.testing.assert_allclose(inner(TABLE[:5]), TABLE[:3] + TABLE[1:4])
    with pytest.raises(errors.ShapeError, match="in this call n = 1"):
        inner(_numbers(1, 2))
