"""A program's steps over memory of their own, products in several ways, timed.

Steps run in the program's order, so that a product finds in the caches what it finds there in the
program. Loops, sorts, calls of libraries, and steps whose places depend on numbers are left out:
the memory holds numbers that are made up.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...lower.lir.program import Buffer, Chain, Contraction, Copy, Kernel, Program, Rows, Step
from . import pool
from .contraction import contracts_natively, problem_of, rows_along_columns
from .gemm_plan import Blocking, Problem
from .llvm import machine
from .llvm.compiling import Compiles
from .llvm.host import Host
from .loops.kernels import Layout
from .program import KERNEL, ProgramWriter
from .python_entry import aligned_array

RUNS = 3  # in succession: what the first finds in the caches another way may have left
ROUNDS = 16
PATTERN = 4096  # numbers that memory is filled with, again and again
Ways = Mapping[Problem, Sequence[Blocking]]
Piece = tuple[Problem | None, list[Step]]


def is_product(step: Step) -> bool:
    """Whether a step is a product of known sizes for the matrix kernel."""
    return isinstance(step, Contraction) and step.is_static and contracts_natively(step)


def product_of(step: Contraction) -> Problem:
    """The product that a step computes."""
    return problem_of(rows_along_columns(step))


@dataclass(frozen=True)
class Rehearsal:
    """A program in pieces: a product in some ways, or steps between products.

    `calls` has for each way the functions of the pieces by their numbers, those of other steps with
    the first way; they take the `table` of pointers.
    """

    pieces: Sequence[Piece]
    calls: Sequence[Mapping[int, Callable[[Any], int]]]
    table: Any
    keep_alive: tuple[object, ...]

    @staticmethod
    def of(program: Program, host: Host, ways: Ways) -> Rehearsal:
        """Compile a program for a rehearsal, and make up its numbers."""
        pieces = list(_pieces(program, ways))
        bound = (*program.inputs, *program.outputs, *program.constants)
        arena = -(-_number(program.arena_bytes) // 64) * 64
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
        """How many times as fast as in its first chosen way each product is in the others.

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
        """Run all pieces; gives the seconds of each."""
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
        problem = product_of(step) if isinstance(step, Contraction) and is_product(step) else None
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
    """Whether a step needs nothing but memory, and goes to the same places whatever that holds."""
    if isinstance(step, Chain):
        return all(map(_is_harmless, step.steps))
    if isinstance(step, Rows):
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
    """Products in the way with this number as functions; other steps go with the first one."""
    plans = {p: every[number] for p, every in ways.items() if number < len(every)}
    writer = ProgramWriter(replace(host, plans=plans))
    writer.begin()
    for i, (problem, steps) in enumerate(pieces):
        if problem in plans or (problem is None and number == 0):
            attributes = f"optnone noinline {KERNEL}"
            f = writer.module.function(_name(i), [("ptr", "%table")], "i32", attributes)
            for step in steps:
                writer.step(f, step, layout, is_short=False)
            f.do("ret i32 0")
    return writer


def _name(piece: int) -> str:
    return f"piece_{piece}"


def _panel_rooms(pieces: Sequence[Piece], ways: Ways) -> dict[Buffer, int]:
    """How many bytes the panels that were packed early need, whatever the way."""
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


def _number(size: Any) -> int:
    assert isinstance(size, int), "programs of symbolic sizes are not rehearsed"
    return size
