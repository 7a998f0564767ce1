"""Random numbers: JAX's own generators, recorded and replayed.

So the bits are those of JAX, whichever generator and settings it uses. A key is an array of words
here; what JAX's generator does with the words of one key is recorded, for many keys under vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ... import lax
from ...ir.ops.random import gamma_sample
from ...trace.apply import apply, as_tensor
from ..jaxprs import key_generator, record
from ..replay import made, replay, rule


def _of_each(fn: Callable[..., Any], rank: int) -> Callable[..., Any]:
    for _ in range(rank):
        fn = jax.vmap(fn)
    return fn


def _replayed(fn: Callable[..., Any], *operands: Any) -> Any:
    """A function of JAX arrays, replayed on operands."""
    given = [as_tensor(x) for x in operands]
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
    (found,) = replay(record(fn, specs).closed, given)
    return found


@rule("random_wrap", "random_unwrap", "random_clone", "to_edtype", "from_edtype", knows_keys=True)
def random_wrap_rule(equation: Any, x: Any) -> Any:
    return as_tensor(x)


@rule("random_seed", knows_keys=True)
def random_seed_rule(equation: Any, seeds: Any) -> Any:
    return _replayed(_of_each(equation.params["impl"].seed, as_tensor(seeds).ndim), seeds)


@rule("random_split", knows_keys=True)
def random_split_rule(equation: Any, keys: Any) -> Any:
    aval, shape = equation.invars[0].aval, equation.params["shape"]
    generator = key_generator(aval)
    return _replayed(_of_each(lambda key: generator.split(key, shape), aval.ndim), keys)


@rule("random_bits", knows_keys=True)
def random_bits_rule(equation: Any, keys: Any) -> Any:
    aval, params = equation.invars[0].aval, equation.params
    generator = key_generator(aval)
    width, shape = params["bit_width"], params["shape"]
    bits = _of_each(lambda key: generator.random_bits(key, width, shape), aval.ndim)
    return _replayed(bits, keys)


@rule("random_fold_in", knows_keys=True)
def random_fold_in_rule(equation: Any, keys: Any, messages: Any) -> Any:
    generator = key_generator(equation.invars[0].aval)
    shape = equation.outvars[0].aval.shape
    keys, messages = as_tensor(keys), as_tensor(messages)
    words = keys.shape[-len(generator.key_shape) :]
    keys = _spread(keys, (*shape, *words), len(words))
    fold = _of_each(generator.fold_in, len(shape))
    return _replayed(fold, keys, _spread(messages, shape, 0))


def _spread(x: Any, shape: tuple[int, ...], own: int) -> Any:
    """An array broadcast to a shape, its last `own` axes apart."""
    if x.shape == tuple(shape):
        return x
    rank = x.ndim - own
    axes = (*range(len(shape) - own - rank, len(shape)),)
    return lax.broadcast_in_dim(x, shape, axes)


@rule("iota_2x32_shape")
def counters_rule(equation: Any) -> Any:
    """The number of each element, as a high and a low word."""
    shape = equation.params["shape"]
    size = int(np.prod(shape, dtype=np.uint64))
    word, wide = np.dtype("uint32"), np.dtype("uint64")
    if size <= 2**32:
        low = made("iota", shape=(size,), axis=0, dtype=word)
        high = made("full", shape=(size,), value=0, dtype=word)
    else:
        count = made("iota", shape=(size,), axis=0, dtype=wide)
        low = lax.convert_element_type(count, word)
        shifted = lax.shift_right_logical(count, np.uint64(32))
        high = lax.convert_element_type(shifted, word)
    return [lax.reshape(high, shape), lax.reshape(low, shape)]


@rule("threefry2x32")
def threefry_rule(equation: Any, *operands: Any) -> Any:
    shape = np.broadcast_shapes(*(as_tensor(x).shape for x in operands))
    return apply("threefry2x32", *(_spread(as_tensor(x), shape, 0) for x in operands))


@rule("random_gamma", knows_keys=True)
def random_gamma_rule(equation: Any, keys: Any, a: Any) -> Any:
    """JAX's own sampler gives the numbers; how they follow `a` is what rlx's op says."""
    key_aval, a_aval = (atom.aval for atom in equation.invars)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (key_aval, a_aval)]
    log_space = bool(equation.params["log_space"])
    inner = record(lambda k, x: equation.primitive.impl(k, x, log_space=log_space), specs)
    fixed = lax.stop_gradient(as_tensor(a))
    (drawn,) = replay(inner.closed, [keys, fixed])
    return apply(gamma_sample, drawn, as_tensor(a), is_log=log_space)
