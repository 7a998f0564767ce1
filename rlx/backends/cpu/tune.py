"""Autotuning: the fastest ways of products are measured for `jit(tier="max")`.

What is found is kept on disk, by the ways there are, the processor, the threads, and rlx's files.
All ways give the same bits (`alternatives`), so whatever is found, or not found in time, a
program's results are the same.

A `Rehearsal` is a program's steps over memory of their own, timed with its products in several
ways. Steps run in the program's order, so that a product finds in the caches what it finds there in
the program. Loops, sorts, calls of libraries, and steps whose places depend on numbers are left
out: the memory holds numbers that are made up.
"""

from __future__ import annotations

import ctypes
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.bind import is_symbolic
from ...ir.dims import static
from ...ir.record import record, replace
from ...lower.lir.program import Buffer, Chain, Contraction, Copy, Kernel, Program, RowGroup, Step
from ..disk import DiskCache, disk_cache, hashed, sources
from .llvm import machine
from .llvm.compiling import Compiles
from .llvm.host import Host
from .llvm.machine import compiler
from .llvm.text import AS_WRITTEN
from .loops.costs import product_cost
from .loops.kernels import Layout
from .products.choice import alternatives
from .products.constants import pack_constants
from .products.contraction import (
    is_native,
    plan_contraction,
    problem_of,
    rows_along_columns,
    shares_batch,
)
from .products.problem import Blocking, Problem
from .program import ProgramWriter
from .runtime import pool
from .runtime.python_entry import aligned_array

LEAST = 20_000  # nanoseconds of a product
SHARE = 0.01  # of the time of a program's products
MOST = 24  # products of a program
LARGEST = 1 << 30  # bytes of a program's memory
SECONDS = 2.5  # to measure all ways for; after that, half as many for the best ones
BETTER = 1.05  # times as fast, at least: less may be chance


@record
class Tuned:
    """A tuned plan of a product, and its speed-up over the model's plan."""

    blocking: Blocking
    gain: float = 1.0

    @property
    def text(self) -> str:
        """One line for reports."""
        p = self.blocking.problem
        p = p.transposed if self.blocking.swapped else p
        title = f"product of {p.m} x {p.k} by {p.k} x {p.n} ({p.dtype})"
        if self.gain == 1.0:
            return f"{title}: measured, no other way is faster"
        return f"{title}: tuned, {described(self.blocking)}; {self.gain:.2f}x the model's"


def described(blocking: Blocking) -> str:
    """Describe the plan of a product."""
    packed = [x for x, is_so in (("a", blocking.pack_a), ("b", blocking.pack_b)) if is_so]
    words = [
        f"{blocking.tile.rows} x {blocking.tile.vectors} tiles",
        f"packs {' and '.join(packed)}" if packed else "packs nothing",
        f"{blocking.row_panels} + {blocking.column_panels} panels",
        "along rows" if blocking.along_rows else "down columns",
    ]
    return ", ".join([*words, *([f"{blocking.down} threads down"] if blocking.down else [])])


def tune(program: Program, fixed: int, host: Host) -> dict[Problem, Tuned]:
    """Autotune the products of a program that take long."""
    if is_symbolic([b.type for b in program.inputs]) or not isinstance(program.arena_bytes, int):
        return {}
    program = replace(program)
    if fixed:
        pack_constants(program, fixed, host)
    ways = _ways(program, host)
    disk = disk_cache()
    files = sources(disk) if disk and ways else ""
    keys = {p: hashed("product", x, host, compiler(), files) for p, x in ways.items() if files}
    found = {p: known for p, key in keys.items() if (known := _read(disk, key, ways[p]))}
    unknown = {p: every for p, every in ways.items() if p not in found}
    bound = (*program.inputs, *program.outputs, *program.constants)
    if unknown and program.arena_bytes + sum(b.nbytes for b in bound) <= LARGEST:
        known = {p: [tuned.blocking] for p, tuned in found.items()}
        measured = _measured(program, host, unknown, known)
        for problem in measured.keys() & keys.keys():
            _write(disk, keys[problem], measured[problem])
        found |= measured
    return found


def _ways(program: Program, host: Host) -> Ways:
    """The products that take long, with their candidate plans, the model's first."""
    costs: dict[Problem, float] = defaultdict(float)
    steps: dict[Problem, Contraction] = {}
    for step in program.steps:
        if isinstance(step, Contraction) and is_native(step):
            problem, cost = product_of(step), product_cost(step, host)
            if cost >= LEAST:
                costs[problem] += cost
                steps.setdefault(problem, step)
    least = SHARE * sum(costs.values())
    worth = sorted((p for p in costs if costs[p] >= least), key=lambda p: -costs[p])[:MOST]
    ways = {}
    for problem in worth:
        step = steps[problem]
        parts = 1 if shares_batch(step, host) else host.cores
        ways[problem] = alternatives(plan_contraction(step, host, parts), host, parts)
    return {p: every for p, every in ways.items() if len(every) > 1}


def _measured(program: Program, host: Host, ways: Ways, known: Ways) -> dict[Problem, Tuned]:
    """The fastest plans: found by one measurement, and confirmed by a second.

    If the whole program is no faster with them, they are not taken. Other products are computed
    in the one way that is `known`.
    """
    rehearsal = Rehearsal.of(program, host, {**ways, **known})
    gains, _ = rehearsal.gains({p: range(len(every)) for p, every in ways.items()}, SECONDS)
    found = {p: Tuned(ways[p][0]) for p in gains}
    best = {p: max(range(len(every)), key=every.__getitem__) for p, every in gains.items()}
    better = {p: (0, i) for p, i in best.items() if gains[p][i] >= BETTER}
    if not better:
        return found
    gains, whole = rehearsal.gains(better, SECONDS / 2)
    if whole and whole[1] > 1.0:
        for problem, (_, gain) in gains.items():
            if gain >= BETTER:
                found[problem] = Tuned(ways[problem][better[problem][1]], gain)
    return found


def _read(disk: DiskCache | None, key: str, ways: Sequence[Blocking]) -> Tuned | None:
    """Read earlier measurements, and remove invalid ones."""
    content = disk.get(key) if disk else None
    if disk is None or content is None:
        return None
    try:
        gain, way = content.decode().split(" ", 1)
        return Tuned({described(b): b for b in ways}[way], float(gain))
    except (ValueError, KeyError):
        disk.remove(key)
        return None


def _write(disk: DiskCache | None, key: str, tuned: Tuned) -> None:
    if disk:
        disk.put(key, f"{tuned.gain:.3f} {described(tuned.blocking)}".encode())


RUNS = 3  # in succession: what the first finds in the caches another way may have left
ROUNDS = 16
PATTERN = 4096  # numbers that memory is filled with, again and again
Ways = Mapping[Problem, Sequence[Blocking]]
Piece = tuple[Problem | None, list[Step]]


def product_of(step: Contraction) -> Problem:
    """The product that a step computes."""
    return problem_of(rows_along_columns(step))


@record
class Rehearsal:
    """A program in pieces to time: products by several plans, and steps between."""

    pieces: Sequence[Piece]
    # for each way the functions of the pieces by their numbers; the first has other steps, too
    calls: Sequence[Mapping[int, Callable[[Any], int]]]
    table: Any  # of pointers, which the functions take
    keep_alive: tuple[object, ...]

    @staticmethod
    def of(program: Program, host: Host, ways: Ways) -> Rehearsal:
        """Compile a program in pieces, with made-up inputs."""
        pieces = list(_pieces(program, ways))
        bound = (*program.inputs, *program.outputs, *program.constants)
        arena = -(-static(program.arena_bytes) // 64) * 64
        layout = Layout({b: i for i, b in enumerate(bound)}, len(bound), {}, arena)
        with Compiles() as compiles:
            writers = [
                _written(pieces, layout, host, ways, i) for i in range(max(map(len, ways.values())))
            ]
            objects = compiles.finish([writer.module.text for writer in writers])
        libraries, calls = [], []
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        for code, writer in zip(objects, writers, strict=True):
            names = {n: i for i in range(len(pieces)) if (n := _name(i)) in writer.module.functions}
            library = machine.Library([code], list(names), pool.symbols(can_stop=False))
            calls.append({i: kind(library.address(name)) for name, i in names.items()})
            libraries.append(library)
        rooms = _panel_rooms(pieces, ways)
        memory = [_filled(b, rooms.get(b, 0)) for b in bound]
        memory.append(_zeros(arena + max(writer.scratch for writer in writers)))
        table = (ctypes.c_void_p * len(memory))(*(array.ctypes.data for array in memory))
        return Rehearsal(pieces, calls, table, (libraries, memory))

    def gains(
        self, chosen: Mapping[Problem, Sequence[int]], seconds: float
    ) -> tuple[dict[Problem, list[float]], list[float]]:
        """The speed-up of each plan of each product over the first one.

        All its places in the program count together. Products that are not chosen run in their
        first way. It also gives the same for the whole program, with all products in their first
        chosen way, their second, and so on. Both are empty if there is no time for all ways.
        """
        count = max(map(len, chosen.values()))
        self._run(chosen, 0)
        runs = min(RUNS, int(seconds / count / sum(self._run(chosen, 0))))
        if not runs:
            return {}, []
        rounds: list[list[np.ndarray]] = []
        began = time.perf_counter()
        while len(rounds) < ROUNDS:
            rounds.append([self._shortest(chosen, way, runs) for way in range(count)])
            if (time.perf_counter() - began) * (len(rounds) + 1) / len(rounds) > seconds:
                break
        pieces = np.array(rounds)
        found = {}
        for problem, ways in chosen.items():
            places = [i for i, (other, _) in enumerate(self.pieces) if other == problem]
            found[problem] = _ratios(pieces[:, : len(ways), places])
        return found, _ratios(pieces)

    def _shortest(
        self, chosen: Mapping[Problem, Sequence[int]], number: int, runs: int
    ) -> np.ndarray:
        """The seconds of each piece in the best of some runs in succession."""
        return np.min([self._run(chosen, number) for _ in range(runs)], axis=0)

    def _run(self, chosen: Mapping[Problem, Sequence[int]], number: int) -> list[float]:
        """Run all pieces, and give the seconds of each."""
        clock, table, took = time.perf_counter, self.table, []
        for call in [self.calls[self._way(chosen, i, number)][i] for i in range(len(self.pieces))]:
            began = clock()
            call(table)
            took.append(clock() - began)
        return took

    def _way(self, chosen: Mapping[Problem, Sequence[int]], piece: int, number: int) -> int:
        problem = self.pieces[piece][0]
        if problem is None or problem not in chosen:
            return 0
        return chosen[problem][number % len(chosen[problem])]


def _ratios(times: np.ndarray) -> list[float]:
    """The time of the first way over that of each, as in most rounds."""
    totals = times.sum(axis=2)
    return np.median(totals[:, :1] / totals, axis=0).tolist()


def _pieces(program: Program, ways: Ways) -> Iterator[Piece]:
    between: list[Step] = []
    for step in filter(_is_harmless, program.steps):
        problem = product_of(step) if isinstance(step, Contraction) and is_native(step) else None
        if problem not in ways:
            between.append(step)
            continue
        if between:
            yield None, between
            between = []
        yield problem, [step]
    if between:
        yield None, between


def _is_harmless(step: Step) -> bool:
    """Whether a step may run on made-up numbers: no callbacks, no computed places."""
    if isinstance(step, Chain):
        return all(map(_is_harmless, step.steps))
    if isinstance(step, RowGroup):
        return all(map(_is_harmless, step.kernels))
    if not isinstance(step, Kernel | Contraction):
        return isinstance(step, Copy)
    exprs = [s.expr for s in step.stores]
    if isinstance(step, Contraction):
        exprs += [step.lhs, step.rhs]
    indices = [s.index for s in step.stores] + [load.index for e in exprs for load in e.loads]
    return not any(index.loads for index in indices)


def _written(
    pieces: Sequence[Piece], layout: Layout, host: Host, ways: Ways, number: int
) -> ProgramWriter:
    """Write products by the plan with this number, and other steps with the first."""
    tuning = {p: every[number] for p, every in ways.items() if number < len(every)}
    writer = ProgramWriter(host, tuning=tuning)
    writer.begin()
    for i, (problem, steps) in enumerate(pieces):
        if problem in tuning or (problem is None and number == 0):
            f = writer.module.function(_name(i), [("ptr", "%table")], "i32", AS_WRITTEN)
            for step in steps:
                writer.step(f, step, layout, is_short=False)
            f.do("ret i32 0")
    return writer


def _name(piece: int) -> str:
    return f"piece_{piece}"


def _panel_rooms(pieces: Sequence[Piece], ways: Ways) -> dict[Buffer, int]:
    """The bytes of early packed panels, enough for every plan."""
    rooms: dict[Buffer, int] = {}
    for problem, (step, *_) in pieces:
        if problem is None or not isinstance(step, Contraction):
            continue
        step = rows_along_columns(step)
        for buffer, sides in ((step.lhs_panels, "ab"), (step.rhs_panels, "ba")):
            if buffer is not None:
                needed = (way.panels_bytes(sides[way.swapped]) for way in ways[problem])
                rooms[buffer] = max(rooms.get(buffer, 0), *needed)
    return rooms


def _filled(buffer: Buffer, room: int) -> np.ndarray:
    """Memory for a buffer: a constant's own, else small numbers; integers are zero."""
    if buffer.array is not None:
        return np.ascontiguousarray(buffer.array)
    array = _zeros(max(buffer.nbytes, room))
    kind = np.dtype(np.float32) if room else buffer.number_dtype
    if kind.kind in "biu":
        return array
    pattern = np.random.default_rng(0).uniform(-0.1, 0.1, PATTERN).astype(kind).view(np.uint8)
    whole = array.size // pattern.size * pattern.size
    array[:whole].reshape(-1, pattern.size)[...] = pattern
    array[whole:] = pattern[: array.size - whole]
    return array


def _zeros(nbytes: int) -> np.ndarray:
    array = aligned_array((max(nbytes, 1),), np.dtype(np.uint8))
    array[...] = 0  # so that the system gives the memory now
    return array
