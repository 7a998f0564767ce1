"""Keys, the bits that come from them, and where each key goes.

A key names a stream of 2**64 counters; threefry2x32 encrypts a counter into two words of bits.
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from .. import numpy as rnp
from ..ir import builder
from ..ir.builder import Builder
from ..ir.config import config
from ..ir.dims import is_at_least
from ..ir.errors import ArgumentError, AttributeValueError, DtypeError, KeyReuseError, ShapeError
from ..ir.source import user_source
from ..ir.types import as_dtype, is_integer, is_signed
from ..trace.apply import apply, as_tensor
from ..trace.arguments import shown
from ..trace.array import Array, new_array
from ..trace.axes import as_shape
from ..trace.promotion import broadcast_operands
from ..trace.tensor import TracedTensor

# -- where keys go: the setting `key_reuse` lets none be used twice --------------------------------
#
# `takes_key` stands on every function that uses up a key. Known keys are told by their numbers,
# and one that is made anew counts as new; traced keys are told by identity, in the graph that
# uses them. What it misses: a compiled function that is called twice with one key.


F = TypeVar("F", bound=Callable[..., Any])
Words = tuple[int, ...]  # the numbers of a key


class Source(Protocol):
    """What gives a new key each time."""

    def key(self, name: str) -> Any:
        """The next key, for the function of this name."""


class _State(threading.local):
    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.is_inside = False  # of a function that has its key
        self.used: dict[Any, str] = {}  # keys, with the line that used them
        self.folded: dict[Words, set[bytes]] = {}  # keys, with what they were folded with


_state = _State()
# a graph may be recorded again, so what was used in it is forgotten with it
_used_in: WeakKeyDictionary[Builder, dict[Any, str]] = WeakKeyDictionary()


def takes_key(fn: F) -> F:
    """Let a function use up its first argument, a key; None takes one from the stream."""
    name = fn.__name__

    @functools.wraps(fn)
    def with_key(key: Any = None, *args: Any, **keywords: Any) -> Any:
        is_given = key is not None
        key = key if is_given else _next_key(name)
        if not config.key_reuse or _state.is_inside:
            return fn(key, *args, **keywords)
        if is_given:
            use(name, key)
        with _inside():
            return fn(key, *args, **keywords)

    return cast(F, with_key)


def gives_keys(fn: F) -> F:
    """Mark a function whose resulting keys count as new."""

    @functools.wraps(fn)
    def giving(*args: Any, **keywords: Any) -> Any:
        keys = fn(*args, **keywords)
        if config.key_reuse:
            made_anew(keys)
        return keys

    return cast(F, giving)


@contextmanager
def drawing_from(source: Source) -> Iterator[None]:
    """Take keys from this source for the block."""
    _state.sources.append(source)
    try:
        yield
    finally:
        _state.sources.pop()


def _next_key(name: str) -> Array:
    if not _state.sources:
        raise ArgumentError(
            f"{name}: there is no key",
            fix="pass rlx.random.key(0), or open a stream: with rlx.random.stream(0): ...",
        )
    with _inside():
        return _state.sources[-1].key(name)


@contextmanager
def _inside() -> Iterator[None]:
    before, _state.is_inside = _state.is_inside, True
    try:
        yield
    finally:
        _state.is_inside = before


# -- the check ------------------------------------------------------------------------------------


def use(name: str, key: Any) -> None:
    """Record that a function uses a key; raise `KeyReuseError` if it was used before."""
    words = _words(key)
    if words is None and not isinstance(key, TracedTensor):
        return  # no key; the function will say so
    token = key.value if words is None else words
    scopes = _scopes(is_known=words is not None)
    before = next((scope[token] for scope in scopes if token in scope), None)
    if before is not None:
        raise KeyReuseError(
            f"{name}: the key was used before",
            notes=[f"first used at {before}"],
            fix="make a key for each use: first, second = rlx.random.split(key)",
        )
    scopes[0][token] = str(user_source())


def made_anew(keys: Any) -> None:
    """Forget the uses of keys that were just made."""
    known = _known(keys) if _is_on() else None
    if known is not None:
        for row in known.reshape(-1, 2).tolist():
            _state.folded.pop(tuple(row), None)
            for scope in _scopes(is_known=True):
                scope.pop(tuple(row), None)


def folded(key: Any, data: Any, child: Any) -> Array:
    """Record a folded key: new data give a new key, the same data the same key."""
    words, number = (_words(key), _known(data)) if _is_on() else (None, None)
    if words is not None and number is not None:
        before = _state.folded.setdefault(words, set())
        if number.tobytes() not in before:
            made_anew(child)
            before.add(number.tobytes())
    return child


def _is_on() -> bool:
    return config.key_reuse and not _state.is_inside


def _scopes(*, is_known: bool) -> list[dict[Any, str]]:
    """The used keys that count here, innermost first.

    A graph recorded for one run on known arrays has no known keys of its own.
    """
    graphs = [
        _used_in.setdefault(recorder, {})
        for recorder in reversed(builder.open_builders())
        if not (is_known and recorder.runs_once)
    ]
    return [*graphs, _state.used]


def _words(key: Any) -> Words | None:
    known = _known(key)
    return None if known is None or known.shape != (2,) else tuple(known.tolist())


def _known(x: Any) -> np.ndarray | None:
    """The numbers of an operand, where they are known."""
    if isinstance(x, TracedTensor):
        return x.concrete
    if isinstance(x, Array):
        return x.host()
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic | int) else None


WORD = np.dtype("uint32")
WORD_MASK = 0xFFFFFFFF


@gives_keys
def key(seed: Any, *, impl: str | None = None, dtype: Any = None) -> Array:
    """Make a key from an integer `seed`; equal seeds give equal keys.

    `impl` and `dtype` accept the only generator, "threefry2x32", and its dtype. A seed that is not
    one integer is a `DtypeError`.

    >>> key(42)
    Array([ 0, 42], dtype=uint32)
    """
    _check_impl("key", impl, dtype)
    if isinstance(seed, int | np.integer):
        number = int(seed)
        high = 0 if -(2**31) <= number < 0 else number >> 32  # JAX's seeds have 32 bits
        return new_array(np.array([high & WORD_MASK, number & WORD_MASK], WORD))
    seed = as_tensor(seed)
    if not is_integer(seed.dtype) or seed.shape:
        raise DtypeError(
            f"key: a seed is one integer, not {seed.type}",
            fix="give an integer; for many keys split one: rlx.random.split(key, 8)",
        )
    low = seed.astype(WORD)
    is_wide = seed.dtype.itemsize == 8
    high = rnp.right_shift(seed, 32).astype(WORD) if is_wide else rnp.zeros_like(low)
    return rnp.stack([high, low])


def PRNGKey(seed: Any, *, impl: str | None = None) -> Array:
    """The same as `key(seed)`: keys are arrays of uint32.

    `impl` is None or "threefry2x32".
    """
    return key(seed, impl=impl)


def _check_impl(name: str, impl: Any, dtype: Any = None) -> None:
    is_known = impl is None or (isinstance(impl, str) and impl == "threefry2x32")
    if not is_known or (dtype is not None and as_dtype(dtype) != WORD):
        raise AttributeValueError(
            f"{name}: there is no generator {shown(dtype if impl is None else impl)}",
            fix='use "threefry2x32", or leave it out',
        )


def key_data(keys: Any) -> Array:
    """The words of a key: the key itself, which is a uint32 array."""
    return as_tensor(keys)


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None, dtype: Any = None) -> Array:
    """The key with the given words, `key_bits_array`: the uint32 array itself.

    `impl` and `dtype` are as for `key`.
    """
    _check_impl("wrap_key_data", impl, dtype)
    return as_tensor(key_bits_array)


@gives_keys
@takes_key
def split(key: Any, num: int | tuple[int, ...] = 2) -> Array:
    """Split a key into new keys: `u32[2] → u32[num, 2]`; do not use the old key again.

    >>> first, second = split(key(0))
    >>> first
    Array([1797259609, 2579123966], dtype=uint32)
    """
    return rnp.stack(_encrypt("split", key, *_counters(as_shape(num))), axis=-1)


def fold_in(key: Any, data: Any) -> Array:
    """Derive a new key from a key and an integer `data`, such as the number of a step.

    Returns the new key.
    """
    if isinstance(data, int | np.integer):
        counter = Array(np.array(int(data) & WORD_MASK, WORD))
    else:
        counter = as_tensor(data).astype(WORD)
    child = rnp.stack(_encrypt("fold_in", key, rnp.zeros((), WORD), counter))
    return folded(key, counter, child)


@takes_key
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random bits as unsigned integers.

    `dtype` is an unsigned one, uint32 if not given; any other is a `DtypeError`.
    """
    dtype = WORD if dtype is None else as_dtype(dtype)
    if not is_integer(dtype) or is_signed(dtype):
        raise DtypeError(
            f"bits: {dtype.name} is not an unsigned integer",
            fix="ask for uint8, uint16, uint32 or uint64; rlx.random.randint gives signed ones",
        )
    return _joined(*_encrypt("random", key, *_counters(as_shape(shape))), dtype)


def split_each(keys: Any, num: int) -> list[Array]:
    """Split each of many keys: `u32[n, 2] → num times u32[n, 2]`."""
    return [rnp.stack(_word_of_each(keys, i), axis=-1) for i in range(num)]


def bits_of_each(keys: Any, dtype: Any) -> Array:
    """The word that `bits(key)` gives for each of many keys: `u32[n, 2] → [n]`."""
    return _joined(*_word_of_each(keys, 0), as_dtype(dtype))


def key_impl(keys: Any) -> str:
    """The name of a key's generator, "threefry2x32"."""
    check_key("key_impl", keys)
    return "threefry2x32"


def key_dtype(impl_spec: str | None = None) -> np.dtype:
    """The dtype of keys, uint32.

    `impl_spec` is None or "threefry2x32".
    """
    _check_impl("key_dtype", impl_spec)
    return WORD


@gives_keys
def clone(key: Any) -> Array:
    """A copy of a key that may be used again, also under the setting `key_reuse`."""
    return check_key("clone", key)


def check_key(name: str, key: Any) -> Array:
    """The key as an array; raise if it is not a uint32[2] array."""
    key = as_tensor(key)
    if key.dtype != WORD or key.shape != (2,):
        raise ShapeError(
            f"{name}: a key of random numbers is uint32[2], not {key.type}",
            fix="give a key first, as in normal(rlx.random.key(0), shape); for an array of keys "
            "use rlx.vmap",
        )
    return key


def _counters(shape: Any) -> tuple[Array, Array]:
    """The number of each element of an array, as a high and a low word."""
    size = math.prod(shape)
    if is_at_least(WORD_MASK, size):  # else, or if that depends on the sizes, with a high word
        low = apply("iota", shape=(size,), axis=0, dtype=WORD).reshape(shape)
        return rnp.zeros_like(low), low
    count = apply("iota", shape=(size,), axis=0, dtype=np.dtype("uint64")).reshape(shape)
    return rnp.right_shift(count, 32).astype(WORD), count.astype(WORD)


def _joined(high: Any, low: Any, dtype: np.dtype) -> Array:
    """The bits of two words in a dtype."""
    if dtype.itemsize == 8:
        return rnp.left_shift(high.astype(dtype), 32) | low.astype(dtype)
    return (high ^ low).astype(dtype)


def _word_of_each(keys: Any, counter: int) -> tuple[Array, Array]:
    first, second = keys[..., 0], keys[..., 1]
    low = rnp.full_like(first, counter)
    high, low = apply("threefry2x32", first, second, rnp.zeros_like(low), low)
    return high, low


def _encrypt(name: str, key: Any, high: Any, low: Any) -> tuple[Array, Array]:
    key = check_key(name, key)
    high, low = apply("threefry2x32", *broadcast_operands(name, key[0], key[1], high, low))
    return high, low


# -- where keys come from, if a function is given none ---------------------------------------------


class stream:
    """A source of keys for functions of `rlx.random` whose key is None.

    It is made from a `seed` or a key, and is active inside of its `with` block; the innermost one
    counts. In a compiled function or a loop open it inside, from a key: what is recorded once would
    draw the same numbers in each run.

    >>> import rlx
    >>> with rlx.random.stream(0):
    ...     x, y = rlx.random.normal(None), rlx.random.normal(None)
    >>> bool(x == y)
    False
    """

    def __init__(self, seed: Any) -> None:
        is_seed = isinstance(seed, int | np.integer)
        self._key = key(seed) if is_seed else _taken(seed)
        self._seed = f"the seed {seed}" if is_seed else "a key"
        self._numbers = itertools.count()  # threads may share the stream
        self._place = builder.current()
        self._blocks: list[AbstractContextManager[None]] = []

    def __repr__(self) -> str:
        return f"<stream of {self._seed}>"

    def __enter__(self) -> stream:
        self._blocks.append(drawing_from(self))
        self._blocks[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.pop().__exit__(*error)

    def key(self, name: str = "stream.key") -> Array:
        """The next key; `name` is the function that needs it, for an error.

        Where the function is recorded once for many runs it is an `ArgumentError`.
        """
        recorders = builder.open_builders()
        inside = recorders[recorders.index(self._place) + 1 :] if self._place else recorders
        for recorder in inside:
            if not recorder.runs_once:
                raise ArgumentError(
                    f"{name}: the stream was opened outside of {recorder.graph.name}, which is "
                    "recorded once and would draw the same numbers in each run",
                    fix="pass a key to the function, and open a stream from it inside",
                )
        return fold_in(self._key, next(self._numbers))


@takes_key
def _taken(key: Any) -> Array:
    return check_key("stream", key)
