"""Measure how fast a device is: a second at most, kept on disk.

Small programs run on the device, each of one kind of work. The first ones matter most: when the
time is over the rest is left out, and models then take the nearest that is known.
"""

from __future__ import annotations

import functools
import platform
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends.disk import disk_cache
from ..backends.sources import EVERYTHING, hashed, sources
from ..ir.builder import build
from ..ir.errors import RlxError
from ..ir.graph import OPS, Graph, Value
from ..ir.policy import AS_WRITTEN
from ..ir.types import as_dtype, is_integer, type_of
from ..trace.array import Array
from .rates import PRODUCT, Curve, Rates
from .session import CompileOptions, Session, default_session

LONGEST = 1.0  # seconds of a calibration
ESSENTIAL = 2  # programs that are always measured: memory and products
ONE, MOST = 2e-4, 1e-2  # seconds of one run of a measurement, and of all
RUNS, FEWEST = 10, 2  # the least of some short runs is one that nobody disturbed
AGAIN = 2  # times that all is measured once more
FAR = 1 << 26  # numbers that fit in no cache
ROUNDS, LEAVES, SIDE = 64, 32, 8
CALL = ("call", 1.0)
Probed = tuple[str, float]
PLAIN = CompileOptions(precision=AS_WRITTEN)


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
    device, is_whole = _Device(session), True
    best: dict[Probed, float] = {}
    runs: dict[Probed, Callable[[], Any]] = {}
    for number, probe in enumerate(_probes()):
        probed = probe.kind, probe.size
        left = until - time.perf_counter()
        if number >= ESSENTIAL and left < 0:
            is_whole = False
            break
        if number >= ESSENTIAL and _expected(best, *probed) * 2 * FEWEST > left:
            continue  # what is known of smaller sizes is in proportion
        run = device.prepared(probe)
        if run is not None:
            runs[probed], best[probed] = run, _timed(run)
    for _ in range(AGAIN):  # who disturbed the first measurements may be gone
        for probed, run in runs.items():
            if time.perf_counter() + best[probed] * 2 * FEWEST < until:
                best[probed] = min(best[probed], _timed(run))
    return _rates(device, best), is_whole


def _expected(best: Mapping[Probed, float], name: str, size: float) -> float:
    known = tuple(sorted((other, s) for (kind, other), s in best.items() if kind == name))
    return Curve(known).seconds(size) if known else 0.0


def _rates(device: _Device, best: Mapping[Probed, float]) -> Rates:
    call = best.get(CALL, 1e-6)
    points: dict[str, list[tuple[float, float]]] = {}
    for (name, size), seconds in best.items():
        points.setdefault(name, []).append((size, max(seconds - call, seconds / 20)))
    for name, size, seconds in device.transfers():
        points.setdefault(name, []).append((size, seconds))
    curves = {name: Curve(tuple(sorted(p))) for name, p in points.items()}
    launches = {name: curves.pop(name, None) for name in ("call", "leaves", "rounds")}
    known = Rates(call + device.checks(), 0.0, 0.0, device.place(), curves)
    leaf = launches["leaves"].seconds(1.0) if launches["leaves"] else 0.0
    step = launches["rounds"].seconds(1.0) if launches["rounds"] else 0.0
    step = max(step - known.seconds(PRODUCT, 2.0 * SIDE**3), 0.0)
    return replace(known, step=step, leaf=leaf)


class _Device:
    """A device that small programs are timed on."""

    def __init__(self, session: Session) -> None:
        self.session, self.memory = session, session.backend.memory

    def prepared(self, probe: _Probe) -> Callable[[], Any] | None:
        """A function that runs a program once; None for what the device cannot run."""
        try:
            arrays = probe.arrays()
            compiled = self.session.compile(probe.graph(arrays), options=PLAIN)
            given = [Array(x) for x in arrays]
            placed = [x if self.memory is None else x.to(self.memory) for x in given]
            entry = functools.partial(compiled.executable.entry, *placed)
            run = entry if self.memory is None else lambda: _ready(entry())
            run()
            return run
        except (RlxError, MemoryError):
            return None

    def checks(self) -> float:
        """What Python does around a call: that of an object that passes its arguments on."""
        passing, x = _Passing(), _numbers(8)
        return max(_timed(lambda: passing(x)) - _timed(lambda: id(x)), 0.0)

    def place(self) -> float:
        """What it takes to get an array from its place in a container, or to put it there."""
        tree = {str(i): _numbers(8) for i in range(LEAVES)}

        names = list(tree)

        def moved() -> dict[str, Any]:
            return dict(zip(names, [tree[name] for name in names], strict=True))

        return _timed(moved) / (2 * LEAVES)

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
    """The least seconds of a call."""
    timer, until = timeit.Timer(run), time.perf_counter() + MOST
    calls = max(1, round(ONE / max(timer.timeit(1), 1e-7)))
    times = [timer.timeit(calls)]
    while len(times) < RUNS and (len(times) < FEWEST or time.perf_counter() < until):
        times.append(timer.timeit(calls))
    return min(times) / calls


# -- the programs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Probe:
    """A small program that does so much of a kind of work, as `Rates` counts it."""

    kind: str
    size: float
    program: Callable[..., Value | list[Value]]
    arrays: Callable[[], list[np.ndarray]]

    def graph(self, arrays: Sequence[np.ndarray]) -> Graph:
        """The program as a graph."""
        return build(self.program, [type_of(x) for x in arrays], "calibration")


def _probes() -> list[_Probe]:
    """The programs, the most telling first."""
    few = 1 << 17
    return [
        _stream(1 << 20),
        _product(256, "float32"),
        _Probe(*CALL, _chain(1), lambda: [_numbers(8)]),
        _Probe("leaves", 2.0 * LEAVES, _each, lambda: [_numbers(8)] * LEAVES),
        _Probe("rounds", float(ROUNDS), _rounds, lambda: [_numbers(SIDE, SIDE)] * 2),
        _product(32, "float32"),
        _product(1024, "float32"),
        *(_product(512, dtype) for dtype in ("bfloat16", "float64", "float16", "int8")),
        *(_stream(count) for count in (1 << 12, 1 << 16, 1 << 22)),
        *(_counted("additions", 32, _chain(16), count) for count in (1 << 12, 1 << 18)),
        *(_counted("series", 30, _series, count) for count in (1 << 12, 1 << 18)),
        *(_counted("scan", 1, _running, count) for count in (few, 1 << 22)),
        _Probe("strided", float(1 << 12), _sums, lambda: [_numbers(1 << 10, 4)]),
        *(_across(side) for side in (1 << 9, 1 << 11)),
        *(_gathering(count) for count in (1 << 12, few, 1 << 20)),
        *(_scattering(count) for count in (1 << 14, 1 << 20)),
        _Probe("library", 1.0, _library, lambda: [_numbers(2, 2)]),
        _Probe("sort", float(few), _sorted, lambda: [_shuffled(few)]),
        _counted("stream", 4, _sum, FAR),
    ]


def _numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, 0.5, dtype)


def _shuffled(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=count).astype(np.float32)


def _counted(kind: str, each: int, program: Callable[..., Value], count: int) -> _Probe:
    """A program that does so much with each of many numbers."""
    return _Probe(kind, float(each) * count, program, lambda: [_numbers(count)])


def _stream(count: int) -> _Probe:
    return _counted("stream", 8, lambda x: x + 1.0, count)


def _sum(x: Value) -> Value:
    return OPS["reduce_sum"](x, axes=(0,))


def _sums(x: Value) -> Value:
    return OPS["reduce_sum"](x, axes=(1,))


def _product(side: int, dtype: str) -> _Probe:
    given = as_dtype(dtype)
    sums = "int32" if is_integer(given) else None

    def program(a: Value, b: Value) -> Value:
        return OPS["dot_general"](a, b, contract=((1,), (0,)), dtype=sums)

    arrays = lambda: [_numbers(side, side, dtype=given)] * 2  # noqa: E731
    return _Probe(f"product {dtype}", 2.0 * side**3, program, arrays)


def _chain(length: int) -> Callable[[Value], Value]:
    def program(x: Value) -> Value:
        y = x
        for _ in range(length):
            y = y * x + 0.25
        return y

    return program


def _each(*xs: Value) -> list[Value]:
    return [x + 1.0 for x in xs]


def _series(x: Value) -> Value:
    return OPS["log"](OPS["exp"](x) + 1.0)


def _rounds(w: Value, c: Value) -> list[Value]:
    def product(w: Value, c: Value) -> list[Value]:
        return [OPS["dot_general"](c, w, contract=((1,), (0,)))]

    body = build(product, [w.type, c.type], "round")
    attrs = {"body": body, "length": ROUNDS, "n_constants": 1, "n_carry": 1}
    return list(OPS["scan"].apply([w, c], OPS["scan"].complete(attrs)))


def _running(x: Value) -> Value:
    return OPS["cumsum"](x, axis=0)


def _across(side: int) -> _Probe:
    def program(x: Value) -> Value:
        return OPS["transpose"](x, axes=(1, 0))

    return _Probe("strided", float(side**2), program, lambda: [_numbers(side, side)])


def _gathering(count: int) -> _Probe:
    def program(x: Value, i: Value) -> Value:
        place = OPS["reshape"](i, shape=(count, 1))
        return OPS["gather"](
            x, place, offset_axes=(), collapsed_axes=(0,), start_axes=(0,), sizes=(1,)
        )

    return _Probe("gather", float(count), program, lambda: [_numbers(count), _places(count, count)])


def _scattering(count: int) -> _Probe:
    """Sums of about 64 numbers each."""

    def program(x: Value, i: Value) -> Value:
        zeros = OPS["full"](shape=(count // 64,), value=0.0, dtype=x.dtype)
        place = OPS["reshape"](i, shape=(count, 1))
        axes = {"window_axes": (), "inserted_axes": (0,), "scatter_axes": (0,)}
        return OPS["scatter_add"](zeros, place, x, **axes)

    def arrays() -> list[np.ndarray]:
        return [_numbers(count), _places(count, count // 64)]

    return _Probe("scatter", float(count), program, arrays)


def _places(count: int, among: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, among, count).astype(np.int32)


def _library(x: Value) -> Value:
    return OPS["qr"](x, full_matrices=False)[0]


def _sorted(x: Value) -> Value:
    return OPS["sort"](x, axis=0)[0]
