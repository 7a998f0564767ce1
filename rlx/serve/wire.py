"""Messages between workers and who asks them, as bytes: JSON, then arrays.

What comes from a process that may have gone wrong in any way is read as plain data of the types
that the message has, or it is `Garbled`. Nothing is ever unpickled.
"""

from __future__ import annotations

import functools
import json
import math
import struct
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..ir import errors
from ..ir.errors import ArgumentError, RlxError

MOST_BYTES = 1 << 30  # of a message
HEAD = struct.Struct("<I")  # bytes of the JSON
WRONG = (  # what reading other bytes raises
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    StopIteration,
    RecursionError,
    struct.error,
)
PLAIN = frozenset((int, float, str, bool, type(None)))  # what JSON writes as it is
Layers = list[dict[str, tuple[np.ndarray, np.ndarray]]]  # of an adapter


class Garbled(ValueError):
    """Bytes that are no message."""


# -- to a worker -----------------------------------------------------------------------------------


class Submit(NamedTuple):
    """A request for a worker."""

    number: int  # of the request
    prompt: list[int]
    written: list[int]  # its tokens so far, by other workers
    options: str  # of `Engine.submit`, as `options_text` writes them
    timeout: float | None  # seconds that are left
    adapter: str | None  # its key
    after: int | None  # the request whose prompt it shares
    weights: int  # their version


class Cancel(NamedTuple):
    """A request that is no longer needed."""

    number: int


class Attach(NamedTuple):
    """An adapter for requests that come."""

    key: str
    layers: Layers


class Drop(NamedTuple):
    """An adapter that no request needs any more."""

    key: str


class Swap(NamedTuple):
    """Other weights for requests of a version: the path of a file, see `WeightFiles`."""

    version: int
    path: str


class Forget(NamedTuple):
    """Weights of a version that no request needs any more."""

    version: int


class Stop(NamedTuple):
    """Nothing more is needed."""


# -- from a worker ---------------------------------------------------------------------------------


class Began(NamedTuple):
    """A worker is ready: its pages, their size, and how many texts share a step."""

    pages: int
    size: int
    sequences: int
    adapters: int  # that there is room for
    rank: int
    numbers: dict[str, float]  # of the engine


class Failed(NamedTuple):
    """A worker cannot begin."""

    error: Exception


class News(NamedTuple):
    """What became of a request."""

    number: int
    tokens: list[int]
    logprobs: list[float]
    likeliest: list[dict[int, float]]
    reason: str  # how it ended; "" before
    error: Exception | None  # why it was refused


class Told(NamedTuple):
    """What a step made, and the numbers of the engine after it."""

    news: list[News]
    numbers: dict[str, float]


TO_WORKERS = Submit, Cancel, Attach, Drop, Swap, Forget, Stop
FROM_WORKERS = Began, Failed, Told


# -- bytes -----------------------------------------------------------------------------------------


def to_bytes(message: Any) -> bytes:
    """A message as bytes."""
    arrays: list[bytes] = []
    plain = [type(message).__name__, *(_plain(x, arrays) for x in message)]
    text = json.dumps(plain, separators=(",", ":")).encode()
    return b"".join([HEAD.pack(len(text)), text, *arrays])


def from_bytes(given: bytes, kinds: tuple[type, ...]) -> Any:
    """The message that `given` bytes are, of one of some `kinds`.

    Others raise `Garbled`.

    >>> from_bytes(to_bytes(Cancel(3)), (Cancel, Stop))
    Cancel(number=3)
    """
    try:
        (size,) = HEAD.unpack_from(given)
        plain = json.loads(given[HEAD.size : HEAD.size + size].decode())
        reader = _Reader(memoryview(given)[HEAD.size + size :])
        kind = next(x for x in kinds if x.__name__ == plain[0])
        found = reader.read(plain[1:], kind)
        return _is(not reader.rest, found)
    except WRONG:
        raise Garbled("bytes that are no message") from None


def _plain(x: Any, arrays: list[bytes]) -> Any:
    """What JSON can write for a field; bytes of arrays stand behind it."""
    if type(x) in PLAIN:
        return x
    if isinstance(x, np.ndarray):
        arrays.append(x.astype("<f4").tobytes())
        return x.shape
    if isinstance(x, dict):
        return [[key, _plain(value, arrays)] for key, value in x.items()]
    if isinstance(x, Exception):
        return _told(x)
    if isinstance(x, tuple) or (isinstance(x, list) and x and not isinstance(x[0], (int, float))):
        return [_plain(part, arrays) for part in x]
    return x


class _Reader:
    """Reads fields by their types; `rest` has the arrays that were not read yet."""

    def __init__(self, rest: memoryview) -> None:
        self.rest = rest

    def read(self, given: Any, kind: Any) -> Any:
        """A field of a type."""
        return _reading(kind)(self, given)

    def array(self, shape: Any) -> np.ndarray:
        """The next array, of a shape."""
        sizes = self.read(shape, list[int])
        _is(all(n >= 0 for n in sizes), sizes)
        count = 4 * math.prod(sizes)
        _is(count <= len(self.rest), sizes)
        mine, self.rest = self.rest[:count], self.rest[count:]
        return np.frombuffer(mine, "<f4").reshape(sizes)


Read = Callable[[_Reader, Any], Any]


@functools.cache
def _reading(kind: Any) -> Read:
    """What reads a field of a type; looking at types takes longer than reading."""
    if kind in (int, str):
        return lambda _, given: given if type(given) is kind else _is(False, given)
    if kind is float:
        return lambda _, given: float(_is(type(given) in (int, float), given))
    if kind is np.ndarray:
        return _Reader.array
    if kind is Exception:
        return lambda _, given: _error(given)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        some = _reading(parts[0])
        return lambda reader, given: None if given is None else some(reader, given)
    if origin is list:
        return _reading_list(_reading(parts[0]))
    if origin is dict:
        pairs = _reading_list(_reading(tuple[parts]))  # type: ignore[valid-type]
        return lambda reader, given: dict(pairs(reader, given))
    fields = [*map(_reading, parts if origin is tuple else _fields(kind))]
    make = tuple if origin is tuple else kind._make

    def record(reader: _Reader, given: Any) -> Any:
        _is(type(given) is list, given)
        return make([read(reader, x) for read, x in zip(fields, given, strict=True)])

    return record


def _reading_list(each: Read) -> Read:
    return lambda reader, given: [each(reader, x) for x in _is(type(given) is list, given)]


def _is(is_right: bool, given: Any) -> Any:
    if not is_right:
        raise Garbled("a field of another type")
    return given


@functools.cache
def _fields(kind: type) -> tuple[Any, ...]:
    return tuple(typing.get_type_hints(kind).values())


# -- errors and options ----------------------------------------------------------------------------


def _told(error: Exception) -> list[Any]:
    """The parts of an error: those of rlx are made again, others only shown."""
    if isinstance(error, RlxError):
        return [type(error).__name__, error.what, error.fix, error.where, list(error.notes)]
    return ["", f"{type(error).__name__}: {error}", "", None, []]


def _error(given: Any) -> Exception:
    name, what, fix, where, notes = given
    texts = [name, what, fix, *notes, *([] if where is None else [where])]
    _is(all(isinstance(x, str) for x in texts), given)
    kind = getattr(errors, name, None) if name else None
    if not (isinstance(kind, type) and issubclass(kind, RlxError)):
        return RuntimeError(what)
    return kind(what, fix=fix, where=where, notes=notes)


def options_text(options: Mapping[str, Any]) -> str:
    """The `options` of a request as text, whatever becomes of them later.

    Those that are no plain data are an `ArgumentError`.
    """
    given = dict(options)
    if given.get("logit_bias") is not None:
        given["logit_bias"] = list(dict(given["logit_bias"]).items())
    try:
        return json.dumps(given, sort_keys=True, default=_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"submit: an option cannot be sent to a worker: {error}",
            fix="give numbers, texts, lists and dicts",
        ) from None


def options_of(text: str) -> dict[str, Any]:
    """The options that `options_text` wrote.

    >>> options_of(options_text({"logit_bias": {5: 1.5}, "stop": ["a"]}))
    {'logit_bias': {5: 1.5}, 'stop': ['a']}
    """
    options = json.loads(text)
    if options.get("logit_bias") is not None:
        options["logit_bias"] = dict(options["logit_bias"])
    return options


def _number(x: Any) -> Any:
    convert: Callable[[], Any] | None = getattr(x, "item", None)
    if convert is None or not isinstance(x, np.generic):
        raise TypeError(f"{type(x).__name__} is no plain data")
    return convert()
