"""A program as launches of kernels, whose texts are shared where they are equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from ...ir.dims import Dim
from ...ir.record import field, record
from ...ir.types import Type
from ...lower.lir.canonical import canonical
from ...lower.lir.program import (
    Buffer,
    Chain,
    Contraction,
    Kernel,
    LibraryCall,
    Program,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    TopK,
)
from .body import Setting, Written
from .dialect import Dialect, Signature
from .geometry import Axes
from .parallel import (
    is_shared_scan,
    write_kernel,
    write_scan,
    write_scatter,
    write_shared_scan,
    write_top_k,
)
from .products import write_contraction, write_epilogue
from .rows import is_shared, write_rows
from .scalars import Functions
from .serial_products import write_serial_contraction
from .sorting import write_sort

ALIGNMENT = 256  # of buffers that are added to an arena


@record(eq=False)
class KernelText:
    """A kernel that launches share: its name in the program, its text, what it calls."""

    name: str
    signature: Signature
    text: str
    called: tuple[str, ...]


@record
class Launch:
    """Run a kernel on buffers, in the order of its parameters, with its numbers."""

    kernel: KernelText
    buffers: tuple[Buffer, ...]
    numbers: tuple[int, ...]
    groups: Axes


class LibraryProduct(Protocol):
    """How a library of the device is called for a `Contraction`.

    The sums go to the buffer `result`, or if it is None to spare memory of the type `sums`.
    """

    @property
    def result(self) -> Buffer | None:
        """Where the sums belong, if nothing is to be done with them."""
        ...

    @property
    def sums(self) -> Type:
        """What the sums are: batch, rows and columns in order."""
        ...


Claim = Callable[[Contraction], LibraryProduct | None]


@record
class Product:
    """A call of the library; its buffers are both operands and the sums."""

    call: LibraryProduct
    buffers: tuple[Buffer, ...]


@record(frozen=False)
class Plan:
    """A program and the launches of its steps."""

    program: Program
    dialect: Dialect
    launches: dict[Step, tuple[Launch, ...]]  # none for a step that the runner does itself
    kernels: tuple[KernelText, ...]
    functions: Functions
    arena_bytes: int
    spares: tuple[Buffer, ...]  # temporaries beside the program's own
    products: dict[Contraction, Product]  # calls of a library, before the launches of their step

    @property
    def text(self) -> str:
        """All functions and kernels as one text."""
        return _text(self.dialect, self.functions, self.kernels)

    @cached_property
    def calls_host(self) -> bool:
        """Whether ops run on the host: other calls may then begin before this one ends."""
        return any(isinstance(s, LibraryCall) for p in self.program.programs for s in p.steps)

    def module(self, kernel: KernelText) -> str:
        """One kernel with its functions, as a text of its own."""
        return self.dialect.module(self.functions.needed(kernel.called), [kernel.text])


def _text(dialect: Dialect, functions: Functions, kernels: Sequence[KernelText]) -> str:
    called = [name for kernel in kernels for name in kernel.called]
    return dialect.module(functions.needed(called), [kernel.text for kernel in kernels])


class Kernels:
    """The kernels of one plan or of several; equal ones are one."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.functions = dialect, Functions(dialect)
        self.known: dict[Hashable, KernelText] = {}

    def add(self, written: Written) -> KernelText:
        """The text of a kernel; equal ones have one name."""
        key = (written.signature, written.lines)
        if key not in self.known:
            name = f"kernel_{len(self.known)}"
            text = self.dialect.kernel(name, written.signature, written.lines)
            self.known[key] = KernelText(name, written.signature, text, written.called)
        return self.known[key]

    @property
    def text(self) -> str:
        """All functions and kernels as one text."""
        return _text(self.dialect, self.functions, tuple(self.known.values()))


def plan(
    program: Program,
    dialect: Dialect,
    claim: Claim = lambda step: None,
    kernels: Kernels | None = None,
) -> Plan:
    """Write the kernels of a program and of the nested ones.

    What the device has a library for is claimed, and no kernel is written for it. The `kernels` of
    other plans with the same dialect may be shared.
    """
    return _Planner(program, dialect, claim, kernels or Kernels(dialect)).run()


@record(frozen=False)
class _Planner:
    program: Program
    dialect: Dialect
    claim: Claim
    shared: Kernels
    kernels: dict[str, KernelText] = field(default_factory=dict)  # its own, by name
    known: dict[Hashable, list[tuple[KernelText, list[int], Written]]] = field(default_factory=dict)
    spares: list[Buffer] = field(default_factory=list)
    products: dict[Contraction, Product] = field(default_factory=dict)
    spare_bytes: int = 0
    most_spare_bytes: int = 0

    def run(self) -> Plan:
        """Write all kernels."""
        self.functions = self.shared.functions
        arena = self.program.arena_bytes
        assert not isinstance(arena, Dim), "programs have known sizes here"
        self.arena_end = -(-arena // ALIGNMENT) * ALIGNMENT
        launches: dict[Step, tuple[Launch, ...]] = {}
        for nested in self.program.programs:
            self.bound = frozenset((*nested.inputs, *nested.outputs))
            self.is_nested = nested is not self.program
            for step in nested.steps:
                self.spare_bytes = 0
                launches[step] = tuple(self.launches(step))
        return Plan(
            self.program,
            self.dialect,
            launches,
            tuple(self.kernels.values()),
            self.functions,
            self.arena_end + self.most_spare_bytes,
            tuple(self.spares),
            self.products,
        )

    def moved(self, buffer: Buffer) -> bool:
        """Whether a buffer may begin elsewhere than its memory does."""
        if not self.dialect.has_offsets:
            return False
        if buffer.kind == "temporary":
            return not self.dialect.owns_temporaries
        return self.is_nested and buffer in self.bound

    @property
    def in_vectors(self) -> bool:
        """Whether a thread does best to compute with vectors."""
        limits = self.dialect.limits
        return limits.serial and limits.lanes > 1 and self.dialect.has_vectors

    def spare(self, type: Type) -> Buffer:
        """More memory for one step."""
        offset = self.arena_end + self.spare_bytes
        buffer = Buffer(f"s{len(self.spares)}", type, "temporary", offset)
        self.spare_bytes += -(-type.nbytes // ALIGNMENT) * ALIGNMENT
        self.most_spare_bytes = max(self.most_spare_bytes, self.spare_bytes)
        self.spares.append(buffer)
        return buffer

    def launches(self, step: Step) -> Iterator[Launch]:
        """The launches of a step; none for those that the runner does."""
        setting = Setting(self.dialect, self.functions, self.moved)
        if isinstance(step, Sort):
            for written in write_sort(step, setting, self.spare):
                yield self.launch(self.kernel(written), written, written.buffers)
        elif isinstance(step, RowGroup):
            yield self.once(step, write_rows, setting)
        elif isinstance(step, Kernel) and is_shared(step, self.dialect):
            inner = Kernel((), step.stores, step.source)
            yield self.once(RowGroup(step.loops, (inner,)), write_rows, setting)
        elif isinstance(step, Contraction) and (call := self.claim(step)) is not None:
            yield from self.product(step, call, setting)
        elif type(step) in WRITERS:
            write: Callable[..., Written] = WRITERS[type(step)]
            if isinstance(step, Contraction) and self.in_vectors:
                write = write_serial_contraction
            elif isinstance(step, Scan) and is_shared_scan(step, self.dialect):
                write = write_shared_scan
            yield self.once(step, write, setting)
        assert not isinstance(step, Chain), "the target has no chains"

    def product(
        self, step: Contraction, call: LibraryProduct, setting: Setting
    ) -> Iterator[Launch]:
        """Note a call of the library; gives the kernel for what is done with its sums."""
        sums = call.result or self.spare(call.sums)
        operands = [next(iter(operand.loads)).buffer for operand, _ in step.operands]
        self.products[step] = Product(call, (*operands, sums))
        if call.result is None:
            written = write_epilogue(step, sums, setting)
            yield self.launch(self.kernel(written), written, written.buffers)

    def once(self, step: Step, write: Callable[..., Written], setting: Setting) -> Launch:
        """Write a step, unless an equal one is written."""
        key, buffers = canonical(step)
        key = (key, tuple(map(self.moved, buffers)))
        if key not in self.known:
            written = write(step, setting)
            order = [buffers.index(b) for b in written.buffers]
            self.known[key] = [(self.kernel(written), order, written)]
        ((kernel, order, written),) = self.known[key]
        return self.launch(kernel, written, tuple(buffers[i] for i in order))

    def launch(self, kernel: KernelText, written: Written, buffers: tuple[Buffer, ...]) -> Launch:
        """The launch of a kernel on some buffers."""
        return Launch(kernel, buffers, written.numbers, written.groups)

    def kernel(self, written: Written) -> KernelText:
        """The text of a kernel."""
        kernel = self.shared.add(written)
        self.kernels[kernel.name] = kernel
        return kernel


WRITERS: dict[type, Callable[..., Written]] = {
    Kernel: write_kernel,
    Scan: write_scan,
    TopK: write_top_k,
    Scatter: write_scatter,
    Contraction: write_contraction,
}
