"""Random bits, and how numbers made from them follow their parameters.

The bits are those of threefry2x32, the counter-based generator behind JAX's keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DtypeError
from ..graph import Value
from ..op import ALIGNED, define
from ..types import Type, as_dtype
from .arithmetic import add, div, mul
from .compare import bit_or, bit_xor, eq, select, shift_left, shift_right_logical
from .constant import like
from .exponential import exp
from .families import check_kind, check_same
from .special.incomplete import random_gamma_grad

# rotations of rounds 1-4 and 5-8, repeated, and the parity of the key schedule: Salmon et al.,
# "Parallel random numbers: as easy as 1, 2, 3", SC 2011, https://doi.org/10.1145/2063384.2063405
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


@define
def threefry2x32(k0: Type, k1: Type, x0: Type, x1: Type) -> tuple[Type, Type]:
    """Encrypt counters x with keys k.

    There are two words of random bits for each pair of counters. All are uint32 of one shape. 20
    rounds, bit for bit as JAX's generator.
    """
    if k0.dtype.name != "uint32":
        raise DtypeError(f"the key is {k0}", fix="convert keys and counters to uint32")
    check_same(k0, k1, x0, x1)
    return x0, x1


def _rounds(k0: Any, k1: Any, x0: Any, x1: Any, k2: Any, turn: Callable[..., Any]) -> tuple:
    """The 20 rounds; `turn(x0, x1, rotation)` is one, `+` wraps around."""
    keys = (k0, k1, k2)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x0, x1 = turn(x0, x1, rotation)
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + keys[(i + 2) % 3] + (i + 1)
    return x0, x1


@threefry2x32.reference
def threefry2x32_reference(
    k0: np.ndarray, k1: np.ndarray, x0: np.ndarray, x1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    def turn(x0: np.ndarray, x1: np.ndarray, rotation: int) -> tuple:
        x0 = x0 + x1
        return x0, x0 ^ ((x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation)))

    with np.errstate(over="ignore"):
        k2 = k0 ^ k1 ^ np.uint32(PARITY)
        return _rounds(k0, k1, x0, x1, k2, turn)


@threefry2x32.expand
def threefry2x32_expand(k0: Value, k1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    def turn(x0: Value, x1: Value, rotation: int) -> tuple[Value, Value]:
        x0 = add(x0, x1)
        up = shift_left(x1, like(x1, rotation))
        down = shift_right_logical(x1, like(x1, 32 - rotation))
        return x0, bit_xor(x0, bit_or(up, down))

    k2 = bit_xor(bit_xor(k0, k1), like(k0, PARITY))
    return _rounds(k0, k1, x0, x1, k2, turn)


threefry2x32.nondifferentiable("random bits do not depend smoothly on anything")
threefry2x32.batch(ALIGNED)


# known answers of the generator's authors (Random123, file kat_vectors)
threefry2x32.samples(
    np.array([0, 0xFFFFFFFF, 0x13198A2E], np.uint32),
    np.array([0, 0xFFFFFFFF, 0x03707344], np.uint32),
    np.array([0, 0xFFFFFFFF, 0x243F6A88], np.uint32),
    np.array([0, 0xFFFFFFFF, 0x85A308D3], np.uint32),
    expect=[
        [0x6B200159, 0x1CB996FC, 0xC4923A9C],
        [0x99BA4EFE, 0xBB002BE7, 0x483DF7A0],
    ],
)
threefry2x32.samples(*[Type(as_dtype("uint32"), (2, 3))] * 4)


@define
def gamma_sample(x: Type, a: Type, *, is_log: bool = False) -> Type:
    """A number x drawn from the gamma distribution of parameter a, which it follows.

    The result is x. Its derivative in a is that of the number of the same probability. With
    `is_log` x is the logarithm of the number drawn.
    """
    check_kind(x, ["float"])
    return check_same(x, a)


gamma_sample.reference(lambda x, a, *, is_log: x)
gamma_sample.expand(lambda x, a, *, is_log: x)


def _gamma_by_parameter(t: Value, out: Value, x: Value, a: Value, *, is_log: bool) -> Value:
    if not is_log:
        return mul(t, random_gamma_grad(a, out))
    number = exp(out)
    # the exponential may be 0, by which nothing can be divided
    tiny = float(ml_dtypes.finfo(x.dtype).tiny)
    number = select(eq(number, like(x, 0)), like(x, tiny), number)
    return mul(t, div(random_gamma_grad(a, number), number))


gamma_sample.jvp([lambda t, out, x, a, *, is_log: t, _gamma_by_parameter])
gamma_sample.batch(ALIGNED)


# in float32, whose derivatives the audit does not measure: the value does not move with a
_NUMBER = np.array([0.5, 2.0], np.float32)
gamma_sample.samples(_NUMBER, np.array([1.0, 3.0], np.float32), expect=[0.5, 2.0])
gamma_sample.samples(_NUMBER, np.array([1.0, 3.0], np.float32), is_log=True)
