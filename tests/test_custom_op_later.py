"""Rules that a custom op gets after it was used reach all that is called from then on."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import numpy as np
import pytest

import rlx
from rlx.ir.errors import ArgumentError, CallbackError, UnknownDeviceError

X = np.array([1.0, 2.0, 4.0], np.float32)


def doubling():
    """An op with a first rule of each kind."""

    @rlx.custom_op
    def twice(x):
        return 2 * x

    twice.deftype(lambda x: rlx.spec(x.shape, "float32"))
    twice.defjvps(lambda t, out, x: 2 * t)
    return twice


def sum_of(fn):
    return lambda x: fn(x).sum()


# what is changed, and the factor of the values, the slopes and the batches from then on
RULES = {
    "kernel": (lambda op: op.defkernel("cpu")(lambda x: 7 * x), 7, 2, 7),
    "formula": (lambda op: op.defformula(lambda x: x * 7), 7, 2, 7),
    "jvp": (lambda op: op.defjvp(lambda xs, ts: (op(*xs), 7 * ts[0])), 2, 7, 2),
    "jvps": (lambda op: op.defjvps(lambda t, out, x: 7 * t), 2, 7, 2),
    "vjp": (lambda op: op.defvjp(lambda ct, out, x: (7 * ct,)), 2, 7, 2),
    "no derivative": (lambda op: op.nondifferentiable("steps"), 2, 0, 2),
    "vmap": (lambda op: op.defvmap(lambda n, is_batched, x: (7 * x, True)), 2, 2, 7),
}
# how the op is used, and which of the factors that shows
USES = {
    "jit": (lambda op: rlx.jit(lambda x: op(x)), 0),
    "nested": (lambda op: rlx.jit(rlx.jit(lambda x: op(x))), 0),
    "scan": (lambda op: rlx.jit(lambda x: rlx.scan(lambda c, r: (c, op(r)), 0, x[:, None])[1]), 0),
    "grad": (lambda op: rlx.jit(lambda x: x * rlx.grad(sum_of(op))(x)), 1),
    "vmap": (lambda op: rlx.jit(rlx.vmap(lambda x: op(x))), 2),
    "grad of vmap": (lambda op: rlx.jit(lambda x: x * rlx.grad(sum_of(rlx.vmap(op)))(x)), 1),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rules_given_later_reach_what_was_compiled(rule):
    give, *factors = RULES[rule]
    op = doubling()
    compiled = {name: use(op) for name, (use, _) in USES.items()}
    for fn in compiled.values():
        np.testing.assert_array_equal(np.asarray(fn(X)).reshape(-1), 2 * X)
    give(op)
    for name, (use, which) in USES.items():
        if rule in ("vmap", "formula") and name == "grad of vmap":
            continue  # these batch the op away, and its own derivative with it
        for fn in (use(op), compiled[name]):
            found = np.asarray(fn(X)).reshape(-1)
            np.testing.assert_array_equal(found, factors[which] * X, err_msg=name)


def test_a_type_given_later_reaches_what_was_compiled():
    @rlx.custom_op
    def tail(x):
        return x[-size:]

    size = 2
    tail.deftype(lambda x: rlx.spec((2,), x.dtype))
    f = rlx.jit(lambda x: tail(x) * 1)
    assert f(X).shape == rlx.jit(lambda x: tail(x))(X).shape == (2,)
    size = 1
    tail.deftype(lambda x: rlx.spec((1,), x.dtype))
    assert f(X).shape == rlx.jit(lambda x: tail(x))(X).shape == (1,)


def test_rules_of_an_op_that_was_not_used_recompile_nothing():
    f = rlx.jit(lambda x: x + 1)
    f(X)
    doubling()
    f(X)
    assert f.cache_info().compiles == 1 and f.cache_info().entries == 1


# -- what the function gives ------------------------------------------------------------------


@pytest.mark.parametrize("device", ["eager", "cpu", "reference"])
def test_a_result_of_another_dtype_is_an_error(device):
    @rlx.custom_op
    def wide(x):
        return x.astype("float64")

    wide.deftype(lambda x: rlx.spec(x.shape, x.dtype))
    run = wide if device == "eager" else rlx.jit(lambda x: wide(x), device=device)
    with pytest.raises(CallbackError, match=r"wide\w*: .* dtypes float64, .* they are float32"):
        run(X)

    @rlx.custom_op
    def count(x):
        return len(x)  # a Python number takes the dtype that was promised

    count.deftype(lambda x: rlx.spec((), "int32"))
    run = count if device == "eager" else rlx.jit(lambda x: count(x), device=device)
    assert int(run(X)) == 3


@pytest.mark.parametrize("device", ["eager", "cpu", "reference"])
def test_what_the_function_raises_comes_with_op_and_line(device):
    @rlx.custom_op
    def failing(x):
        raise KeyError("mine")

    failing.deftype(lambda x: x)
    run = failing if device == "eager" else rlx.jit(lambda x: failing(x) + 1, device=device)
    with pytest.raises(KeyError, match="mine") as caught:
        run(X)
    (note,) = caught.value.__notes__
    assert re.search(r"custom op failing\w*, called at test_custom_op_later.py:", note)
    assert device == "eager" or "failing(x) + 1" in note


def test_kernels_are_for_devices_that_there_are():
    op = doubling()
    with pytest.raises(UnknownDeviceError, match="there is no device 'nodevice'"):
        op.defkernel("nodevice")
    op.defkernel("host")(lambda x: 9 * x)  # another name of the cpu
    np.testing.assert_array_equal(rlx.jit(lambda x: op(x))(X), 9 * X)


@dataclasses.dataclass(frozen=True)
class Options:
    k: object
    inner: object = None


def test_attributes_are_hashable_and_told_apart():
    @rlx.custom_op
    def scaled(x, *, how):
        return x * np.float32(how.k) + np.float32(isinstance(how.k, bool))

    scaled.deftype(lambda x, how: x)
    for k in (1, True, 1.0):
        found = rlx.jit(lambda x, how=Options(k): scaled(x, how=how))(X)
        np.testing.assert_array_equal(found, X + isinstance(k, bool))
    for bad in ({}, [{}], {1, 2}):
        with pytest.raises(ArgumentError, match=r"the attribute 'how' is a .* cannot be hashed"):
            scaled(X, how=bad)


# -- static arguments ---------------------------------------------------------------------------


class Pair(NamedTuple):
    k: object
    other: object = 0


WRAPPED = {
    "as it is": lambda k: k,
    "tuple": lambda k: (0, k),
    "named tuple": Pair,
    "frozenset": lambda k: frozenset([k]),
    "dataclass": Options,
    "deep": lambda k: Options(0, (frozenset([Options(k)]), Pair(0, 1))),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_static_arguments_that_are_equal_and_not_the_same_are_told_apart(kind):
    f = rlx.jit(lambda x, how: x * len(repr(how)), static_argnames="how")
    for _ in range(2):
        for k in (1, True, 1.0, -1.0):
            how = WRAPPED[kind](k)
            assert float(f(1.0, how)) == len(repr(how))
    assert f.cache_info().compiles == 4
