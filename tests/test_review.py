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


def test_debug_nans_does_not_look_at_padding() -> None:
    mean = rlx.jit(lambda x: rnp.log(x - 1).mean(), dynamic={"x": {0: "n"}}, buckets={"n": (8,)})
    with rlx.config.using(debug_nans=True):
        np.testing.assert_allclose(mean(np.full(3, 2.0, np.float32)), 0, atol=1e-6)
        with pytest.raises(errors.NanError):
            mean(np.zeros(3, np.float32))


@pytest.mark.parametrize("shape", [(5,), (3, 1), ()])
def test_a_custom_op_that_gives_another_shape_is_an_error(shape: tuple[int, ...]) -> None:
    @rlx.custom_op
    def other(x: np.ndarray) -> np.ndarray:
        return np.zeros(shape, np.float32)

    other.deftype(lambda x: x)
    for run in (other, rlx.jit(other)):
        with pytest.raises(errors.CallbackError, match=r"other.*: the function gave .* \(3,\)"):
            run(_numbers(3))


def test_segments_with_small_numbers_and_clipped_ones() -> None:
    data, numbers = np.float32([1, 2, 4]), np.int8([-1, 0, 1])
    assert rlx.ops.segment_sum(data, numbers, 200).tolist() == [2, 4] + [0] * 198
    assert rlx.ops.segment_sum(data, numbers, 1, mode="clip").tolist() == [7]
    assert rlx.ops.segment_max(data, numbers, 0).shape == (0,)


def test_numbers_of_symbolic_sizes() -> None:
    dynamic = {"x": {0: "n"}}
    scaled = rlx.jit(lambda x: x / rnp.asarray(x.shape[0], "float32") ** 0.5, dynamic=dynamic)
    square = rlx.jit(lambda x: rnp.zeros(x.shape[0] ** 2) + x.sum(), dynamic=dynamic)
    for size in (1, 4, 9):
        np.testing.assert_allclose(scaled(np.ones(size, np.float32)), size**-0.5, rtol=1e-6)
        assert square(np.ones(size, np.float32)).shape == (size**2,)
    number = rlx.jit(lambda x: rnp.asarray(x.shape[0]), dynamic=dynamic)
    assert (number(TABLE).item(), number(TABLE).dtype) == (16, np.int32)


@pytest.mark.parametrize("compute", [lambda n: 1 / n, lambda n: n / 2, lambda n: n**-0.5])
def test_fractions_of_symbolic_sizes_are_explained(compute: Callable[[Any], Any]) -> None:
    with pytest.raises(errors.SymbolicSizeError, match=r"rlx\.numpy\.asarray\(size\)"):
        rlx.jit(lambda x: x * compute(x.shape[0]), dynamic={"x": {0: "n"}})(TABLE)
