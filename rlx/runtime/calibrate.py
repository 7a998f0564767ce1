"""Measure how fast a device is: a second at most, kept on disk.

Small programs run on the device, each of one kind of work. The first ones matter most: when the
time is over the rest is left out, and models then take the nearest that is known.
"""

from __future__ import annotations

import functools
import platform
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.disk import disk_cache
from ..backends.sources import EVERYTHING, hashed, sources
from ..ir.builder import build
from ..ir.errors import RlxError
from ..ir.graph import OPS, Graph, Value
from ..ir.policy import AS_WRITTEN
from ..ir.types import Type, as_dtype, is_integer, type_of
from ..trace import pytree
from ..trace.array import Array
from .rates import Curve, Rates
from .session import CompileOptions, Session, default_session

LONGEST = 1.0  # seconds of a calibration
ESSENTIAL = 2  # programs that are always measured: memory and products
ONE, MOST = 3e-4, 3e-2  # seconds of one run of a measurement, and of all
RUNS, FEWEST = 20, 3  # the least of some short runs is one that nobody disturbed
ROUNDS, LEAVES = 64, 32
PLAIN = CompileOptions(precision=AS_WRITTEN)
F32 = as_dtype("float32")


@functools.cache
def rates(device: str) -> Rates:
    """How fast a device is on this machine, measured if no process has done that."""
    from .rates import rates_of

    session, disk = default_session(device), disk_cache()
    files = sources(disk, EVERYTHING) if disk else ""
    facts = platform.node(), platform.processor(), session.device, session.backend.description()
    key = hashed("calibration", files, facts, session.backend.compiled_for()) if files else ""
    known = disk.get(key) if disk and key else None
    if known is not None:
        try:
            return rates_of(known.decode())
        except (ValueError, KeyError, UnicodeDecodeError):  # damage that the checksum missed
            pass
    made, is_whole = measured(session)
    if disk and key and is_whole:  # else the machine was busy: the next process tries again
        disk.put(key, made.text.encode())
    return made


def measured(session: Session, longest: float = LONGEST) -> tuple[Rates, bool]:
    """Measure a device now: its rates, and whether there was time for all of them."""
    until = time.perf_counter() + longest
    device = _Device(session)
    call = device.seconds(_arithmetic(1), [_numbers(8)]) or 1e-6  # without what Python adds
    leaf = device.leaf(call)
    points: dict[str, list[tuple[float, float]]] = {}
    step, is_whole = 0.0, True
    for number, (name, size, graph, arrays) in enumerate(_probes()):
        left = until - time.perf_counter()
        if number >= ESSENTIAL and left < 0:
            is_whole = False
            break
        if name in points and Curve(tuple(sorted(points[name]))).seconds(size) * 2 * FEWEST > left:
            continue  # what is known of smaller sizes is in proportion
        seconds = device.seconds(graph(), arrays())
        if seconds is None:
            continue
        if name == "round":
            step = max(seconds - call, 0.0) / size
        else:
            points.setdefault(name, []).append((size, max(seconds - call, seconds / 20)))
    for name, size, seconds in device.transfers():
        points.setdefault(name, []).append((size, seconds))
    curves = {name: Curve(tuple(sorted(p))) for name, p in points.items()}
    return Rates(call + device.checks(), step, leaf, curves), is_whole


class _Device:
    """A device that small programs are timed on."""

    def __init__(self, session: Session) -> None:
        self.session, self.memory = session, session.backend.memory

    def seconds(self, graph: Graph, arrays: Sequence[np.ndarray]) -> float | None:
        """The time of one call; None for what the device cannot run."""
        try:
            compiled = self.session.compile(graph, options=PLAIN)
            placed = [Array(x) if self.memory is None else Array(x).to(self.memory) for x in arrays]
            entry = functools.partial(compiled.executable.entry, *placed)
            return _timed(entry if self.memory is None else lambda: _ready(entry()))
        except RlxError:
            return None

    def checks(self) -> float:
        """What Python does around a call: that of an object that passes its arguments on."""
        passing, x = _Passing(), _numbers(8)
        return max(_timed(lambda: passing(x)) - _timed(lambda: id(x)), 0.0)

    def leaf(self, call: float) -> float:
        """What an array more that is given or made costs, with its place in a tree."""
        arrays = [_numbers(8)] * LEAVES
        graph = build(lambda *xs: [x + 1.0 for x in xs], [type_of(x) for x in arrays], "leaves")
        seconds = self.seconds(graph, arrays)
        tree = {str(i): x for i, x in enumerate(arrays)}
        host = _timed(lambda: pytree.flatten(tree))
        return (max((seconds or call) - call, 0.0) + host) / (2 * LEAVES)

    def transfers(self) -> list[tuple[str, float, float]]:
        """The times of copies to the device and back; none if it shares the host's memory."""
        if self.memory is None:
            return []
        found = []
        for count in (1 << 8, 1 << 20):
            x = Array(np.ones(count, np.float32))
            there = x.to(self.memory)
            found.append(("put", 4.0 * count, _timed(lambda x=x: _ready(x.to(self.memory)))))
            found.append(("get", 4.0 * count, _timed(lambda there=there: there.host())))
        return found


class _Passing:
    """A function as `jit` makes them, without anything to do."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return id(*args, **kwargs)
        except BaseException:
            raise


def _ready(x: Any) -> None:
    for each in x if isinstance(x, tuple) else (x,):
        each.block_until_ready()


def _timed(run: Callable[[], Any]) -> float:
    """The least seconds of a call, after one that does not count."""
    run()
    timer, until = timeit.Timer(run), time.perf_counter() + MOST
    calls = max(1, round(ONE / max(timer.timeit(1), 1e-7)))
    times = [timer.timeit(calls)]
    while len(times) < RUNS and (len(times) < FEWEST or time.perf_counter() < until):
        times.append(timer.timeit(calls))
    return min(times) / calls


# -- the programs ---------------------------------------------------------------------------------

Probe = tuple[str, float, Callable[[], Graph], Callable[[], Sequence[np.ndarray]]]


def _numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, 0.5).astype(dtype)


def _graph(fn: Callable[..., Any], *arrays: np.ndarray) -> Graph:
    return build(lambda *xs: [fn(*xs)], [type_of(x) for x in arrays], "calibration")


def _arithmetic(length: int, count: int = 8) -> Graph:
    def chain(x: Value) -> Value:
        y = x
        for _ in range(length):
            y = y * x + 0.25
        return y

    return _graph(chain, _numbers(count))


def _series(count: int) -> Graph:
    return _graph(lambda x: OPS["log"](OPS["exp"](x) + 1.0), _numbers(count))


def _product(side: int, dtype: Any) -> Graph:
    x = _numbers(side, side, dtype=dtype)
    sums = "int32" if is_integer(x.dtype) else None
    return _graph(lambda a, b: OPS["dot_general"](a, b, contract=((1,), (0,)), dtype=sums), x, x)


def _rounds() -> Graph:
    eight = Type(F32, (8, 8))
    body = build(
        lambda w, c: [OPS["dot_general"](c, w, contract=((1,), (0,)))], [eight, eight], "round"
    )
    attrs = {"body": body, "length": ROUNDS, "n_constants": 1, "n_carry": 1}
    return build(
        lambda w, c: list(OPS["scan"].apply([w, c], OPS["scan"].complete(attrs))),
        [eight, eight],
        "rounds",
    )


def _places(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, count, count).astype(np.int32)


def _gathering(count: int) -> Graph:
    def take(x: Value, i: Value) -> Value:
        place = OPS["reshape"](i, shape=(count, 1))
        return OPS["gather"](
            x, place, offset_axes=(), collapsed_axes=(0,), start_axes=(0,), sizes=(1,)
        )

    return _graph(take, _numbers(count), _places(count))


def _sorting(count: int) -> Graph:
    return _graph(lambda x: OPS["sort"](x, axis=0)[0], _numbers(count))


def _running(count: int) -> Graph:
    return _graph(lambda x: OPS["cumsum"](x, axis=0), _numbers(count))


def _library(count: int) -> Graph:
    return _graph(lambda x: OPS["qr"](x, full_matrices=False)[0], _numbers(count, count))


def _probes() -> list[Probe]:
    """The programs, the most telling first; sizes as `Rates` counts them."""
    made: list[Probe] = []

    def add(name: str, size: float, graph: Callable[[], Graph], *shapes: Any) -> None:
        made.append((name, size, graph, lambda: [_numbers(*s) for s in shapes]))

    def stream(count: int) -> None:
        add("stream", 8.0 * count, lambda: _graph(lambda x: x + 1.0, _numbers(count)), (count,))

    def product(side: int, dtype: str) -> None:
        array = _numbers(side, side, dtype=as_dtype(dtype))
        size, name = 2.0 * side**3, f"product {dtype}"
        made.append((name, size, lambda: _product(side, as_dtype(dtype)), lambda: [array, array]))

    def arithmetic(count: int) -> None:
        add("additions", 32.0 * count, lambda: _arithmetic(16, count), (count,))

    def gather(count: int) -> None:
        def arrays() -> list[Any]:
            return [_numbers(count), _places(count)]

        made.append(("gather", float(count), lambda: _gathering(count), arrays))

    def series(count: int) -> None:
        add("series", 30.0 * count, lambda: _series(count), (count,))

    stream(1 << 20)
    product(256, "float32")
    add("round", float(ROUNDS), _rounds, (8, 8), (8, 8))
    product(32, "float32")
    product(1024, "float32")
    for dtype in ("bfloat16", "float64", "float16", "int8"):
        product(512, dtype)
    for count in (1 << 12, 1 << 16, 1 << 22):
        stream(count)
    for count in (1 << 12, 1 << 18):
        arithmetic(count)
        series(count)
    count = 1 << 17
    add("scan", float(count), lambda: _running(count), (count,))
    gather(count)
    gather(1 << 20)
    add("library", 1.0, lambda: _library(2), (2, 2))
    shuffled = np.random.default_rng(0).normal(size=count).astype(np.float32)
    made.append(("sort", float(count), lambda: _sorting(count), lambda: [shuffled]))
    return made
