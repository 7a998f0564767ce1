"""Sequences of compiled programs as one program: no Python between them.

What a program takes is known before it runs: places in the arguments, results and temporaries of
the sequence, and fixed addresses. A plan of 64-bit words says so, which machine code walks:

    number of programs, the most pointers that one takes
    for each program: its address, its number of pointers
        for each pointer: a place in the table of the sequence, and bytes behind what that holds
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...ir.bind import SizeChecks, bind_sizes, concrete_type, is_symbolic
from ...ir.dims import concrete
from ...ir.record import record
from ...ir.types import Type
from ..backend import Executable, Plan, PlannedCall
from ..entries import Sizes, sized_entry
from .disk_code import Code
from .llvm import machine
from .llvm.compiling import load_cached
from .llvm.text import Module
from .runtime.polls import checked

ALIGNMENT = 64
Entry = Callable[..., Any]
Place = tuple[int, int]  # in the table of the sequence, and bytes behind what that holds


def sequence_executable(plan: Plan, make_entry: Callable[..., Entry]) -> Executable:
    """An executable that runs the programs of a plan.

    `make_entry(main, inputs, outputs, ...)` makes the Python callable of machine code.
    """
    types = plan.types[: plan.inputs]

    def entry(**how: bool) -> Entry:
        def make(sizes: Sizes) -> Entry:
            sized, runner = _Sized(plan, sizes), _runner(plan.inputs + len(plan.outputs))
            given = sized.types[: plan.inputs], [sized.types[i] for i in plan.outputs]
            return make_entry(
                runner.address("run"),
                *given,
                constants=[sized.words.ctypes.data, 0],
                arena_bytes=sized.arena_bytes,
                release_gil=any(call.native.code.is_long for call in plan.calls),
                keep_alive=(plan, sized, runner),  # two threads may have made a runner each
                **how,
            )

        return sized_entry(types, make) if is_symbolic(types) else make({})

    return Executable(
        entry(),
        make_report=lambda: f"{len(plan.calls)} programs in sequence",
        make_entry_into=lambda: entry(takes_outputs=True),
        make_entry_filling=lambda: entry(fills_outputs=True),
        reused_memory=lambda donated: {
            result: given for result, given in plan.reused.items() if given in donated
        },
    )


@record(eq=False)
class Native:
    """A program in this process: what is known of its code, its address, its graph."""

    code: Code
    main: int
    types: Sequence[Type]  # of its arguments
    check_sizes: SizeChecks
    library: object  # lives as long

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The open sizes for shapes of arguments; raises if an op does not take them."""
        sizes = bind_sizes(self.types, shapes, [f"argument {i}" for i in range(len(shapes))])
        self.check_sizes(sizes)
        return sizes


class _Sized:
    """A plan for numbers of its sizes: the words of it, and what they point to."""

    def __init__(self, plan: Plan, sizes: Sizes) -> None:
        self._plan, self._first = plan, plan.chains
        self.types = [concrete_type(t, sizes) for t in plan.types]
        self._null = plan.inputs + len(plan.outputs) + 1  # in the table; the words come before
        self._numbers: dict[Hashable, np.ndarray] = {}  # of open sizes, by program and shapes
        shared = max(map(self._memory, plan.calls))
        self._places, own = self._placed()
        self.arena_bytes = own + shared
        self._shared = self._null + 1, own  # temporaries of the program that runs
        self.words = np.array(list(self._written()), np.int64)

    def _key(self, call: PlannedCall) -> tuple[Native, tuple[tuple[int, ...], ...]]:
        arrays = [self.types[x] if isinstance(x, int) else x for x in call.args]
        return call.native, tuple([x.shape for x in (*arrays, *call.held)])  # type: ignore[misc]

    def _memory(self, call: PlannedCall) -> int:
        """The bytes of temporaries of a program; finds its sizes if they are open."""
        code, sizes = call.native.code, {}
        if code.dims is not None:
            key = self._key(call)
            if key in self._numbers:  # those of an equal call
                return ALIGNMENT
            sizes = call.native.sizes(key[1])
            self._numbers[key] = code.numbers(sizes)
        return max(ALIGNMENT, concrete(code.memory, sizes))

    def _placed(self) -> tuple[list[Place], int]:
        """A place for each array, and the bytes of those in the arena of the sequence."""
        plan, first, last = self._plan, self._first, {}
        outputs = {first[x]: place for place, x in enumerate(plan.outputs, plan.inputs)}
        for number, call in enumerate(plan.calls):
            given = [x for x in call.args if isinstance(x, int)]
            last |= {first[x]: number for x in (*given, *call.results)}
        places: list[Place] = [(i, 0) for i in range(plan.inputs)]
        blocks: dict[int, Place] = {}
        free: dict[int, list[int]] = defaultdict(list)  # offsets of blocks by their size
        end = 0
        for number, call in enumerate(plan.calls):
            for result in call.results:
                chain = first[result]
                if chain in outputs:
                    places.append((outputs[chain], 0))
                    continue
                if chain not in blocks:
                    size = -(-self.types[result].nbytes // ALIGNMENT) * ALIGNMENT
                    blocks[chain] = free[size].pop() if free[size] else end, size
                    end = max(end, sum(blocks[chain]))
                places.append((self._null + 1, blocks[chain][0]))
            for chain in [x for x in blocks if last[x] == number]:
                offset, size = blocks.pop(chain)
                free[size].append(offset)
        return places, end

    def _written(self) -> Iterator[int]:
        """The words of the plan."""
        tables = [[*self._pointers(call)] for call in self._plan.calls]
        yield from (len(tables), max(map(len, tables)))
        for call, table in zip(self._plan.calls, tables, strict=True):
            yield from (call.native.main, len(table))
            for place in table:
                yield from place

    def _pointers(self, call: PlannedCall) -> Iterator[Place]:
        """What the table of a program holds: arrays, sizes if they are open, temporaries."""
        for x in (*call.args, *call.held, *call.results):
            yield self._places[x] if isinstance(x, int) else (self._null, x.ctypes.data)
        if call.native.code.dims is not None:
            yield self._null, self._numbers[self._key(call)].ctypes.data
        yield self._shared


@cache
def _runner(place: int) -> machine.Library:
    """The code that walks the plan whose address stands at a place of the table."""
    return load_cached(runner_text(place))


def runner_text(place: int) -> str:
    """The LLVM text of `i32 run(ptr table)`."""
    module = Module()
    f = module.function("run", [("ptr", "%table")], "i32")
    plan = f.emit(f"load ptr, ptr {f.offset('%table', 'ptr', str(place))}")
    count, most = (f.emit(f"load i64, ptr {f.offset(plan, 'i64', i)}") for i in "01")
    given = f.emit(f"alloca ptr, i64 {most}")
    with f.loop("0", count, carried=[("ptr", f.offset(plan, "i64", "2"))]) as programs:
        at = programs.values[0]
        main = f.emit(f"load ptr, ptr {at}")
        pointers = f.emit(f"load i64, ptr {f.offset(at, 'i64', '1')}")
        with f.loop("0", pointers, carried=[("ptr", f.offset(at, "i64", "2"))]) as each:
            word = each.values[0]
            slot = f.emit(f"load i64, ptr {word}")
            start = f.emit(f"load ptr, ptr {f.offset('%table', 'ptr', slot)}")
            behind = f.emit(f"load i64, ptr {f.offset(word, 'i64', '1')}")
            pointer = f.emit(f"getelementptr i8, ptr {start}, i64 {behind}")
            f.do(f"store ptr {pointer}, ptr {f.offset(given, 'ptr', each.index)}")
            each.next[0] = f.offset(word, "i64", "2")
        checked(f, f"call i32 {main}(ptr {given})")
        programs.next[0] = each.values[0]
    f.do("ret i32 0")
    return module.text
