"""Calls of Python while a program runs: NumPy references, functions of the user.

JAX hands numbers of 64 bits to Python only where all of a process may have them. They travel as
pairs of 32 bits instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import io_callback

from ...ir.graph import Node
from ...ir.types import Type, is_complex

DEVICE = "xla"  # of which a user's op may have a function of its own
WORD, PART = np.dtype(np.uint32), {"complex64": np.float32, "complex128": np.float64}


@dataclass
class HostCalls:
    """The calls of Python of one program, and what went wrong in them.

    XLA knows no error of Python. The first one is kept in `raised`, and nothing is called after it.
    """

    count: int = 0
    raised: list[BaseException] = field(default_factory=list)

    def call(self, node: Node, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """Evaluate a node with its NumPy reference when the program runs."""
        self.count += 1
        types = [r.type for r in node.results]
        given = [Type(x.dtype, x.shape) for x in arrays]

        def run(*words: Any) -> tuple[np.ndarray, ...]:
            if not self.raised:
                try:
                    xs = [_numbers(np.asarray(w), t) for w, t in zip(words, given, strict=True)]
                    made = node.op.run(xs, node.attrs, DEVICE, _known(node, types))
                    return tuple(_words(y) for y in made)
                except BaseException as error:
                    self.raised.append(error)
            return tuple(np.zeros(spec.shape, spec.dtype) for spec in specs)

        specs = [_spec(t) for t in types]
        is_pure = "effect" not in node.op.rules
        many = _pure(run) if is_pure else _ordered(run)
        made = many(specs, *map(_as_words, arrays))
        return [_from_words(w, t) for w, t in zip(made, types, strict=True)]


def _known(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    # what a user's function gives is checked by its type rule
    return () if "of_user" in node.op.rules else types


def _pure(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda specs, *xs: jax.pure_callback(run, tuple(specs), *xs, vmap_method=None)


def _ordered(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda specs, *xs: io_callback(run, tuple(specs), *xs, ordered=True)


# -- pairs of 32 bits -----------------------------------------------------------------------------


def _is_plain(dtype: np.dtype) -> bool:
    return dtype.itemsize <= 4 and not is_complex(dtype)


def _spec(type: Type) -> jax.ShapeDtypeStruct:
    if _is_plain(type.dtype):
        return jax.ShapeDtypeStruct(type.shape, type.dtype)
    return jax.ShapeDtypeStruct((*type.shape, type.dtype.itemsize // 4), WORD)


def _words(x: np.ndarray) -> np.ndarray:
    if _is_plain(x.dtype):
        return x
    return np.ascontiguousarray(x).reshape((*x.shape, 1)).view(WORD)


def _numbers(words: np.ndarray, type: Type) -> np.ndarray:
    if _is_plain(type.dtype):
        return words
    return np.ascontiguousarray(words).view(type.dtype).reshape(type.shape)


def _as_words(x: jax.Array) -> jax.Array:
    if _is_plain(x.dtype):
        return x
    if not is_complex(x.dtype):
        return lax.bitcast_convert_type(x, WORD)
    parts = [lax.bitcast_convert_type(p, WORD) for p in (lax.real(x), lax.imag(x))]
    parts = [p.reshape((*x.shape, x.dtype.itemsize // 8)) for p in parts]
    return lax.concatenate(parts, x.ndim)


def _from_words(words: jax.Array, type: Type) -> jax.Array:
    if _is_plain(type.dtype):
        return words
    if not is_complex(type.dtype):
        return lax.bitcast_convert_type(words, type.dtype)
    part = np.dtype(PART[type.dtype.name])
    half = type.dtype.itemsize // 8
    parts = [words[..., :half], words[..., half:]]
    parts = [p.reshape(type.shape) if half == 1 else p for p in parts]
    return lax.complex(*(lax.bitcast_convert_type(p, part) for p in parts))
