"""A whole program as one LLVM module.

`i32 main(ptr table)` runs all steps over one arena. Nested programs become functions of their own
with a pointer table each. A table holds inputs, outputs, the arena and the scratch of the matrix
kernels.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ...lower.lir.program import (
    BranchStep,
    Buffer,
    Carry,
    Contraction,
    Copy,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    Rows,
    Scan,
    Scatter,
    Step,
    WhileStep,
)
from .code import Function, Module, Vector
from .contraction import (
    as_kernel,
    contracts_natively,
    emit_contraction,
    plan_contraction,
    scratch_bytes,
)
from .host import Host
from .kernels import (
    KERNEL_PARAMETERS,
    NANOSECONDS_PER_PART,
    Layout,
    all_exprs,
    emit_kernel,
    emit_rows,
    emit_scan,
    emit_scatter,
    estimate,
)
from .pool import parallel
from .reuse import copied_input

KERNEL = "nounwind #0"
SHORT = 4  # steps of a program that becomes one function
Callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass
class Library:
    """The library calls of a program: Python functions that compiled code calls back.

    An exception in one is kept for the thread it is in, and the program ends with a status.
    """

    keep: list[object] = field(default_factory=list)
    raised: threading.local = field(default_factory=threading.local)

    def take_error(self) -> BaseException:
        """The exception that ended the program in this thread."""
        return self.raised.__dict__.pop("error")

    def add(self, step: LibraryCall) -> int:
        """The address of a C function `i32 (ptr pointers)` that runs the step."""
        buffers = (*step.inputs, *step.outputs)

        def run(pointers: int) -> int:
            try:
                table = (ctypes.c_void_p * len(buffers)).from_address(pointers)
                arrays = [_view(a or 0, b) for a, b in zip(table, buffers, strict=True)]
                given = zip(arrays, step.input_types, strict=False)
                shaped = [a.reshape(t.shape) for a, t in given]  # type: ignore[call-overload]
                if (
                    "calls_python" in step.op.rules
                ):  # a user's function, which may keep or change them
                    shaped = [_own(a) for a in shaped]
                results = step.op.run(shaped, step.attrs)
                for target, result in zip(arrays[len(step.inputs) :], results, strict=True):
                    target[...] = result.reshape(target.shape)
                return 0
            except BaseException as error:  # no exception may pass through compiled code
                self.raised.error = error
                return 1

        callback = Callback(run)
        self.keep.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p).value or 0


def _own(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _view(address: int, buffer: Buffer) -> np.ndarray:
    """An array over memory at an address."""
    shape = buffer.type.shape
    if buffer.nbytes == 0:
        return np.empty(shape, buffer.dtype)  # type: ignore[arg-type]
    raw = (ctypes.c_char * buffer.nbytes).from_address(address)
    return np.frombuffer(raw, np.uint8).view(buffer.dtype).reshape(shape)  # type: ignore[arg-type]


@dataclass
class ProgramWriter:
    """Writes a program and its nested ones into one module."""

    host: Host
    module: Module = field(default_factory=Module)
    library: Library = field(default_factory=Library)
    scratch: int = 0
    cost: float = 0.0
    count: int = 0
    constants: list[np.ndarray] = field(default_factory=list)

    def write(self, program: Program) -> int:
        """Write `main` for a program; gives the bytes of memory it needs.

        That memory is its last pointer.
        """
        arena = -(-program.arena_bytes // 64) * 64
        self.function(program, "main", linkage="", scratch_offset=arena)
        self.module.globals.append("!0 = !{}")
        width = self.host.vector_bytes * 8
        self.module.globals.append(f'attributes #0 = {{ "prefer-vector-width"="{width}" }}')
        return arena + self.scratch

    def name(self, hint: str) -> str:
        """Give a name that no other function has."""
        self.count += 1
        return f"{hint}_{self.count}"

    def function(
        self,
        program: Program,
        name: str,
        linkage: str = "internal",
        scratch_offset: int | None = None,
    ) -> None:
        """Write `i32 name(ptr table)` for a program."""
        f = self.module.function(name, [("ptr", "%table")], "i32", KERNEL, linkage)
        places = {b: i for i, b in enumerate((*program.inputs, *program.outputs))}
        addresses = {b: self._address(b) for b in program.constants}
        layout = Layout(places, len(places), addresses, scratch_offset)
        is_short = len(program.steps) <= SHORT
        for step in program.steps:
            self.step(f, step, layout, is_short)
        f.do("ret i32 0")

    def _address(self, buffer: Buffer) -> int:
        assert buffer.array is not None, f"{buffer} has no array"
        array = np.ascontiguousarray(buffer.array)
        self.constants.append(array)
        return array.ctypes.data

    def step(self, f: Function, step: Step, layout: Layout, is_short: bool) -> None:
        """Write one step into the function of its program."""
        copied = copied_input(step)
        if copied is None:
            self._step(f, step, layout, is_short)
            return
        origin, target = (layout.pointer(f, b) for b in copied)
        with f.when(f.emit(f"icmp ne ptr {origin}, {target}")):  # the same for a donated argument
            self._step(f, step, layout, is_short)

    def _step(self, f: Function, step: Step, layout: Layout, is_short: bool) -> None:
        if isinstance(step, Contraction) and not contracts_natively(step):
            step = as_kernel(step)
        if isinstance(step, Kernel | Rows | Scan | Scatter):
            self._loops(f, step, layout, is_short)
        elif isinstance(step, Contraction):
            self._contraction(f, step, layout, is_short)
        elif isinstance(step, Copy):
            origin, target = (layout.pointer(f, b) for b in (step.origin, step.target))
            _copy_bytes(f, target, origin, step.target.nbytes)
        elif isinstance(step, LibraryCall):
            self._library(f, step, layout)
        elif isinstance(step, BranchStep):
            self._branch(f, step, layout)
        elif isinstance(step, WhileStep):
            self._while(f, step, layout)
        else:
            self._repeat(f, step, layout)

    # -- kernels --------------------------------------------------------------------------------

    def _loops(
        self, f: Function, step: Kernel | Rows | Scan | Scatter, layout: Layout, is_short: bool
    ) -> None:
        cost, splits = _cost(step), _splits(step)
        self.cost += cost
        parts = min(self.host.cores, int(cost / NANOSECONDS_PER_PART)) if splits else 1
        with self._kernel(f, parts, is_short) as (kernel, split):
            if isinstance(step, Kernel):
                emit_kernel(kernel, step, layout, self.host, split)
            elif isinstance(step, Rows):
                emit_rows(kernel, step, layout, self.host, split)
            elif isinstance(step, Scan):
                emit_scan(kernel, step, layout, self.host, split)
            else:
                emit_scatter(kernel, step, layout, self.host)

    @contextmanager
    def _kernel(
        self, f: Function, parts: int, is_short: bool, attributes: str = KERNEL
    ) -> Iterator[tuple[Function, bool]]:
        """The function to write a kernel into, and whether its parts are shared.

        The function is called from `f`. A short program is one function: the compiler takes a third
        of a millisecond for each. In a long one a function for each kernel keeps the time to
        compile it linear.
        """
        if parts <= 1 and is_short:
            yield f, False
            return
        name = self.name("kernel")
        kernel = self.module.function(
            name, KERNEL_PARAMETERS, attributes=attributes, linkage="internal"
        )
        yield kernel, parts > 1
        kernel.do("ret void")
        if parts > 1:
            parallel(f, f"@{name}", "%table", str(parts))
        else:
            f.do(f"call void @{name}(ptr %table, i64 0, i64 1)")

    def _contraction(self, f: Function, step: Contraction, layout: Layout, is_short: bool) -> None:
        sizes = (step.row, step.column, step.depth, *step.batch)
        flops = 2 * math.prod(v.extent for v in sizes)
        nanoseconds = flops / (self.host.vector_bytes / 4 * 2 * 2 * 2.0)
        self.cost += nanoseconds
        parts = max(1, min(self.host.cores, int(nanoseconds / NANOSECONDS_PER_PART)))
        plan = plan_contraction(step, self.host, parts)
        # The loops around the tiles need no optimization, which would double the time to compile.
        attributes = f"optnone noinline {KERNEL}" if plan.packs else KERNEL
        with self._kernel(f, parts, is_short and not plan.packs, attributes) as (kernel, _):
            emit_contraction(self.module, kernel, step, plan, layout, self.host, parts)
        self.scratch = max(self.scratch, scratch_bytes(step, plan, parts, self.host))

    def _library(self, f: Function, step: LibraryCall, layout: Layout) -> None:
        self.cost += 1e4
        buffers = (*step.inputs, *step.outputs)
        table = f.emit(f"alloca [{max(1, len(buffers))} x ptr], align 8")
        for i, buffer in enumerate(buffers):
            slot = f.offset(table, "ptr", str(i))
            f.do(f"store ptr {layout.pointer(f, buffer)}, ptr {slot}, align 8")
        function = f.emit(f"inttoptr i64 {self.library.add(step)} to ptr")
        self._checked(f, f"call i32 {function}(ptr {table})")

    def _checked(self, f: Function, call: str) -> None:
        """End the program with the status of a call if it is not 0."""
        status = f.emit(call)
        with f.when(f.emit(f"icmp ne i32 {status}, 0")):
            f.do(f"ret i32 {status}")
            f.start_block(f.label("unreachable"))

    # -- control flow ---------------------------------------------------------------------------

    def _nested(self, program: Program, hint: str) -> str:
        name = self.name(hint)
        self.function(program, name)
        return name

    def _table(
        self, f: Function, layout: Layout, pointers: Sequence[str], scratch: Buffer | None
    ) -> str:
        """A pointer table for a nested program."""
        n = len(pointers)
        table = f.emit(f"alloca [{n + 2} x ptr], align 8")
        arena = layout.pointer(f, scratch) if scratch is not None else "null"
        shared = layout.scratch(f)
        for i, pointer in enumerate((*pointers, arena, shared)):
            f.do(f"store ptr {pointer}, ptr {f.offset(table, 'ptr', str(i))}, align 8")
        return table

    def _branch(self, f: Function, step: BranchStep, layout: Layout) -> None:
        before = self.cost
        names = [self._nested(program, "branch") for program in step.programs]
        self.cost = max(self.cost, before)
        pointers = [layout.pointer(f, b) for b in (*step.inputs, *step.outputs)]
        table = self._table(f, layout, pointers, step.scratch)
        chosen = f.emit(f"load i32, ptr {layout.pointer(f, step.selector)}, align 4")
        i32 = Vector("int32")
        chosen = f.intrinsic("smax", i32, chosen, "0")
        chosen = f.intrinsic("smin", i32, chosen, str(len(names) - 1))
        for i, name in enumerate(names):
            with f.when(f.emit(f"icmp eq i32 {chosen}, {i}")):
                self._checked(f, f"call i32 @{name}(ptr {table})")

    def _while(self, f: Function, step: WhileStep, layout: Layout) -> None:
        condition = self._nested(step.condition, "condition")
        body = self._nested(step.body, "body")
        self.cost *= 10
        point: Callable[[Buffer], str] = lambda b: layout.pointer(f, b)  # noqa: E731
        n_test, n_body, n = (
            len(step.condition_constants),
            len(step.body_constants),
            len(step.carries),
        )
        initial = [point(c.initial) for c in step.carries]
        targets = _Targets.of(step.carries, point)
        tests = [*map(point, step.condition_constants), *initial, point(step.flag)]
        test_table = self._table(f, layout, tests, step.scratch)
        moves = [*map(point, step.body_constants), *initial, *targets.even]
        body_table = self._table(f, layout, moves, step.scratch)
        head, go, done = f.label("while"), f.label("do"), f.label("done")
        before = f.block
        f.do(f"br label %{head}")
        f.start_block(head)
        round_name, following = f.fresh("round"), f.fresh("round")
        place = len(f.lines)
        self._checked(f, f"call i32 @{condition}(ptr {test_table})")
        flag = f.emit(f"load i8, ptr {point(step.flag)}, align 1")
        goes_on = f.emit(f"icmp ne i8 {flag}, 0")
        f.do(f"br i1 {goes_on}, label %{go}, label %{done}")
        f.start_block(go)
        written = targets.write(f, round_name, body_table, n_body + n)
        self._checked(f, f"call i32 @{body}(ptr {body_table})")
        for i, pointer in enumerate(written):
            f.do(
                f"store ptr {pointer}, ptr {f.offset(body_table, 'ptr', str(n_body + i))}, align 8"
            )
            f.do(
                f"store ptr {pointer}, ptr {f.offset(test_table, 'ptr', str(n_test + i))}, align 8"
            )
        f.do(f"{following} = add i64 {round_name}, 1")
        latch = f.block
        f.do(f"br label %{head}")
        phi = f"  {round_name} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"
        f.lines.insert(place, phi)
        f.start_block(done)
        self._settle(f, step.carries, targets, body_table, n_body)

    def _settle(
        self,
        f: Function,
        carries: Sequence[Carry],
        targets: _Targets,
        table: str,
        first: int,
    ) -> None:
        """Copy what was carried last into the results, unless it lies there."""
        for i, carry in enumerate(carries):
            last = f.emit(f"load ptr, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")
            with f.when(f.emit(f"icmp ne ptr {last}, {targets.even[i]}")):
                _copy_bytes(f, targets.even[i], last, carry.result.nbytes)

    def _repeat(self, f: Function, step: RepeatStep, layout: Layout) -> None:
        before = self.cost
        body = self._nested(step.body, "round")
        self.cost = before + (self.cost - before) * step.length
        point: Callable[[Buffer], str] = lambda b: layout.pointer(f, b)  # noqa: E731
        n_constants, n = len(step.constants), len(step.carries)
        initial = [point(c.initial) for c in step.carries]
        targets = _Targets.of(step.carries, point)
        sliced = [(point(b), b) for b in step.slices]
        stacked = [(point(b), b) for b in step.stacks]
        pointers = [
            *map(point, step.constants), *initial, *(p for p, _ in sliced),
            *targets.even, *(p for p, _ in stacked),
        ]  # fmt: skip
        table = self._table(f, layout, pointers, step.scratch)
        with f.loop("0", str(step.length)) as loop:
            k = loop.index
            if step.reverse:
                k = f.emit(f"sub i64 {step.length - 1}, {k}")
            for group, start in (
                (sliced, n_constants + n),
                (stacked, n_constants + 2 * n + len(sliced)),
            ):
                for i, (pointer, buffer) in enumerate(group):
                    row = buffer.nbytes // max(1, step.length)
                    part = f.offset(pointer, "i8", f.emit(f"mul i64 {k}, {row}"))
                    f.do(f"store ptr {part}, ptr {f.offset(table, 'ptr', str(start + i))}, align 8")
            left = f.emit(f"sub i64 {step.length - 1}, {loop.index}")
            written = targets.write(f, left, table, n_constants + n + len(sliced))
            self._checked(f, f"call i32 @{body}(ptr {table})")
            for i, pointer in enumerate(written):
                slot = f.offset(table, "ptr", str(n_constants + i))
                f.do(f"store ptr {pointer}, ptr {slot}, align 8")
        self._settle(f, step.carries, targets, table, n_constants)


@dataclass
class _Targets:
    """Where the rounds of a loop write: to `even` and `odd` in turn."""

    even: list[str]
    odd: list[str]

    @classmethod
    def of(cls, carries: Sequence[Carry], point: Callable[[Buffer], str]) -> _Targets:
        """The pointers of carried arrays."""
        spares = [c.spare for c in carries if c.spare is not None]
        return cls([point(c.result) for c in carries], [point(b) for b in spares])

    def write(self, f: Function, round_name: str, table: str, first: int) -> list[str]:
        """Put this round's targets in the table; gives their pointers."""
        is_odd = f.emit(f"trunc i64 {round_name} to i1")
        chosen = []
        for i, (even, odd) in enumerate(zip(self.even, self.odd, strict=True)):
            pointer = f.emit(f"select i1 {is_odd}, ptr {odd}, ptr {even}")
            f.do(f"store ptr {pointer}, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")
            chosen.append(pointer)
        return chosen


def _splits(step: Kernel | Rows | Scan | Scatter) -> bool:
    """Whether threads can share the loops."""
    if isinstance(step, Scan):
        return len(step.loops) > 1
    return isinstance(step, Kernel | Rows) and bool(step.loops)


def _cost(step: Kernel | Rows | Scan | Scatter) -> float:
    """Rough nanoseconds on one thread."""
    if isinstance(step, Kernel):
        return estimate(step.loops, all_exprs(step.stores))
    if isinstance(step, Rows):
        return sum(estimate((*step.loops, *k.loops), all_exprs(k.stores)) for k in step.kernels)
    loops = (*step.loops, step.along) if isinstance(step, Scan) else step.loops
    return estimate(loops, [step.expr]) * 4


def _copy_bytes(f: Function, target: str, origin: str, count: int) -> None:
    if count:
        f.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {origin}, i64 {count}, i1 false)")
