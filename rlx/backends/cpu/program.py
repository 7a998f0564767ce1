"""Programs as LLVM modules.

`i32 main(ptr table)` runs all steps over one arena. Nested programs become functions of their own
with a pointer table each. A table holds inputs, outputs, the arena and the scratch of the matrix
kernels; before them, in a program of symbolic sizes, an array with their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

import numpy as np

from ...ir.bind import is_symbolic
from ...ir.dims import Size, likely, static
from ...ir.record import field, record
from ...lower.lir.access import reads, writes
from ...lower.lir.canonical import canonical
from ...lower.lir.program import (
    BranchStep,
    Buffer,
    Chain,
    Contraction,
    Copy,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    TopK,
    WhileStep,
)
from .control import (
    Part,
    Targets,
    copy_bytes,
    emit_rounds,
    emit_sized_main,
    put_pointer,
    write_table,
)
from .donation import copied_input
from .equal_kernels import EqualKernels, Written
from .host_calls import (
    Call,
    call_name,
    called_with,
    constant_name,
    multiplies_views,
    op_call,
    product_call,
)
from .llvm.host import Host
from .llvm.text import AS_WRITTEN, KERNEL, Function, Module, Vector
from .loops.costs import LOOPS, Loops, brief, loops_cost, parts_of, product_cost, splits, trip_loops
from .loops.in_order import emit_scan, emit_scatter
from .loops.kernels import KERNEL_PARAMETERS, Layout, emit_kernel, emit_rows
from .products.constants import PackedConstants, emit_prepare, pack_constants
from .products.contraction import (
    ChainPlan,
    GroupedGemm,
    as_kernel,
    contracts_natively,
    emit_chain,
    emit_contraction,
    emit_grouped_gemm,
    is_native,
    plan_contraction,
    row_blocks,
    scratch_bytes,
    with_grouped_gemms,
)
from .products.problem import Tuning
from .runtime.polls import LONG, begin_part, call_python, checked, finer, is_due, poll, stops
from .sorting.rows import SORT_NANOSECONDS, emit_sort
from .sorting.top_k import emit_top_k
from .timers import Timers
from .whole_ops import whole_op

Native: TypeAlias = Loops | Contraction | Chain | GroupedGemm
SHORT = 4  # steps of a program that becomes one function
LOOP_WRITERS: dict[type, Callable[..., None]] = {  # (f, step, layout, host, split)
    Kernel: emit_kernel,
    RowGroup: emit_rows,
    Scan: emit_scan,
    TopK: emit_top_k,
    Scatter: emit_scatter,
}


@record(frozen=False)
class ProgramWriter:
    """Writes a program and its nested ones into one module."""

    host: Host
    complete: Callable[[Sequence[Function]], None] = lambda functions: None  # will not change
    module: Module = field(default_factory=Module)
    tuning: Tuning = field(default_factory=dict)  # measured ways to compute products
    scratch: int = 0
    cost: float = 0.0
    brief: float = 0.0  # nanoseconds below which loops of the program being written are brief
    count: int = 0
    constants: list[np.ndarray] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    kernels: EqualKernels = field(init=False)
    dims: list[str] | None = None  # the names of symbolic sizes
    written: dict[Hashable, Written] = field(default_factory=dict)  # steps, by what they do
    last: tuple[str, list[Buffer], int | str] = ("", [], 1)  # the kernel that was called last
    is_divided: bool = False  # the loop whose body is written is shared by threads as a whole
    timers: Timers | None = None  # of a program that measures its steps

    def __post_init__(self) -> None:
        self.kernels = EqualKernels(self.module, self.complete)

    def write(self, program: Program, fixed: int = 0) -> tuple[Size, PackedConstants | None]:
        """Write `main` for a program; gives the bytes of memory it needs.

        That memory is its last pointer. The one before it, in a program of symbolic sizes, is the
        array of their numbers, one for each of `module.symbols`. If the last inputs are `fixed`,
        it also gives what `main` takes instead, and writes `prepare`, which makes it.
        """
        early, same = None, program.inputs[len(program.inputs) - fixed :]
        if fixed:
            early, packings = pack_constants(program, fixed, self.host, self.tuning)
            if packings:
                emit_prepare(self.module, packings, same, self.host)
        if is_symbolic([b.type for b in program.inputs]):
            dims = {s for b in program.inputs for s in b.type.symbols}
            for symbol in sorted(dims, key=lambda s: s.name):
                self.module.symbols[symbol] = len(self.module.symbols)
            self.dims = [s.name for s in self.module.symbols]
            self.kernels.is_symbolic = True
        arena = program.arena_bytes
        if isinstance(arena, int):
            arena = -(-arena // 64) * 64
        name = "sized" if self.is_symbolic else "main"
        self.begin()
        self.function(program, name, linkage="", scratch_offset=arena)
        if self.is_symbolic:
            emit_sized_main(self.module, len(program.inputs) + len(program.outputs), KERNEL)
        return arena + self.scratch, early

    def begin(self) -> None:
        """Write what the functions of a module refer to."""
        width = self.host.vector_bytes * 8
        wide = f'attributes #0 = {{ "prefer-vector-width"="{width}" }}'
        self.module.globals += ["!0 = !{}", wide]

    @property
    def is_symbolic(self) -> bool:
        """Whether the program has symbolic sizes."""
        return self.dims is not None

    def name(self, hint: str) -> str:
        """Give a name that no other function has."""
        self.count += 1
        return f"{hint}_{self.count}"

    def function(
        self,
        program: Program,
        name: str,
        linkage: str = "internal",
        scratch_offset: Size | None = None,
    ) -> None:
        """Write `i32 name(ptr table)` for a program."""
        is_short = len(program.steps) <= SHORT and not self.timers
        # A long one only calls: nothing to optimize. The table of a sized one is new.
        how = f"noinline {KERNEL}" if name == "sized" else KERNEL if is_short else AS_WRITTEN
        f = self.module.function(name, [("ptr", "%table")], "i32", how, linkage)
        bound = (*program.inputs, *program.outputs)
        places = {b: i for i, b in enumerate(bound, start=int(self.is_symbolic))}
        constants = {b: self._constant(b) for b in program.constants}
        layout = Layout(places, len(places) + self.is_symbolic, constants, scratch_offset)
        before, self.brief = self.brief, brief(program, self.host)
        polled = began = self.cost
        timers = None if self.is_divided or not self.timers else self.timers.open(program, f)
        for step in with_grouped_gemms(program.steps):
            with timers.timed(step, self.kernels.called) if timers else nullcontext():
                self.step(f, step, layout, is_short)
            if not self.is_divided and self.cost - polled >= LONG:
                checked(f, poll(f))
                polled = self.cost
        self.brief = before
        if timers and linkage:
            timers.settle(self.cost - began)
        f.do("ret i32 0")

    def _constant(self, buffer: Buffer) -> str:
        """The name of an array whose address the linker is told."""
        assert buffer.array is not None, f"{buffer} has no array"
        name = constant_name(len(self.constants))
        self.constants.append(np.ascontiguousarray(buffer.array))
        self.module.globals.append(f"@{name} = external constant [{buffer.nbytes} x i8]")
        return f"@{name}"

    def step(self, f: Function, step: Step | GroupedGemm, layout: Layout, is_short: bool) -> None:
        """Write one step into the function of its program."""
        if isinstance(step, GroupedGemm):
            self._together(f, step, layout, is_short)
            return
        copied = copied_input(step)
        if copied is None:
            self._step(f, step, layout, is_short)
            return
        origin, target = (layout.pointer(f, b) for b in copied)
        with f.when(f.emit(f"icmp ne ptr {origin}, {target}")):  # the same for a donated argument
            self._step(f, step, layout, is_short)

    def _step(self, f: Function, step: Step, layout: Layout, is_short: bool) -> None:
        if isinstance(step, Contraction) and not step.is_static:
            if step.has_static_columns and contracts_natively(step):
                for part in row_blocks(step):
                    self._contraction(f, part, layout, is_short)
                return
            if multiplies_views(step) and not self.host.batch_invariant:
                self._call(f, product_call(step), step, layout)
                return
        if isinstance(step, Contraction) and not is_native(step):
            step = as_kernel(step, self.host)
        if isinstance(step, (*LOOPS, Contraction, Chain)):
            self._written(f, step, layout, is_short)
        elif isinstance(step, Copy):
            origin, target = (layout.pointer(f, b) for b in (step.origin, step.target))
            copy_bytes(f, target, origin, f.number(step.target.nbytes))
        elif isinstance(step, LibraryCall):
            self._library_call(f, step, layout, is_short)
        elif isinstance(step, Sort):
            cost = SORT_NANOSECONDS * likely(step.rows * step.length)
            self.cost += cost
            parts = self._parts(f, [step.rows, step.length], cost)
            emit_sort(self.module, f, step, layout, self.host, parts)
            with f.when(stops(f)):  # later steps read places
                checked(f, poll(f))
        elif isinstance(step, BranchStep):
            self._branch(f, step, layout)
        elif isinstance(step, WhileStep):
            self._while(f, step, layout)
        else:
            self._repeat(f, step, layout)

    # -- kernels --------------------------------------------------------------------------------

    def _written(self, f: Function, step: Native, layout: Layout, is_short: bool) -> None:
        if is_short or self.is_symbolic:
            self._native(f, step, layout, is_short)
        else:
            self._once(f, step, layout)

    def _once(self, f: Function, step: Native, layout: Layout) -> None:
        """Write a step, or call the function of an equal one that is written."""
        key, buffers = canonical(step)
        known = self.written.get((key, self.is_divided))
        if known is None:
            cost, scratch, self.cost, self.scratch = self.cost, self.scratch, 0.0, 0
            self._native(f, step, layout, False)
            name, order, parts = self.last
            places = [buffers.index(b) for b in order]
            known = Written(name, places, parts, self.cost, self.scratch)
            self.written[key, self.is_divided] = known
            self.cost, self.scratch = cost, scratch
        else:
            taken = [buffers[i] for i in known.places]
            self.kernels.call(f, layout, known.name, taken, known.parts)
        self.cost += known.cost
        self.scratch = max(self.scratch, known.scratch)

    def _native(self, f: Function, step: Native, layout: Layout, is_short: bool) -> None:
        if isinstance(step, Contraction):
            self._contraction(f, step, layout, is_short)
        elif isinstance(step, Chain):
            self._chain(f, step, layout)
        elif isinstance(step, GroupedGemm):
            self._grouped_gemm(f, step, layout)
        else:
            self._loops(f, step, layout, is_short)

    def _loops(self, f: Function, step: Loops, layout: Layout, is_short: bool) -> None:
        cost, is_split = loops_cost(step), splits(step)
        self.cost += cost
        parts: int | str = 1
        if is_split and not self.is_divided:
            extents = [v.extent for v in trip_loops(step)]
            parts = finer(f, self._parts(f, extents, cost), cost, extents)
        how = AS_WRITTEN if cost < self.brief else KERNEL
        with self._kernel(f, step, layout, parts, is_short, how) as (kernel, inner, split):
            begin_part(kernel, parts, self.host.cores)
            LOOP_WRITERS[type(step)](kernel, step, inner, self.host, split)
        if isinstance(parts, str):
            with f.when(stops(f)):
                checked(f, poll(f))

    def _library_call(self, f: Function, step: LibraryCall, layout: Layout, is_short: bool) -> None:
        if not step.is_wanted:
            return self._call(f, op_call(step), step, layout)
        call = whole_op(step, self.host)
        self.cost += call.cost
        parts = self._parts(f, call.extents, call.cost, is_product=True)
        most = parts if isinstance(parts, int) else self.host.cores
        with self._kernel(f, step, layout, parts, is_short and not call.scratch_bytes) as given:
            call.emit(self.module, *given)
        if call.has_rest and given[2]:
            with self._kernel(f, step, layout, 1, False) as (kernel, inner, _):
                call.emit_rest(kernel, inner)
        self.scratch = max(self.scratch, call.scratch_bytes * most)

    def _parts(
        self, f: Function, extents: Sequence[Size], cost: float, is_product: bool = False
    ) -> int | str:
        return 1 if self.is_divided else parts_of(f, self.host, extents, cost, is_product)

    @contextmanager
    def _kernel(
        self,
        f: Function,
        step: Step | GroupedGemm,
        layout: Layout,
        parts: int | str,
        is_short: bool,
        attributes: str = KERNEL,
    ) -> Iterator[tuple[Function, Layout, bool]]:
        """The function to write a kernel into, its layout, and whether its parts are shared.

        The function is called from `f`. A short program is one function: the compiler takes a third
        of a millisecond for each. In a long one a function for each kernel keeps the time to
        compile it linear. It has a pointer table of its own, so that equal kernels have equal
        texts.
        """
        is_split = isinstance(parts, str) or parts > 1
        if not is_split and is_short:
            yield f, layout, False
            return
        steps = step.steps if isinstance(step, GroupedGemm) else (step,)
        every = dict.fromkeys(b for each in steps for b in (*reads(each), *writes(each)))
        buffers = [b for b in every if b.kind != "local"]
        before, name = self.kernels.begin(), self.name("kernel")
        kernel = self.module.function(name, KERNEL_PARAMETERS, "void", attributes, "internal")
        yield kernel, self.kernels.layout(buffers), is_split
        kernel.do("ret void")
        name, order = self.kernels.settle(kernel, before)
        self.last = name, [buffers[i] for i in order], parts
        self.kernels.call(f, layout, *self.last)

    def _contraction(self, f: Function, step: Contraction, layout: Layout, is_short: bool) -> None:
        extents = [v.extent for v in (step.row, step.column, step.depth, *step.batch)]
        nanoseconds = product_cost(step, self.host)
        self.cost += nanoseconds
        parts = self._parts(f, extents, nanoseconds, is_product=True)
        most = parts if isinstance(parts, int) else self.host.cores
        plan = plan_contraction(step, self.host, most, self.tuning)
        # The loops around the tiles need no optimization, which would double the time to compile.
        attributes = AS_WRITTEN if plan.packs else KERNEL
        is_short = is_short and not plan.packs
        with self._kernel(f, step, layout, parts, is_short, attributes) as (kernel, inner, _):
            emit_contraction(self.module, kernel, step, plan, inner, self.host, most)
        self.scratch = max(self.scratch, scratch_bytes(step, plan, most, self.host))

    def _together(self, f: Function, step: GroupedGemm, layout: Layout, is_short: bool) -> None:
        if self._parts(f, [], step.cost(self.host), is_product=True) == 1:
            for each in step.steps:
                self._step(f, each, layout, is_short)
        else:
            self._written(f, step, layout, is_short)

    def _grouped_gemm(self, f: Function, step: GroupedGemm, layout: Layout) -> None:
        cost = step.cost(self.host)
        self.cost += cost
        parts = self._parts(f, [], cost, is_product=True)
        assert isinstance(parts, int), "grouped products are of known sizes"
        with self._kernel(f, step, layout, parts, False) as (kernel, inner, _):
            given = self.module, kernel, step, inner, self.host, parts, self.tuning
            needed = emit_grouped_gemm(*given)
        self.scratch = max(self.scratch, needed)

    def _chain(self, f: Function, step: Chain, layout: Layout) -> None:
        links = ChainPlan.of(step, self.host, self.tuning)
        self.cost += links.cost
        extents = [v.extent for v in step.loops]
        parts = self._parts(f, extents, links.cost, is_product=True)
        assert isinstance(parts, int), "the loops of a chain are of known sizes"
        parts = min(parts, static(step.worker.extent))  # each has the memory of a worker
        with self._kernel(f, step, layout, parts, False) as (kernel, inner, _):
            emit_chain(self.module, kernel, links, inner, self.host)
        self.scratch = max(self.scratch, links.scratch_bytes * parts)

    def _call(
        self, f: Function, call: Call, step: LibraryCall | Contraction, layout: Layout
    ) -> None:
        """Call back into Python with the pointers of a step's buffers, and the sizes first."""
        self.cost += 1e4
        pointers = [layout.pointer(f, b) for b in called_with(step)]
        if self.is_symbolic:
            pointers.insert(0, f.emit("load ptr, ptr %table, align 8, !invariant.load !0"))
        table = write_table(f, pointers)
        name = call_name(len(self.calls))
        self.calls.append(call)
        checked(f, call_python(f, name, table))

    # -- control flow ---------------------------------------------------------------------------

    def _nested(self, program: Program, hint: str) -> str:
        name = self.name(hint)
        self.function(program, name)
        return name

    def _table(
        self,
        f: Function,
        layout: Layout,
        pointers: Sequence[str],
        scratch: Buffer | None,
        part: Part | None = None,
    ) -> str:
        """A pointer table for a nested program."""
        first = [f.emit("load ptr, ptr %table, align 8")] if self.is_symbolic else []
        arena = layout.pointer(f, scratch) if scratch is not None else "null"
        products = layout.scratch(f)
        if part and scratch is not None:
            arena = part.block(f, arena, scratch.nbytes)
            products = part.after(f, products, part.scratch)
        return write_table(f, [*first, *pointers, arena, products])

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
                checked(f, f"call i32 @{name}(ptr {table})")

    def _while(self, f: Function, step: WhileStep, layout: Layout) -> None:
        before_loop = self.cost
        condition = self._nested(step.condition, "condition")
        body = self._nested(step.body, "body")
        cost, self.cost = self.cost - before_loop, self.cost * 10
        point: Callable[[Buffer], str] = lambda b: layout.pointer(f, b)  # noqa: E731
        n_test = len(step.condition_constants) + self.is_symbolic
        n_body, n = len(step.body_constants) + self.is_symbolic, len(step.carries)
        targets = Targets.of(step.carries, point)
        initial = targets.start(f, step.carries, point)
        tests = [*map(point, step.condition_constants), *initial, point(step.flag)]
        test_table = self._table(f, layout, tests, step.scratch)
        moves = [*map(point, step.body_constants), *initial, *targets.even]
        body_table = self._table(f, layout, moves, step.scratch)
        head, go, done = f.label("while"), f.label("do"), f.label("done")
        before = f.block
        f.go_on(head)
        round_name, following = f.fresh("round"), f.fresh("round")
        place = len(f.lines)
        with f.when(is_due(f, round_name, cost)):
            checked(f, poll(f))
        checked(f, f"call i32 @{condition}(ptr {test_table})")
        flag = f.emit(f"load i8, ptr {point(step.flag)}, align 1")
        goes_on = f.emit(f"icmp ne i8 {flag}, 0")
        f.do(f"br i1 {goes_on}, label %{go}, label %{done}")
        f.start_block(go)
        written = targets.write(f, round_name, body_table, n_body + n)
        checked(f, f"call i32 @{body}(ptr {body_table})")
        for i, pointer in enumerate(written):
            put_pointer(f, body_table, n_body + i, pointer)
            put_pointer(f, test_table, n_test + i, pointer)
        f.do(f"{following} = add i64 {round_name}, 1")
        latch = f.block
        f.do(f"br label %{head}")
        phi = f"  {round_name} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"
        f.lines.insert(place, phi)
        f.start_block(done)
        targets.settle(f, step.carries, body_table, n_body)

    def _repeat(self, f: Function, step: RepeatStep, layout: Layout) -> None:
        before, scratch, is_divided = self.cost, self.scratch, self.is_divided
        if step.parts > 1:
            self.scratch, self.is_divided = 0, True
        body = self._nested(step.body, "round")
        cost = self.cost - before  # of a round
        self.cost = before + cost * likely(step.length) * step.parts
        if step.parts == 1:
            write: Callable[..., str] = lambda p: self._table(f, layout, p, step.scratch)  # noqa: E731
            emit_rounds(f, step, layout, body, cost, write, self.is_symbolic)
            return
        own, self.is_divided = -(-self.scratch // 64) * 64, is_divided
        self.scratch = max(scratch, own * step.parts)
        with self._kernel(f, step, layout, step.parts, False) as (kernel, inner, _):
            part = Part(step.parts, own)
            write = lambda p: self._table(kernel, inner, p, step.scratch, part)  # noqa: E731
            emit_rounds(kernel, step, inner, body, cost, write, self.is_symbolic, part)
        if not is_divided:
            checked(f, poll(f))
