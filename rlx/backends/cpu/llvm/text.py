"""Text of LLVM functions: fresh names, typed instructions, structured loops.

A `Function` collects the lines of one LLVM function; a `Module` collects functions, globals and
declarations. Values are LLVM operands as text (`%12`, `3`, `0x3FF0000000000000`); their types are
`Vector`s the caller keeps. One lane is written as a plain scalar.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....ir.dims import Size, Symbol
from ....ir.record import field, record

KERNEL = "nounwind #0"  # attributes of functions; #0 are those of the module
AS_WRITTEN = f"optnone noinline {KERNEL}"  # of what needs no optimization
LLVM_NAMES = {
    "bool": "i1",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
}
FLOATS = ("float16", "bfloat16", "float32", "float64")
MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


@record
class Vector:
    """The type of a vector; a bool is `i1` in a register and a byte in memory."""

    dtype: str
    lanes: int = 1

    @property
    def element(self) -> str:
        """The LLVM type of one number."""
        return LLVM_NAMES[self.dtype]

    @property
    def text(self) -> str:
        """The LLVM type."""
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @property
    def mangled(self) -> str:
        """The suffix of an overloaded intrinsic, as `v16f32` in `llvm.fma.v16f32`."""
        short = MANGLED.get(self.element, self.element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    @property
    def bits(self) -> int:
        """The bits of one integer in a register."""
        return int(self.element[1:])

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floats."""
        return self.dtype in FLOATS

    @property
    def is_signed(self) -> bool:
        """Whether the numbers are signed integers."""
        return self.dtype.startswith("int")

    def with_dtype(self, dtype: str) -> Vector:
        """The type with as many numbers of another dtype."""
        return Vector(dtype, self.lanes)


def literal(dtype: str, number: object) -> str:
    """One constant of `dtype` as LLVM text; floats are written by their bits."""
    if dtype == "bool":
        return "true" if number else "false"
    if dtype not in FLOATS:
        return str(int(number))  # type: ignore[call-overload]
    if dtype in ("float32", "float64"):  # LLVM writes a float by the bits of the equal double
        double = float(np.dtype(dtype).type(number))  # type: ignore[call-overload]
        return f"0x{struct.unpack('<Q', struct.pack('<d', double))[0]:016X}"
    import ml_dtypes

    scalar = np.float16(number) if dtype == "float16" else ml_dtypes.bfloat16(number)  # type: ignore[arg-type]
    return f"0x{'H' if dtype == 'float16' else 'R'}{scalar.view(np.uint16):04X}"


@record(frozen=False)
class Function:
    """One LLVM function under construction."""

    name: str
    parameters: Sequence[tuple[str, str]]  # (LLVM type with attributes, name with %)
    returns: str = "void"
    attributes: str = ""
    linkage: str = ""
    lines: list[str] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)  # instructions at its beginning: `alloca`
    declarations: set[str] = field(default_factory=set)
    symbols: dict[Symbol, int] = field(default_factory=dict)  # those of the module
    block: str = "entry"  # the label of the basic block that is written
    count: int = 0  # of fresh names

    def fresh(self, hint: str = "v") -> str:
        """Give a name that no other value has."""
        self.count += 1
        return f"%{hint}{self.count}"

    def emit(self, instruction: str) -> str:
        """Append an instruction and give the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction that gives no value."""
        self.lines.append(f"  {instruction}")

    def number(self, size: Size) -> str:
        """The value of a size as an i64, computed from symbolic sizes at run time.

        An array of these is the first pointer of `%table`; `symbols` has their slots in it.
        """
        if isinstance(size, int):
            return str(size)
        total = "0"
        for monomial, coefficient in size.terms:
            term = str(coefficient)
            for symbol in monomial:
                place = self.symbols.setdefault(symbol, len(self.symbols))
                array = self.emit("load ptr, ptr %table, align 8, !invariant.load !0")
                address = self.offset(array, "i64", str(place))
                factor = self.emit(f"load i64, ptr {address}, align 8, !invariant.load !0")
                term = factor if term == "1" else self.emit(f"mul nsw i64 {term}, {factor}")
            total = term if total == "0" else self.emit(f"add nsw i64 {total}, {term}")
        return total

    def reserve(self, kind: str, align: int) -> str:
        """Allocate stack memory, once for the function."""
        name = self.fresh()
        self.reserved.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def start_block(self, label: str) -> None:
        """Begin the basic block `label`."""
        self.lines.append(f"{label}:")
        self.block = label

    def go_on(self, label: str) -> None:
        """End the basic block with a jump to `label`, which comes next."""
        self.do(f"br label %{label}")
        self.start_block(label)

    def label(self, hint: str) -> str:
        """Give a label that no other block has."""
        self.count += 1
        return f"{hint}{self.count}"

    def splat(self, value: str, vector: Vector) -> str:
        """Copy one scalar into every lane."""
        if vector.lanes == 1:
            return value
        if not value.startswith("%"):  # a literal
            return f"splat ({vector.element} {value})"
        first = self.emit(f"insertelement {vector.text} poison, {vector.element} {value}, i32 0")
        return self.emit(
            f"shufflevector {vector.text} {first}, {vector.text} poison, "
            f"<{vector.lanes} x i32> zeroinitializer"
        )

    def constant(self, vector: Vector, number: object) -> str:
        """A constant in every lane, written in place (no instruction)."""
        text = literal(vector.dtype, number)
        if vector.lanes == 1:
            return text
        return f"splat ({vector.element} {text})"

    def intrinsic(self, name: str, vector: Vector, *values: str) -> str:
        """Call an overloaded intrinsic whose arguments and result all have type `vector`."""
        kind, full = vector.text, f"@llvm.{name}.{vector.mangled}"
        self.declarations.add(f"declare {kind} {full}({', '.join([kind] * len(values))})")
        return self.emit(f"call {kind} {full}({', '.join([f'{kind} {x}' for x in values])})")

    def call(self, returns: str, name: str, *given: tuple[str, str], flags: str = "") -> str:
        """Call and declare a function; arguments are pairs of LLVM type and value."""
        types = ", ".join([kind for kind, _ in given])
        if " align " in types:
            types = re.sub(" align [0-9]+", "", types)
        self.declarations.add(f"declare {returns} {name}({types})")
        text = f"call {flags}{returns} {name}({', '.join(map(' '.join, given))})"
        if returns != "void":
            return self.emit(text)
        self.do(text)
        return ""

    def masked(
        self, what: str, vector: Vector, address: str, align: int, mask: str, value: str
    ) -> str:
        """`load`, `gather`, `store` or `scatter` lanes in a mask; others load a `value`."""
        many = f"<{vector.lanes} x ptr>" if what in ("gather", "scatter") else ""
        name = f"@llvm.masked.{what}.{vector.mangled}.{f'v{vector.lanes}' if many else ''}p0"
        place, bits = f"{many or 'ptr'} align {align}", Vector("bool", vector.lanes).text
        if what in ("store", "scatter"):
            return self.call("void", name, (vector.text, value), (place, address), (bits, mask))
        return self.call(vector.text, name, (place, address), (bits, mask), (vector.text, value))

    def load(
        self,
        vector: Vector,
        address: str,
        align: int,
        mask: str | None = None,
        other: str = "zeroinitializer",
    ) -> str:
        """Load a vector; of lanes outside of a mask, if there is one, `other`."""
        if mask is None:
            return self.emit(f"load {vector.text}, ptr {address}, align {align}")
        return self.masked("load", vector, address, align, mask, other)

    def store(
        self, vector: Vector, x: str, address: str, align: int, mask: str | None = None
    ) -> None:
        """Store a vector, or its lanes in a mask."""
        if mask is None:
            self.do(f"store {vector.text} {x}, ptr {address}, align {align}")
        else:
            self.masked("store", vector, address, align, mask, x)

    def prefetch(self, address: str, is_written: bool = False, locality: int = 3) -> None:
        """Ask for a cache line; the higher the locality, the nearer it is to be kept."""
        how = (("i32", str(int(is_written))), ("i32", str(locality)), ("i32", "1"))
        self.call("void", "@llvm.prefetch.p0", ("ptr", address), *how)

    def shuffle(self, vector: Vector, x: str, y: str, places: Sequence[int]) -> str:
        """Shuffle: the lanes of two vectors that `places` name, the first vector's first."""
        kind = vector.text
        if len(places) == 1:  # vectors of one lane are numbers
            which, place = divmod(places[0], vector.lanes)
            return self.emit(f"extractelement {kind} {(x, y)[which]}, i64 {place}")
        order = ", ".join(f"i32 {place}" for place in places)
        return self.emit(f"shufflevector {kind} {x}, {kind} {y}, <{len(places)} x i32> <{order}>")

    def select(self, vector: Vector, mask: str, yes: str, no: str) -> str:
        """One of two vectors, lane by lane."""
        bits, kind = Vector("bool", vector.lanes).text, vector.text
        return self.emit(f"select {bits} {mask}, {kind} {yes}, {kind} {no}")

    def offset(self, pointer: str, element: str, index: str) -> str:
        """Emit the address of an element after a pointer."""
        if index == "0":
            return pointer
        return self.emit(f"getelementptr inbounds {element}, ptr {pointer}, i64 {index}")

    def share(self, count: int | str) -> tuple[str, str]:
        """The bounds of `%part`, one of `%parts` that share a count equally."""
        last = self.emit("add i64 %part, 1")
        ends = (self.emit(f"mul i64 {number}, {count}") for number in ("%part", last))
        first, last = (self.emit(f"udiv i64 {end}, %parts") for end in ends)
        return first, last

    @contextmanager
    def loop(
        self,
        start: str,
        stop: str,
        step: str = "1",
        carried: Sequence[tuple[str, str]] = (),
        is_plain: bool = False,
    ) -> Iterator[Loop]:
        """A counted loop from `start` below `stop`.

        `carried` is (LLVM type, initial value) pairs. Inside, `loop.index` and `loop.values` are
        the phis and `loop.next` must be set to the new carried values; after the block,
        `loop.values` are the final ones. Runs zero times when `start >= stop`. A plain loop
        computes its addresses as they are written: LLVM's search for cheaper ones, half the time to
        compile a simple loop, does not see its index.
        """
        if _runs_once(start, stop, step):
            state = Loop(start, [x for _, x in carried], [x for _, x in carried])
            yield state
            state.values = state.next
            return
        header, body, done = self.label("loop"), self.label("body"), self.label("done")
        before = self.block
        self.do(f"br label %{header}")
        self.start_block(header)
        index = self.fresh("i")
        phis = [self.fresh("c") for _ in carried]
        place = len(self.lines)
        condition = self.emit(f"icmp slt i64 {index}, {stop}")
        self.do(f"br i1 {condition}, label %{body}, label %{done}")
        self.start_block(body)
        hidden = self.emit(f'call i64 asm "", "=r,0"(i64 {index})') if is_plain else index
        state = Loop(hidden, list(phis), list(phis))
        yield state
        latch = self.block
        following = self.emit(f"add nsw i64 {index}, {step}")
        self.do(f"br label %{header}")
        lines = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for name, (kind, initial), new in zip(phis, carried, state.next, strict=True):
            lines.append(f"  {name} = phi {kind} [ {initial}, %{before} ], [ {new}, %{latch} ]")
        self.lines[place:place] = lines
        self.start_block(done)
        state.values = phis

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run the block if `condition` (an i1) holds; later code uses none of its values."""
        then, done = self.label("then"), self.label("endif")
        self.do(f"br i1 {condition}, label %{then}, label %{done}")
        self.start_block(then)
        yield
        self.do(f"br label %{done}")
        self.start_block(done)

    @property
    def is_plain(self) -> bool:
        """Whether the function needs no optimization, because its time is in its callees."""
        return "optnone" in self.attributes

    @property
    def declaration(self) -> str:
        """The line by which another module knows the function."""
        return f"declare {self.returns} @{self.name}({', '.join(t for t, _ in self.parameters)})"

    @property
    def text(self) -> str:
        """The function as LLVM text."""
        parameters = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        head = " ".join(filter(None, ("define", self.linkage, self.returns)))
        head = f"{head} @{self.name}({parameters}) {self.attributes}".rstrip()
        return "\n".join([f"{head} {{", "entry:", *self.reserved, *self.lines, "}"])


def _runs_once(start: str, stop: str, step: str) -> bool:
    """Whether a loop with these bounds has exactly one round."""
    if not (start.isdigit() and stop.isdigit() and step.isdigit()):
        return False
    return int(start) < int(stop) <= int(start) + int(step)


@record(frozen=False)
class Loop:
    """The names that a structured loop gives its body; see `Function.loop`."""

    index: str
    values: list[str]
    next: list[str]


@record(frozen=False)
class Module:
    """The LLVM module under construction: functions, global lines, declarations."""

    functions: dict[str, Function] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    shared: dict[Hashable, Any] = field(default_factory=dict)  # names by meaning or text
    symbols: dict[Symbol, int] = field(default_factory=dict)  # symbolic sizes by their slots

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        returns: str = "void",
        attributes: str = "nounwind",
        linkage: str = "",
    ) -> Function:
        """Open a function; the caller writes its lines and a final `ret`."""
        assert name not in self.functions, f"function {name} is defined twice"
        made = Function(name, parameters, returns, attributes, linkage, symbols=self.symbols)
        self.functions[name] = made
        return made

    def internal(
        self, name: str, parameters: str, returns: str = "void", attributes: str = "nounwind"
    ) -> Function:
        """Open a function of this module alone; parameters are `ptr %x, i64 %count`."""
        given = [tuple(each.rsplit(" ", 1)) for each in parameters.split(", ")]
        return self.function(name, given, returns, attributes, "internal")  # type: ignore[arg-type]

    def once(self, name: str) -> str:
        """Add a complete function unless an equal one exists, and give its name."""
        f = self.functions.get(name)
        if f is None:
            return name
        kept = self.shared.setdefault(f.text.replace(f"@{name}(", "@(", 1), name)
        if kept != name:
            del self.functions[name]
        return kept

    @property
    def text(self) -> str:
        """The module as LLVM text."""
        declarations = set(self.declarations).union(
            *(f.declarations for f in self.functions.values())
        )
        bodies = [f.text for f in self.functions.values()]
        return "\n\n".join(["\n".join([*sorted(declarations), *self.globals]), *bodies]) + "\n"
