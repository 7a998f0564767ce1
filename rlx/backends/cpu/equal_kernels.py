"""Deduplication of kernels: equal ones are compiled once.

The layers of a model differ in their buffers only. Equal steps are written once; of what is
written for others equal texts are found. A kernel is a function with a pointer table of
its own: the sizes if they are symbolic, the scratch of the matrix kernels, then its buffers in the
order in which its text first names them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from ...ir.record import field, record
from ...lower.lir.program import Buffer
from .control import put_pointer, write_table
from .llvm.text import Function, Module
from .loops.kernels import Layout
from .runtime.pool import parallel

_PRODUCT = re.compile(r"@product_(\d+)_")
_SLOT = re.compile(r"%slot_(\d+)_")


@record
class Written:
    """The function written for a step, and how to call it."""

    name: str
    places: Sequence[int]  # of the buffers that it takes in the list that `canonical` gives
    parts: int | str  # in which it runs
    cost: float  # nanoseconds
    scratch: int  # bytes of the matrix kernels


@record(frozen=False)
class EqualKernels:
    """The kernels of a module by their texts, own functions and tables included.

    The names in these are those of the first such kernel: `product_` and the number of functions
    there were before it.
    """

    module: Module
    complete: Callable[[Sequence[Function]], None]  # takes functions that will not change
    is_symbolic: bool = False
    known: dict[str, str] = field(default_factory=dict)  # text -> name of the function
    called: list[str] = field(default_factory=list)  # functions, in the order of their calls

    def begin(self) -> tuple[int, int, int]:
        """Begin a kernel, and remember what the module has so far."""
        return len(self.module.functions), len(self.module.globals), len(self.module.shared)

    def layout(self, buffers: Sequence[Buffer]) -> Layout:
        """The layout to write a kernel with: pointers by name, with slots assigned later."""
        names = {b: f"%slot_{i}_" for i, b in enumerate(buffers)}
        return Layout({}, self.is_symbolic - 1, names)

    def settle(self, kernel: Function, before: tuple[int, int, int]) -> tuple[str, list[int]]:
        """End a kernel, and give the function to call: an earlier one if it is equal.

        The numbers are those of its buffers in the order of the table.
        """
        module, (count, lines, shared) = self.module, before
        made = list(module.functions.values())[count:]
        every = "\n".join(line for f in made for line in f.lines)
        order = [int(number) for number in dict.fromkeys(_SLOT.findall(every))]
        places = {f"%slot_{number}_": i for i, number in enumerate(order)}
        for f in made:
            _load_slots(f, places, self.is_symbolic + 1)
        if len(module.shared) != shared:  # others will use what came with it
            self.complete(made)
            return kernel.name, order
        text = "\n".join([*(f.text for f in made), *module.globals[lines:]])
        text = text.replace(f"@{kernel.name}(", "@")

        def counted_from_here(name: re.Match[str]) -> str:
            number = int(name[1])
            return f"@product_+{number - count}_" if number > count else name[0]

        text = _PRODUCT.sub(counted_from_here, text)
        found = self.known.setdefault(text, kernel.name)
        if found == kernel.name:
            self.complete(made)
        else:
            for f in made:
                del module.functions[f.name]
            del module.globals[lines:]
        return found, order

    def call(
        self, f: Function, layout: Layout, name: str, buffers: Sequence[Buffer], parts: int | str
    ) -> None:
        """Call the function of a kernel with its buffers, perhaps for several parts."""
        self.called.append(name)
        table = self.table(f, layout, buffers)
        if parts == 1:
            f.do(f"call void @{name}(ptr {table}, i64 0, i64 1)")
        else:
            parallel(f, f"@{name}", table, str(parts))

    def table(self, f: Function, layout: Layout, buffers: Sequence[Buffer]) -> str:
        """Write the pointer table of a kernel with these buffers.

        For static sizes the offsets of pointers are data and not code.
        """
        if self.is_symbolic:
            sizes = f.emit("load ptr, ptr %table, align 8, !invariant.load !0")
            return write_table(
                f, [sizes, layout.scratch(f), *(layout.pointer(f, b) for b in buffers)]
            )
        module = self.module
        if "gather" not in module.functions:
            _emit_gather(module)
        found = [(0, 0) if b in layout.names else layout.place(b) for b in buffers]
        places = list(itertools.chain(layout.place(None), *found))
        name, count = f"@places_{len(module.globals)}", len(places) // 2
        numbers = ", ".join(f"i64 {n}" for n in places)
        module.globals.append(f"{name} = internal constant [{len(places)} x i64] [{numbers}]")
        table = f.reserve(f"[{count} x ptr]", 8)
        f.do(f"call void @gather(ptr %table, ptr {table}, ptr {name}, i64 {count})")
        for i, buffer in enumerate(buffers, start=1):
            if buffer in layout.names:
                put_pointer(f, table, i, layout.names[buffer])
        return table


def _load_slots(f: Function, places: dict[str, int], start: int) -> None:
    """Let a function load the pointers that it names."""
    text = "\n".join(f.lines)
    for name, place in places.items():
        if name in text:
            text = text.replace(name, f"%slot{place}")
            f.reserved += [
                f"  %at{place} = getelementptr inbounds ptr, ptr %table, i64 {start + place}",
                f"  %slot{place} = load ptr, ptr %at{place}, align 8",
            ]
    f.lines = [text]


def _emit_gather(module: Module) -> None:
    """`gather(table, into, places, count)`: pointers of a table with bytes added, in another."""
    parameters = "ptr %table, ptr %into, ptr %places, i64 %count"
    f = module.internal("gather", parameters, attributes="optnone noinline nounwind")
    with f.loop("0", "%count") as loop:
        place = f.emit(f"getelementptr inbounds [2 x i64], ptr %places, i64 {loop.index}")
        slot = f.emit(f"load i64, ptr {place}, align 8")
        more = f.emit(f"load i64, ptr {f.offset(place, 'i64', '1')}, align 8")
        pointer = f.emit(f"load ptr, ptr {f.offset('%table', 'ptr', slot)}, align 8")
        pointer = f.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {more}")
        f.do(f"store ptr {pointer}, ptr {f.offset('%into', 'ptr', loop.index)}, align 8")
    f.do("ret void")
