"""Calls of Python while a program runs: NumPy references, functions of the user.

JAX hands numbers of 64 bits to Python only where all of a process may have them. They travel as
pairs of 32 bits instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import io_callback

from ...ir.graph import Node
from ...ir.record import field, record
from ...ir.source import at
from ...ir.types import Type, is_complex

DEVICE = "xla"  # of which a user's op may have a function of its own
WORD, PART = np.dtype(np.uint32), {"complex64": np.float32, "complex128": np.float64}


@record(frozen=False)
class HostCalls:
    """The calls of Python of one program, and what went wrong in them.

    XLA knows no error of Python. The first one of each run is kept in `raised`, by the number of
    the run, which nothing is called in after it.
    """

    raised: dict[int, BaseException] = field(default_factory=dict)

    def call(
        self, node: Node, arrays: Sequence[jax.Array], number: jax.Array
    ) -> Sequence[jax.Array]:
        """Evaluate a node with its NumPy reference in the run of this number."""

        def run(number: Any, *words: Any) -> tuple[np.ndarray, ...]:
            if int(number) not in self.raised:
                try:
                    return evaluate(*words)
                except BaseException as error:
                    self.raised[int(number)] = error
            return tuple(np.zeros(spec.shape, spec.dtype) for spec in specs)

        evaluate, specs = _evaluation(node, arrays)
        return _called(run, specs, node, [number, *map(_as_words, arrays)])


def call_host(node: Node, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Evaluate a node with its NumPy reference; what it raises is JAX's to tell."""
    evaluate, specs = _evaluation(node, arrays)
    return _called(evaluate, specs, node, list(map(_as_words, arrays)))


def _evaluation(
    node: Node, arrays: Sequence[jax.Array]
) -> tuple[Callable[..., tuple[np.ndarray, ...]], list[jax.ShapeDtypeStruct]]:
    """What computes a node of its operands' words, and the specs of its results'."""
    types = [r.type for r in node.results]
    given = [Type(x.dtype, x.shape) for x in arrays]

    def evaluate(*words: Any) -> tuple[np.ndarray, ...]:
        xs = [_numbers(np.asarray(w), t) for w, t in zip(words, given, strict=True)]
        with at(node.source):  # the frames around are those of JAX
            made = node.op.run(xs, node.attrs, DEVICE, _known(node, types))
        return tuple(_words(y) for y in made)

    return evaluate, [_spec(t) for t in types]


def _called(
    run: Callable[..., Any],
    specs: Sequence[jax.ShapeDtypeStruct],
    node: Node,
    words: Sequence[jax.Array],
) -> list[jax.Array]:
    """The results of a node, whose words a function gives when the program runs."""
    if node.op.rules.effect:
        made = io_callback(run, tuple(specs), *words, ordered=True)
    else:
        made = jax.pure_callback(run, tuple(specs), *words, vmap_method=None)
    return [_from_words(w, r.type) for w, r in zip(made, node.results, strict=True)]


def _known(node: Node, types: Sequence[Type]) -> Sequence[Type]:
    # what a user's function gives is checked by its type rule
    return () if node.op.rules.of_user else types


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
