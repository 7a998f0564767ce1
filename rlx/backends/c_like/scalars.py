"""Writes scalar expressions and indices as text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...ir.dims import is_at_least
from ...ir.errors import UnsupportedOp
from ...ir.record import field, record
from ...ir.types import SHORT, as_dtype, is_float, neutral
from ...lower.lir.expr import Apply, Const, Expr, Guard, IndexValue, Load, Reduce, walk
from ...lower.lir.index import Atom, Index, Loaded, Quotient, Variable
from ...lower.lir.program import Buffer
from .arithmetic import Given, Known, Number
from .bodies import BODIES
from .dialect import FLOAT32, HALVES, INT32, Dialect, Parameter, register
from .long_sums import keeps_order, reduce_in_order

LONGEST = 100  # characters of an expression that gets no line of its own
BOOL, UINT16 = as_dtype("bool"), as_dtype("uint16")


@record(frozen=False)
class Functions:
    """The functions that the kernels of a text call, each after those it calls."""

    dialect: Dialect
    texts: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def name(self, instruction: str, dtypes: Sequence[np.dtype], result: np.dtype) -> str:
        """The function for an instruction, written if it is new."""
        dtype = dtypes[-1]
        name = f"{instruction}_{SHORT[dtype.name]}"
        if instruction in ("saturate", "select"):
            name += f"_{SHORT[result.name]}"
        if name not in self.texts:
            self._write(name, instruction, dtypes, result)
        return name

    def _write(
        self, name: str, instruction: str, dtypes: Sequence[np.dtype], result: np.dtype
    ) -> None:
        if instruction not in BODIES:
            raise UnsupportedOp(
                f"{instruction}: {self.dialect.name} has no such instruction for {dtypes[0].name}",
                fix="convert the operands to float32, or run this function on another device",
            )
        given = [Given(dtype, letter) for dtype, letter in zip(dtypes, "xyz", strict=False)]
        value = BODIES[instruction](result, *map(Number, given)).expr
        writer = Scalars(self.dialect, self, [value])
        text = writer.expr(value)
        parameters = [(g.name, g.dtype) for g in given]
        lines = writer.lines
        self.calls[name] = tuple(writer.called)
        self.texts[name] = self.dialect.function(result, name, parameters, lines, text)

    def needed(self, names: Iterable[str]) -> list[str]:
        """The texts of some functions and of all that they call, in order."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in found:
                for called in self.calls[name]:
                    visit(called)
                found.setdefault(name)

        for name in names:
            visit(name)
        return [self.texts[name] for name in found]


@record(frozen=False)
class Scope:
    """Lines of a block, the expressions that have names there, and its loop variables."""

    variables: frozenset[Variable] = frozenset()
    branch: bool = False  # whether nothing may move out of it: loads may be out of their buffers
    lines: list[str] = field(default_factory=list)
    names: dict[Expr, str] = field(default_factory=dict)


class Scalars:
    """Writes expressions: shared ones and reductions get a line and a name.

    `variables` are the texts of loop variables, `given` those of expressions that are at hand,
    `parameters` the arrays of buffers.
    """

    def __init__(
        self, dialect: Dialect, functions: Functions, roots: Iterable[Expr], index: np.dtype = INT32
    ) -> None:
        self.dialect, self.functions, self.index_dtype = dialect, functions, index
        self.variables: dict[Variable, str] = {}
        self.given: dict[Expr, str] = {}
        self.parameters: dict[Buffer, Parameter] = {}
        self.called: dict[str, None] = {}
        self.known = Known()
        self.count: Counter[str] = Counter()
        self.scopes = [Scope()]
        self.uses: Counter[Expr] = Counter()
        roots = tuple(roots)
        self.uses.update(roots)
        for expr in walk(*roots):
            self.uses.update(expr.operands)
            self.uses.update(e for index in expr.indices for e in index.loads)

    # -- lines -----------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The lines of the innermost block so far."""
        return self.scopes[-1].lines

    def line(self, text: str) -> None:
        """Add a line to the innermost block."""
        self.scopes[-1].lines.append(text)

    def constant(self, name: str, text: str, dtype: np.dtype | None = None) -> None:
        """Name a number, that of an index if no dtype is given."""
        kind = self.index_dtype if dtype is None else register(dtype)
        self.line(self.dialect.constant(kind, name, text))

    def fresh(self, prefix: str) -> str:
        """A name that is not in use."""
        self.count[prefix] += 1
        return f"{prefix}{self.count[prefix] - 1}"

    @contextmanager
    def block(
        self, head: str, variables: Iterable[Variable] = (), branch: bool = False
    ) -> Iterator[None]:
        """Write lines into a block."""
        scope = Scope(frozenset(variables), branch)
        self.scopes.append(scope)
        yield
        assert self.scopes.pop() is scope, "blocks are closed in order"
        self.lines.extend([head, *(f"    {line}" for line in scope.lines), "}"])

    @contextmanager
    def loop(self, variable: Variable, start: str = "0", step: str = "1") -> Iterator[str]:
        """A loop over the values of a variable, from a start by a step."""
        name = self.variables[variable] = self.fresh("k")
        end = self.size(variable)
        head = self.dialect.loop(self.index_dtype, name, start, end, step)
        with self.block(head, [variable]):
            yield name

    def size(self, variable: Variable) -> str:
        """The extent of a variable."""
        return self.whole(variable.extent)

    def whole(self, number: object) -> str:
        """A number of an index."""
        assert isinstance(number, int), "sizes are numbers here"
        return self.dialect.literal(self.index_dtype, number)

    @contextmanager
    def _at(self, depth: int) -> Iterator[None]:
        """Write to the block of a depth for a while."""
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        yield
        self.scopes.extend(inner)

    # -- expressions -----------------------------------------------------------------------------

    def expr(self, expr: Expr) -> str:
        """An expression: in line, or the name of its own line."""
        if expr in self.given:
            return self.given[expr]
        known = self.known[expr]
        if known is not None:
            return self.dialect.literal(register(known.dtype), known.number)
        if isinstance(expr, Given):
            return expr.name
        for scope in self.scopes:
            if expr in scope.names:
                return scope.names[expr]
        if isinstance(expr, IndexValue):
            return self.from_index(expr)
        if isinstance(expr, Reduce | Guard):
            return self._in_its_block(expr)
        if self.uses[expr] > 1:
            return self.named(expr)
        text = self._inline(expr)
        return self.named(expr, text) if len(text) > LONGEST else text

    def named(self, expr: Expr, text: str | None = None) -> str:
        """An expression as a name, on a line of its own as far out as can be."""
        depth = self._depth(expr) if text is None else len(self.scopes) - 1
        with self._at(depth):
            text = self._inline(expr) if text is None else text
            name = self.fresh("t")
            self.constant(name, text, expr.dtype)
            self.scopes[-1].names[expr] = name
        return name

    def value(self, expr: Expr) -> str:
        """An expression, named unless it is a number or has a name."""
        text = self.expr(expr)
        is_name = text.isidentifier() or isinstance(expr, Const)
        return text if is_name else self.named(expr, text)

    def _depth(self, expr: Expr) -> int:
        """The outermost block that an expression may stand in."""
        if self.given and any(e in self.given for e in walk(expr)):
            return len(self.scopes) - 1  # what is at hand here is not further out
        needed = [n for n, s in enumerate(self.scopes) if s.branch or s.variables & expr.variables]
        return max(needed, default=0)

    def _inline(self, expr: Expr) -> str:
        if isinstance(expr, Load):
            parameter = self.parameters[expr.buffer]
            return self.loaded(parameter, self.index(expr.index))
        assert isinstance(expr, Apply), f"{expr} is no instruction"
        args = [self.expr(a) for a in expr.args]
        dtypes = [a.dtype for a in expr.args]
        args = self.known.factors(expr, args, self.dialect)
        if expr.instruction == "convert":
            return self.convert(dtypes[0], expr.dtype, *args)
        if expr.instruction == "bitcast":
            return self.bitcast(dtypes[0], expr.dtype, *args)
        return self.call(expr.instruction, dtypes, expr.dtype, args)

    def _in_its_block(self, expr: Reduce | Guard) -> str:
        with self._at(self._depth(expr)):
            name = self.fresh("r" if isinstance(expr, Reduce) else "g")
            if isinstance(expr, Reduce):
                self.reduction(name, expr)
            else:
                self._guard(name, expr)
            self.scopes[-1].names[expr] = name
        return name

    def reduction(self, name: str, expr: Reduce) -> None:
        """A reduction as a loop of the thread."""
        kind = register(expr.dtype)
        if keeps_order(self.dialect, expr):
            reduce_in_order(self, name, expr)
            return
        if self._in_lanes(expr):
            self._reduction_in_lanes(name, expr)
            return
        self.line(self.dialect.variable(kind, name, self.expr(expr.init)))
        self.nest(expr.loops, lambda: self.combine(name, expr.combine, expr.dtype, expr.body))

    def _in_lanes(self, expr: Reduce) -> bool:
        """Whether several sums side by side are faster: on processors, of floats."""
        limits, length = self.dialect.limits, expr.loops[-1].extent
        is_long = isinstance(length, int) and length >= 4 * limits.lanes
        return limits.serial and limits.lanes > 1 and is_long and is_float(expr.dtype)

    def _reduction_in_lanes(self, name: str, expr: Reduce) -> None:
        """A reduction as several, each of every so many terms."""
        lanes, along, dtype = self.dialect.limits.lanes, expr.loops[-1], expr.dtype
        kind, parts = register(dtype), f"{name}_parts"
        end = int(along.extent) // lanes * lanes  # type: ignore[arg-type]
        start = self.dialect.literal(kind, neutral(expr.combine, kind))
        self.line(self.dialect.array(kind, parts, lanes))
        with self.count_to("l", lanes):
            self.line(f"{parts}[l] = {start};")

        def go_along() -> None:
            block, index = self.fresh("k"), self.index_dtype
            head = self.dialect.loop(
                index, block, self.whole(0), self.whole(end), self.whole(lanes)
            )
            with self.block(head, [along]), self.count_to("l", lanes, [along]):
                self.variables[along] = f"({block} + l)"
                self.combine(f"{parts}[l]", expr.combine, dtype, expr.body)
            if end < along.extent:  # type: ignore[operator]
                with self.loop(along, self.whole(end)):
                    self.combine(f"{parts}[0]", expr.combine, dtype, expr.body)

        self.nest(expr.loops[:-1], go_along)
        self.line(self.dialect.variable(kind, name, self.expr(expr.init)))
        with self.count_to("l", lanes):
            text = self.pair(expr.combine, dtype, name, f"{parts}[l]")
            self.line(f"{name} = {text};")

    def combine(self, name: str, combine: str, dtype: np.dtype, body: Expr) -> None:
        """Combine a number into a variable."""
        text = self.pair(combine, dtype, name, self.expr(body))
        self.line(f"{name} = {text};")

    @contextmanager
    def shared(self, loops: Sequence[Variable], thread: str, threads: int) -> Iterator[None]:
        """A loop of one of some threads over its share of the loops' values, in turn."""
        count = math.prod(v.extent for v in loops)  # type: ignore[misc]
        name = self.fresh("n")
        head = self.dialect.loop(
            self.index_dtype, name, thread, self.whole(count), self.whole(threads)
        )
        with self.block(head, loops):
            self.cut(name, loops)
            yield

    def cut(self, name: str, loops: Sequence[Variable]) -> None:
        """Name the variables of loops that are numbered together, in row-major order."""
        if len(loops) == 1:
            self.variables[loops[0]] = name
            return
        stride = 1
        for number, variable in enumerate(reversed(loops)):
            text = name if stride == 1 else f"{name} / {self.whole(stride)}"
            if number < len(loops) - 1:
                text = text if stride == 1 else f"({text})"
                text = f"{text} % {self.size(variable)}"
            part = self.variables[variable] = self.fresh("i")
            self.constant(part, text)
            stride *= variable.extent  # type: ignore[operator, assignment]

    @contextmanager
    def count_to(self, name: str, count: int, variables: Iterable[Variable] = ()) -> Iterator[None]:
        """A short loop of the thread over numbers that no index has, to be unrolled."""
        head = self.dialect.loop(self.index_dtype, name, self.whole(0), self.whole(count))
        with self.block(head, variables):
            yield

    def as_index(self, what: str, axis: int) -> str:
        """Where the thread is along an axis, as a number of indices."""
        return self.convert(INT32, self.index_dtype, self.dialect.place(what, axis))

    def nest(self, loops: Sequence[Variable], inside: Callable[[], None]) -> None:
        """Loops of a thread, outermost first."""
        if not loops:
            inside()
            return
        with self.loop(loops[0]):
            self.nest(loops[1:], inside)

    def _guard(self, name: str, expr: Guard) -> None:
        kind = register(expr.dtype)
        condition = self.condition(expr.bounds, expr.steps)
        is_plain = isinstance(expr.outside, Const)
        start = self.expr(expr.outside) if is_plain else None
        self.line(self.dialect.variable(kind, name, start))
        with self.block(f"if ({condition}) {{", branch=True):
            self.line(f"{name} = {self.expr(expr.inside)};")
        if not is_plain:
            with self.block("else {", branch=True):
                self.line(f"{name} = {self.expr(expr.outside)};")

    def condition(
        self,
        bounds: Iterable[tuple[Index, object, object]],
        steps: Iterable[tuple[Index, int]] = (),
    ) -> str:
        """Where all conditions of a guard hold."""
        parts = []
        for index, low, high in bounds:
            text = self.index(index)
            text = text if text.isidentifier() else f"({text})"
            if not is_at_least(index.low, low):  # type: ignore[arg-type]
                parts.append(f"{text} >= {self.whole(low)}")
            if not is_at_least(high - 1, index.high):  # type: ignore[operator]
                parts.append(f"{text} < {self.whole(high)}")
        for index, step in steps:
            parts.append(f"{self.atom_rest(index, step)} == {self.whole(0)}")
        return " && ".join(parts) or "true"

    # -- instructions ----------------------------------------------------------------------------

    def call(
        self, name: str, dtypes: Sequence[np.dtype], result: np.dtype, args: Sequence[str]
    ) -> str:
        """An instruction on texts."""
        result = register(result)
        dtypes = [register(dtype) for dtype in dtypes]
        template = self.dialect.template(name, dtypes[-1], result)
        if template is not None:
            return template.format(*args)
        function = self.functions.name(name, dtypes, result)
        self.called.setdefault(function)
        return f"{function}({', '.join(args)})"

    def pair(
        self, name: str, dtype: np.dtype, x: str, y: str, result: np.dtype | None = None
    ) -> str:
        """An instruction on two texts of a dtype."""
        return self.call(name, [dtype, dtype], dtype if result is None else result, [x, y])

    def least(self, x: str, y: str) -> str:
        """The lesser of two numbers of indices."""
        return self.pair("min", self.index_dtype, x, y)

    def convert(self, origin: np.dtype, target: np.dtype, x: str) -> str:
        """A number in another dtype, as the instruction `convert` says."""
        if target in HALVES:
            if origin.name == "float64" and target.name == "float16":
                x = self.call("to_odd", [origin], FLOAT32, [x])
            else:
                x = self.convert(origin, FLOAT32, x)
            return self.call(f"round_{target.name}", [FLOAT32], FLOAT32, [x])
        origin = register(origin)
        if origin == target:
            return x
        if target.kind == "b":
            zero = self.dialect.literal(origin, 0)
            return self.pair("ne", origin, x, zero, BOOL)
        if origin.kind == "b":
            numbers = [self.dialect.literal(target, n) for n in (1, 0)]
            return self.call("select", [origin, target, target], target, [x, *numbers])
        name = "saturate" if is_float(origin) and target.kind in "iu" else "cast"
        return self.call(name, [origin], target, [x])

    def bitcast(self, origin: np.dtype, target: np.dtype, x: str) -> str:
        """The same bits as another dtype."""
        if origin == target:
            return x
        if origin in HALVES:
            x = self.call(f"narrow_{origin.name}", [FLOAT32], UINT16, [x])
            return self.bitcast(UINT16, target, x)
        if target in HALVES:
            x = self.bitcast(origin, UINT16, x)
            return self.call(f"widen_{target.name}", [UINT16], FLOAT32, [x])
        if "b" in (origin.kind, target.kind):
            return self.convert(origin, target, x)
        return self.call("bitcast", [origin], target, [x])

    # -- memory ----------------------------------------------------------------------------------

    def loaded(self, parameter: Parameter, place: str) -> str:
        """The number at a place of an array."""
        text = self.dialect.load(parameter, place)
        if parameter.dtype in HALVES - self.dialect.stored_halves:
            return self.call(f"widen_{parameter.dtype.name}", [UINT16], FLOAT32, [text])
        return text

    def store(self, buffer: Buffer, place: str, value: str) -> None:
        """Put a number of the buffer's dtype into memory."""
        parameter = self.parameters[buffer]
        if parameter.dtype in HALVES - self.dialect.stored_halves:
            value = self.call(f"narrow_{parameter.dtype.name}", [FLOAT32], UINT16, [value])
        self.line(self.dialect.store(parameter, place, value))

    # -- indices ---------------------------------------------------------------------------------

    def from_index(self, expr: IndexValue) -> str:
        """An index as a number."""
        text = self.index(expr.index)
        return self.convert(self.index_dtype, expr.dtype, f"({text})")

    def index(self, index: Index) -> str:
        """An index as `i * 6 + j + 1`."""
        text = ""
        for atom, coefficient in index.terms:
            assert isinstance(coefficient, int), "sizes are numbers here"
            part = self.atom(atom)
            size = abs(coefficient)
            part = part if size == 1 else f"{part} * {self.whole(size)}"
            if text:
                text += (" - " if coefficient < 0 else " + ") + part
            else:
                text = f"-{part}" if coefficient < 0 else part
        if not text:
            return self.whole(index.constant)
        if index.constant != 0:
            assert isinstance(index.constant, int), "sizes are numbers here"
            text += " - " if index.constant < 0 else " + "
            text += self.whole(abs(index.constant))
        return text

    def atom(self, atom: Atom) -> str:
        """A loop variable, quotient, remainder or number from memory."""
        if isinstance(atom, Variable):
            return self.variables[atom]
        if isinstance(atom, Loaded):
            text = self.expr(atom.expr)
            if atom.expr.dtype == self.index_dtype:
                return text if text.isidentifier() else f"({text})"
            return self.convert(atom.expr.dtype, self.index_dtype, text)
        if isinstance(atom, Quotient):
            return self._divided(atom.index, atom.divisor, "plain_div", "floor_div")
        return self.atom_rest(atom.index, atom.divisor)

    def atom_rest(self, index: Index, divisor: object) -> str:
        """The remainder of an index."""
        return self._divided(index, divisor, "plain_rem", "floor_rem")

    def _divided(self, index: Index, divisor: object, plain: str, floor: str) -> str:
        text = self.index(index)
        text = text if text.isidentifier() else f"({text})"
        dtype = self.index_dtype
        name = plain if index.is_nonnegative else floor
        return self.pair(name, dtype, text, self.whole(divisor))
