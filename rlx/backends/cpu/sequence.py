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
from itertools import accumulate
from typing import Any

import numpy as np

from ...ir.bind import SizeChecks, bind_sizes, concrete_type, is_symbolic
from ...ir.dims import Size, concrete
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
# in the table of the sequence, bytes behind what that holds, and what is added to these
Place = tuple[int, int, Hashable]


def sequence_executable(plan: Plan, make_entry: Callable[..., Entry]) -> Executable:
    """An executable that runs the programs of a plan.

    `make_entry(main, inputs, outputs, ...)` makes the Python callable of machine code.
    """
    types, layout = plan.types[: plan.inputs], _Layout(plan)

    def entry(**how: bool) -> Entry:
        def make(sizes: Sizes) -> Entry:
            sized, runner = _Sized(layout, sizes), _runner(plan.inputs + len(plan.outputs))
            return make_entry(
                runner.address("run"),
                sized.inputs,
                sized.outputs,
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

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The open sizes for shapes of arguments; raises if an op does not take them."""
        sizes = bind_sizes(self.types, shapes, [f"argument {i}" for i in range(len(shapes))])
        self.check_sizes(sizes)
        return sizes


class _Layout:
    """Where the arrays of a plan lie, for any numbers of its sizes.

    What depends on the numbers are some addends of the words: for a new combination of sizes there
    is little to do.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self._first = plan, plan.chains
        self._null = plan.inputs + len(plan.outputs) + 1  # in the table; the words come before
        self.blocks: list[Size] = []  # bytes of each part of the arena
        self.kinds: dict[Hashable, PlannedCall] = {}  # calls that differ in code or types
        self._kinds = [self._kind(call) for call in plan.calls]
        places = self._placed()
        written = list(self._written(places))
        self._words = np.array([word for word, _ in written], np.int64)
        names = {addend: i for i, addend in enumerate(self._addends)}
        self._which = np.array([names[addend] for _, addend in written])

    @property
    def _addends(self) -> list[Hashable]:
        """What is added to words: nothing, starts of blocks, their end, addresses of sizes."""
        return [None, *range(len(self.blocks) + 1), *self.kinds]

    def words(self, starts: Sequence[int], numbers: Sequence[int]) -> np.ndarray:
        """The words of the plan.

        `starts` are those of the blocks, and where they end; `numbers` the addresses of the sizes
        of each kind of call.
        """
        return self._words + np.array([0, *starts, *numbers], np.int64)[self._which]

    def arrays(self, call: PlannedCall) -> list[Type | np.ndarray]:
        """The arguments of a call: types, and constants."""
        types = self.plan.types
        return [*(types[x] if isinstance(x, int) else x for x in call.args), *call.held]

    def _kind(self, call: PlannedCall) -> Hashable:
        given = [x if isinstance(x, Type) else x.shape for x in self.arrays(call)]
        kind = call.native, tuple(given)
        self.kinds.setdefault(kind, call)
        return kind

    def _placed(self) -> list[Place]:
        """A place for each array; those that lie in the arena are given blocks."""
        plan, first, last = self.plan, self._first, {}
        outputs = {first[x]: place for place, x in enumerate(plan.outputs, plan.inputs)}
        for number, call in enumerate(plan.calls):
            given = [x for x in call.args if isinstance(x, int)]
            last |= {first[x]: number for x in (*given, *call.results)}
        places: list[Place] = [(i, 0, None) for i in range(plan.inputs)]
        held: dict[int, int] = {}  # blocks by what they hold
        free: dict[Size, list[int]] = defaultdict(list)  # blocks by their size
        for number, call in enumerate(plan.calls):
            for result in call.results:
                chain = first[result]
                if chain in outputs:
                    places.append((outputs[chain], 0, None))
                    continue
                if chain not in held:
                    size = plan.types[result].nbytes
                    if not free[size]:
                        free[size].append(len(self.blocks))
                        self.blocks.append(size)
                    held[chain] = free[size].pop()
                places.append((self._null + 1, 0, held[chain]))
            for chain in [x for x in held if last[x] == number]:
                block = held.pop(chain)
                free[self.blocks[block]].append(block)
        return places

    def _written(self, places: Sequence[Place]) -> Iterator[tuple[int, Hashable]]:
        """The words of the plan, and what is added to each."""
        calls = zip(self.plan.calls, self._kinds, strict=True)
        tables = [[*self._pointers(call, kind, places)] for call, kind in calls]
        yield from ((len(tables), None), (max(map(len, tables)), None))
        for call, table in zip(self.plan.calls, tables, strict=True):
            yield from ((call.native.main, None), (len(table), None))
            for slot, behind, addend in table:
                yield from ((slot, None), (behind, addend))

    def _pointers(
        self, call: PlannedCall, kind: Hashable, places: Sequence[Place]
    ) -> Iterator[Place]:
        """What the table of a program holds: arrays, sizes if they are open, temporaries."""
        for x in (*call.args, *call.held, *call.results):
            yield places[x] if isinstance(x, int) else (self._null, x.ctypes.data, None)
        if call.native.code.dims is not None:
            yield self._null, 0, kind
        yield self._null + 1, 0, len(self.blocks)  # temporaries of the program that runs


class _Sized:
    """A plan for numbers of its sizes: the words of it, and what they point to."""

    def __init__(self, layout: _Layout, sizes: Sizes) -> None:
        self._layout = layout  # its constants
        known: dict[Type, Type] = {}

        def sized(given: Type) -> Type:
            if given not in known:
                known[given] = concrete_type(given, sizes)
            return known[given]

        plan = layout.plan
        self.inputs = [*map(sized, plan.types[: plan.inputs])]
        self.outputs = [sized(plan.types[i]) for i in plan.outputs]
        bytes_of_blocks = [-(-concrete(n, sizes) // ALIGNMENT) * ALIGNMENT for n in layout.blocks]
        starts = [0, *accumulate(bytes_of_blocks)]
        self._numbers, shared = list[np.ndarray](), ALIGNMENT
        for call in layout.kinds.values():
            code, own = call.native.code, dict[str, int]()
            if code.dims is not None:
                arrays = (sized(x) if isinstance(x, Type) else x for x in layout.arrays(call))
                own = call.native.sizes([x.shape for x in arrays])
            self._numbers.append(code.numbers(own))
            shared = max(shared, concrete(code.memory, own))
        self.words = layout.words(starts, [x.ctypes.data for x in self._numbers])
        self.arena_bytes = starts[-1] + shared


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
