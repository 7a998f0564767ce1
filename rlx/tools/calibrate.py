"""Calibration: measure how fast a device is, in a second at most, kept on disk.

Small programs run on the device, each of one kind of work. The first ones matter most: when the
time is over the rest is left to the next process; models take the nearest that is known.
"""

from __future__ import annotations

import functools
import json
import math
import platform
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.disk import EVERYTHING, disk_cache, hashed, sources
from ..ir.builder import build
from ..ir.errors import RlxError
from ..ir.graph import OPS, Graph, Value
from ..ir.policy import AS_WRITTEN
from ..ir.record import record
from ..ir.types import as_dtype, is_integer, type_of
from ..runtime.session import CompileOptions, Session, default_session
from ..trace.array import Array
from .costs import PRODUCT, Curve, Rates

LONGEST = 1.0  # seconds of a calibration
ESSENTIAL = 2  # programs that are always measured: memory and products
ONE, MOST = 2e-4, 1e-2  # seconds of one run of a measurement, and of all
RUNS, FEWEST = 10, 2  # the least of some short runs is one that nobody disturbed
AGAIN = 2  # times that all is measured once more
SHARE = 0.2  # of the seconds: what takes longer is left out, and follows from smaller programs
FAR = 1 << 26  # numbers that fit in no cache
ROUNDS, LEAVES, SIDE = 64, 32, 8
CALL = ("call", 1.0)
LAUNCHES = ("call", "leaves", "rounds", "checks", "place")
AROUND = ("checks", "place", "put", "get")  # measured without a call
Probed = tuple[str, float]
Times = Mapping[Probed, float | None]
PLAIN = CompileOptions(precision=AS_WRITTEN)


@functools.cache
def rates(device: str) -> Rates:
    """The rates of a device on this machine, measured unless a process has done so.

    What one process has no time for, the next one measures.
    """
    session, disk = default_session(device), disk_cache()
    files = sources(disk, EVERYTHING) if disk else ""
    facts = platform.node(), platform.processor(), session.device, session.backend.description()
    key = hashed("calibration", files, facts, session.backend.compiled_for()) if files else ""
    known = _read(disk.get(key) if disk and key else None)
    if not is_whole(known):
        known = measured(session, known=known)
        if disk and key:
            disk.put(key, json.dumps([[*probed, s] for probed, s in known.items()]).encode())
    return rates_of(known)


def _read(data: bytes | None) -> Times:
    """The times in a file; none of those in one that is damaged."""
    try:
        return {(str(kind), float(size)): s for kind, size, s in json.loads(data or b"[]")}
    except (ValueError, TypeError):
        return {}


def is_whole(times: Times) -> bool:
    """Whether nothing is left to measure."""
    return all(probe.probed in times for probe in _probes())


def measured(
    session: Session, longest: float = LONGEST, known: Times | None = None
) -> dict[Probed, float | None]:
    """Measure a device now: seconds by what is measured, None for what it cannot run.

    What is not yet `known` comes first, and of two times of one program the lesser counts.
    """
    until = time.perf_counter() + longest
    device, best = _Device(session), dict(known or {})
    runs: dict[Probed, Callable[[], Any]] = {}
    probes = sorted(_probes(), key=lambda probe: probe.probed in best)
    for number, probe in enumerate(probes):
        is_essential = number < ESSENTIAL and not known
        if not is_essential and time.perf_counter() > until:
            break
        is_long = _expected(best, probe) * 2 * FEWEST > longest * SHARE
        run = None if is_long and not is_essential else device.prepared(probe)
        best.setdefault(probe.probed, None)
        if run is not None:
            runs[probe.probed] = run
            best[probe.probed] = _least(_timed(run), best[probe.probed])
    for _ in range(AGAIN):  # who disturbed the first measurements may be gone
        for probed, run in runs.items():
            if time.perf_counter() + (best[probed] or 0.0) * 2 * FEWEST < until:
                best[probed] = _least(_timed(run), best[probed])
    for probed, seconds in device.around().items():
        best[probed] = _least(seconds, best.get(probed))
    return best


def _least(now: float, before: float | None) -> float:
    return now if before is None else min(now, before)


def _expected(best: Times, probe: _Probe) -> float:
    """How long a program may take, by what is known of others; 0 if nothing is."""
    kind = PRODUCT if probe.kind.startswith("product ") else probe.kind
    known = [(size, s) for (other, size), s in best.items() if other == kind and s]
    return Curve(tuple(sorted(known))).seconds(probe.size) if known else 0.0


def rates_of(times: Times) -> Rates:
    """What follows from measured times: a call's own is in those of all programs."""
    call = times.get(CALL) or 1e-6
    points: dict[str, list[tuple[float, float]]] = {}
    for (kind, size), seconds in times.items():
        if seconds is not None:
            own = seconds if kind in AROUND else max(seconds - call, seconds / 20)
            points.setdefault(kind, []).append((size, own))
    curves = {kind: Curve(tuple(sorted(p))) for kind, p in points.items()}
    one = {k: curves.pop(k).seconds(1.0) for k in LAUNCHES if k in curves}
    curved = Rates(0.0, 0.0, 0.0, 0.0, curves)
    step = max(one.get("rounds", 0.0) - curved.seconds(PRODUCT, 2.0 * SIDE**3), 0.0)
    whole = call + one.get("checks", 0.0)
    return Rates(whole, step, one.get("leaves", 0.0), one.get("place", 0.0), curves)


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

    def around(self) -> dict[Probed, float]:
        """The times of what happens around the calls of programs."""
        passing, x = _Passing(), _numbers(8)
        checks = max(_timed(lambda: passing(x)) - _timed(lambda: id(x)), 0.0)
        return {("checks", 1.0): checks, ("place", 2.0 * LEAVES): _moving(), **self.copies()}

    def copies(self) -> dict[Probed, float]:
        """The times of copies to the device and back; none if it shares the host's memory."""
        found: dict[Probed, float] = {}
        for count in (1 << 8, 1 << 20) if self.memory is not None else ():
            x = Array(np.ones(count, np.float32))
            there = x.to(self.memory)
            found["put", 4.0 * count] = _timed(lambda x=x: _ready(x.to(self.memory)))
            found["get", 4.0 * count] = _timed(lambda there=there: there.host())
        return found


def _moving() -> float:
    """How long it takes to get arrays from places of a container, and to put them into one."""
    tree = {str(i): _numbers(8) for i in range(LEAVES)}
    names = list(tree)
    return _timed(lambda: dict(zip(names, [tree[name] for name in names], strict=True)))


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


@record
class _Probe:
    """A small program that does so much of a kind of work, as `Rates` counts it."""

    kind: str
    size: float
    program: Callable[..., Value | list[Value]]
    arrays: Callable[[], list[np.ndarray]]

    @property
    def probed(self) -> Probed:
        """What its time is known by."""
        return self.kind, self.size

    def graph(self, arrays: Sequence[np.ndarray]) -> Graph:
        """The program as a graph."""
        return build(self.program, [type_of(x) for x in arrays], "calibration")


def _probes() -> list[_Probe]:
    """The programs, the most telling first."""
    return [
        _stream(1 << 20),
        _product(256, "float32"),
        _Probe(*CALL, _chain(1), lambda: [_numbers(8)]),
        _Probe(
            "leaves",
            2.0 * LEAVES,
            lambda *xs: [x + 1.0 for x in xs],
            lambda: [_numbers(8)] * LEAVES,
        ),
        _Probe("rounds", float(ROUNDS), _rounds, lambda: [_numbers(SIDE, SIDE)] * 2),
        _product(32, "float32"),
        *(_counted("additions", 32, _chain(16), count) for count in (1 << 18, 1 << 12)),
        *(_counted("series", 85, _series, count) for count in (1 << 12, 1 << 18)),
        _product(1024, "float32"),
        _gathering(1 << 20),
        *(_stream(count) for count in (1 << 12, 1 << 16)),
        *(_product(512, dtype) for dtype in ("bfloat16", "float64", "float16", "int8")),
        _counted("scan", 1, lambda x: OPS["cumsum"](x, axis=0), 1 << 22),
        *(_across(side) for side in (1 << 9, 1 << 11)),
        _scattering(1 << 20),
        _Probe(
            "library", 1.0, lambda x: OPS["qr"](x, full_matrices=False)[0], lambda: [_numbers(2, 2)]
        ),
        *(_sorting(1 << power) for power in (17, 12)),
        _counted("stream", 4, lambda x: OPS["reduce_sum"](x, axes=(0,)), FAR),
    ]


def _numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, 0.5, dtype)


def _counted(kind: str, each: int, program: Callable[..., Value], count: int) -> _Probe:
    """A program that does so much with each of many numbers."""
    return _Probe(kind, float(each) * count, program, lambda: [_numbers(count)])


def _stream(count: int) -> _Probe:
    return _counted("stream", 8, lambda x: x + 1.0, count)


def _product(side: int, dtype: str) -> _Probe:
    given = as_dtype(dtype)
    sums = "int32" if is_integer(given) else None

    def program(a: Value, b: Value) -> Value:
        return OPS["dot_general"](a, b, contract=((1,), (0,)), dtype=sums)

    def arrays() -> list[np.ndarray]:
        return [_numbers(side, side, dtype=given)] * 2

    return _Probe(f"product {dtype}", 2.0 * side**3, program, arrays)


def _chain(length: int) -> Callable[[Value], Value]:
    def program(x: Value) -> Value:
        y = x
        for _ in range(length):
            y = y * x + 0.25
        return y

    return program


def _series(x: Value) -> Value:
    return OPS["exp"](x) + OPS["log"](x) + OPS["sin"](x) + OPS["tanh"](x)


def _rounds(w: Value, c: Value) -> list[Value]:
    def product(w: Value, c: Value) -> list[Value]:
        return [OPS["dot_general"](c, w, contract=((1,), (0,)))]

    body = build(product, [w.type, c.type], "round")
    attrs = {"body": body, "length": ROUNDS, "n_constants": 1, "n_carry": 1}
    return list(OPS["scan"].apply([w, c], OPS["scan"].complete(attrs)))


def _across(side: int) -> _Probe:
    def arrays() -> list[np.ndarray]:
        return [_numbers(side, side)]

    return _Probe("strided", float(side**2), lambda x: OPS["transpose"](x, axes=(1, 0)), arrays)


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


def _sorting(count: int) -> _Probe:
    size = count * math.log2(count)

    def arrays() -> list[np.ndarray]:
        return [np.random.default_rng(0).normal(size=count).astype(np.float32)]

    return _Probe("sort", size, lambda x: OPS["sort"](x, axis=0)[0], arrays)
