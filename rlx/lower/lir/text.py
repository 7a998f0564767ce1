"""The text of programs, kernels and scalar expressions.

People read it, and caches are keyed by it: one graph always lowers to the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...ir.dims import Size, likely
from ...ir.types import SHORT
from .access import reads, writes
from .expr import (
    Accumulated,
    Apply,
    Const,
    Expr,
    Guard,
    IndexValue,
    Load,
    Reduce,
    walk,
)
from .index import Atom, Index, Loaded, Quotient, Variable
from .program import (
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
    Store,
    TopK,
    WhileStep,
)

Letters = dict[Variable, str]

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
}


class Writer:
    """Prints expressions; shared ones and reductions get a line and a name."""

    def __init__(self, roots: Iterable[Expr], indent: str = "  ") -> None:
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.named = 0
        self.letters: dict[Variable, str] = {}
        self.uses: Counter[Expr] = Counter()
        self.scopes: list[tuple[frozenset[Variable], str]] = [(frozenset(), indent)]
        roots = tuple(roots)
        self.uses.update(roots)
        for expr in walk(*roots):
            self.uses.update(expr.parts)

    def variable(self, variable: Variable) -> str:
        """The name of a loop variable: letters in the order they are met."""
        if variable not in self.letters:
            count = len(self.letters)
            letter = "ijklmnopqrstuvwxyz"[count % 18]
            self.letters[variable] = letter + (str(count // 18) if count >= 18 else "")
        return self.letters[variable]

    def loops(self, variables: Iterable[Variable]) -> str:
        """Loops as `i < 4, j < 5`."""
        return ", ".join(f"{self.variable(v)} < {v.extent}" for v in variables)

    def index(self, index: Index) -> str:
        """An index as `i*6 + j + 1`."""
        text = ""
        for atom, coefficient in sorted(index.terms, key=lambda term: -abs(likely(term[1]))):
            size, is_negative = _magnitude(coefficient)
            part = self.atom(atom) + (f"*{size}" if size != "1" else "")
            text += (" - " if text else "-") if is_negative else (" + " if text else "")
            text += part
        if index.constant != 0 or not text:
            size, is_negative = _magnitude(index.constant)
            text += (" - " if text else "-") if is_negative else (" + " if text else "")
            text += size
        return text

    def atom(self, atom: Atom) -> str:
        """A loop variable, quotient, remainder or loaded number."""
        if isinstance(atom, Variable):
            return self.variable(atom)
        if isinstance(atom, Loaded):
            return f"[{self.expr(atom.expr)}]"
        inner = self.index(atom.index)
        inner = inner if inner.isalnum() else f"({inner})"
        return f"({inner} {'//' if isinstance(atom, Quotient) else '%'} {atom.divisor})"

    def expr(self, expr: Expr) -> str:
        """An expression, or the name of the line where it is written."""
        if expr in self.names:
            return self.names[expr]
        is_leaf = isinstance(expr, Const | Accumulated | IndexValue)
        if is_leaf or (self.uses[expr] < 2 and not isinstance(expr, Reduce)):
            return self.inline(expr)
        depth = max(n for n, s in enumerate(self.scopes) if not n or s[0] & expr.variables)
        text = self.reduction(expr) if isinstance(expr, Reduce) else self.inline(expr)
        name = self.names[expr] = f"t{self.named}"
        self.named += 1
        self.lines.append(f"{self.scopes[depth][1]}{name} = {text}")
        return name

    def reduction(self, expr: Reduce) -> str:
        """The right side of a reduction, with indented lines for its body below."""
        before, self.lines = self.lines, []
        self.scopes.append((frozenset(expr.loops), self.scopes[-1][1] + "    "))
        head = f"{expr.combine} over {self.loops(expr.loops)}: "
        body = self.expr(expr.body)
        self.scopes.pop()
        bound = frozenset(expr.loops)
        self.names = {e: name for e, name in self.names.items() if not e.variables & bound}
        inner = [line for line in self.lines if line.startswith(self.scopes[-1][1] + "    ")]
        outer = [line for line in self.lines if line not in inner]
        self.lines = before + outer
        if not inner:
            return head + body
        indent = self.scopes[-1][1] + "    "
        return head.rstrip() + "\n" + "\n".join([*inner, indent + body])

    def inline(self, expr: Expr) -> str:
        """An expression as text in one piece."""
        if isinstance(expr, Const):
            return str(expr.number)
        if isinstance(expr, IndexValue):
            return f"{SHORT[expr.dtype.name]}({self.index(expr.index)})"
        if isinstance(expr, Load):
            return f"{expr.buffer.name}[{self.index(expr.index)}]"
        if isinstance(expr, Accumulated):
            return "accumulated"
        if isinstance(expr, Guard):
            conditions = self.conditions(expr.bounds)
            conditions += [f"({self.index(i)}) % {step} == 0" for i, step in expr.steps]
            inside, outside = self.expr(expr.inside), self.expr(expr.outside)
            return f"({inside} where {' and '.join(conditions)} else {outside})"
        assert isinstance(expr, Apply), f"no text for {type(expr).__name__}"
        args = [self.expr(a) for a in expr.args]
        if expr.instruction in INFIX:
            return f"({args[0]} {INFIX[expr.instruction]} {args[1]})"
        if expr.instruction in ("convert", "bitcast"):
            args.append(SHORT[expr.dtype.name])
        return f"{expr.instruction}({', '.join(args)})"

    def conditions(self, bounds: Iterable[tuple[Index, Size, Size]]) -> list[str]:
        """Bounds as `0 <= i < 4`."""
        return [f"{low} <= {self.index(i)} < {high}" for i, low, high in bounds]

    def store(self, store: Store) -> None:
        """A line for a store, after the lines it needs."""
        text = self.expr(store.expr)
        text = text[1:-1] if text.startswith("(") and _is_wrapped(text) else text
        place = f"{store.buffer.name}[{self.index(store.index)}]"
        self.lines.append(f"{self.scopes[-1][1]}{place} = {text}")


def _is_wrapped(text: str) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def index_text(index: Index) -> str:
    """An index on its own."""
    return Writer(()).index(index)


def expr_text(expr: Expr) -> str:
    """An expression on its own, after the lines that it needs."""
    writer = Writer((expr,), indent="")
    last = writer.expr(expr)
    return "\n".join([*writer.lines, last])


def buffer_text(buffer: Buffer) -> str:
    """The declaration of a buffer."""
    place = f" at {buffer.offset}" if buffer.offset is not None else ""
    return f"{buffer.name}: {buffer.type} {buffer.kind}{place}"


def names(buffers: Iterable[Buffer]) -> str:
    """Buffer names, one after another."""
    return ", ".join(b.name for b in buffers)


def kernel_lines(kernel: Kernel, writer: Writer | None = None, indent: str = "") -> list[str]:
    """The lines of a kernel, its head first."""
    inner = Writer((s.expr for s in kernel.stores), indent + "  ")
    inner.letters = writer.letters if writer else {}
    head = f"{indent}kernel {inner.loops(kernel.loops)}".rstrip() + ":"
    for store in kernel.stores:
        inner.store(store)
    return [head, *inner.lines]


def _rows_lines(rows: RowGroup, letters: Letters | None = None) -> list[str]:
    writer = Writer(())
    writer.letters = dict(letters or {})
    local = f", local {rows.local_bytes} bytes" if rows.locals else ""
    lines = [f"rows {writer.loops(rows.loops)}{local}:"]
    lines += ["  " + buffer_text(b) for b in rows.locals]
    outer = dict(writer.letters)
    for kernel in rows.kernels:
        writer.letters = dict(outer)
        lines += kernel_lines(kernel, writer, "  ")
    return lines


def _scan_lines(scan: Scan) -> list[str]:
    writer = Writer((scan.expr,))
    loops = ", ".join(
        part for part in (writer.loops(scan.loops), writer.loops([scan.along])) if part
    )
    way = " backwards" if scan.reverse else ""
    text = writer.expr(scan.expr)
    place = f"{scan.buffer.name}[{writer.index(scan.index)}]"
    return [f"scan {loops}{way}:", *writer.lines, f"  {place} = running {scan.combine} of {text}"]


def _top_k_lines(step: TopK) -> list[str]:
    writer = Writer((step.expr,))
    loops = writer.loops((*step.loops, step.along, step.rank))
    text, place = writer.expr(step.expr), writer.index(step.index)
    last = f"  {step.values.name}[{place}], {step.places.name}[{place}] = greatest of {text}"
    return [f"greatest {loops}:", *writer.lines, last]


def _scatter_lines(scatter: Scatter) -> list[str]:
    writer = Writer((scatter.expr, *scatter.index.loads))
    head = f"scatter {writer.loops(scatter.loops)}".rstrip() + ":"
    conditions = " and ".join(writer.conditions(scatter.bounds))
    text, place = writer.expr(scatter.expr), writer.index(scatter.index)
    last = f"  {scatter.combine} {scatter.buffer.name}[{place}] with {text}"
    return [head, *writer.lines, last + (f" where {conditions}" if conditions else "")]


def _contraction_lines(step: Contraction, letters: Letters | None = None) -> list[str]:
    writer = Writer(s.expr for s in step.stores)
    writer.letters = dict(letters or {})
    outer = writer.loops((*step.batch, step.row, step.column))
    inner = writer.loops([step.depth])
    factors = f"{writer.expr(step.lhs)} * {writer.expr(step.rhs)}"
    head = f"contraction {outer}{', at the same time' if step.joins else ''}:"
    line = f"  accumulated = {SHORT[step.dtype.name]} add over {inner}: {factors}"
    for store in step.stores:
        writer.store(store)
    return [head, line, *writer.lines]


def _chain_lines(chain: Chain) -> list[str]:
    writer = Writer(())
    loops = writer.loops(chain.loops)
    lines = [f"chain {loops}, by workers {writer.loops([chain.worker])}:"]
    for step in chain.steps:
        if isinstance(step, Kernel):
            own = Writer(())
            own.letters = dict(writer.letters)
            made = kernel_lines(step, own)
        elif isinstance(step, RowGroup):
            made = _rows_lines(step, writer.letters)
        else:
            made = _contraction_lines(step, writer.letters)
        lines += ["  " + line for line in made]
    return lines


def step_lines(step: Step) -> list[str]:
    """The lines of one step."""
    if isinstance(step, Kernel):
        return kernel_lines(step)
    if isinstance(step, RowGroup):
        return _rows_lines(step)
    if isinstance(step, Scan):
        return _scan_lines(step)
    if isinstance(step, TopK):
        return _top_k_lines(step)
    if isinstance(step, Sort):
        size = f"{step.rows} rows of {step.length}"
        return [f"{names(writes(step))} = sort {size} of {step.numbers.name}"]
    if isinstance(step, Scatter):
        return _scatter_lines(step)
    if isinstance(step, Contraction):
        return _contraction_lines(step)
    if isinstance(step, Chain):
        return _chain_lines(step)
    if isinstance(step, LibraryCall):
        return [f"{names(step.outputs)} = library {step.op.name}({names(step.inputs)})"]
    if isinstance(step, Copy):
        return [f"{step.target.name} = copy {step.origin.name}"]
    return _control_lines(step)


def _control_lines(step: BranchStep | WhileStep | RepeatStep) -> list[str]:
    if isinstance(step, BranchStep):
        head = f"{names(step.outputs)} = branch {step.selector.name}({names(step.inputs)})"
        nested = step.programs
    elif isinstance(step, WhileStep):
        constants = f"{names(step.condition_constants)}; {names(step.body_constants)}"
        head = f"while {step.flag.name} ({constants}): {_carries(step)}"
        nested = (step.condition, step.body)
    else:
        way = " backwards" if step.reverse else ""
        way += f" in {step.parts} parts" if step.parts > 1 else ""
        head = f"repeat {step.length}{way} ({names(step.constants)}): {_carries(step)}"
        head += f"; slices {names(step.slices)}" if step.slices else ""
        head += f"; stacks {names(step.stacks)}" if step.stacks else ""
        nested = (step.body,)
    head += f"; scratch {step.scratch.name}" if step.scratch else ""
    return [head, *("  " + line for p in nested for line in program_text(p).splitlines())]


def _carries(step: WhileStep | RepeatStep) -> str:
    parts = [
        f"{c.initial.name} -> {c.result.name} " + (f"| {c.spare.name}" if c.spare else "in place")
        for c in step.carries
    ]
    return "carry " + ", ".join(parts)


def program_text(program: Program) -> str:
    """All of a program: its head, its buffers, its steps."""
    lines = [f"program {program.name}, arena {program.arena_bytes} bytes:"]
    lines += ["  " + buffer_text(b) for b in buffers_of(program)]
    for step in program.steps:
        lines += ["  " + line for text in step_lines(step) for line in text.splitlines()]
    return "\n".join(lines)


def buffers_of(program: Program) -> list[Buffer]:
    """The buffers of a program in the order they are declared."""
    found = dict.fromkeys((*program.inputs, *program.outputs, *program.constants))
    for step in program.steps:
        found.update(dict.fromkeys(step_buffers(step)))
    return [b for b in found if b.kind != "local"]


def step_buffers(step: Step) -> list[Buffer]:
    """Every buffer a step reads or writes, in a fixed order."""
    return list(dict.fromkeys((*writes(step), *reads(step))))


# attached here, so that the datatypes need not know how they are written
Index.__str__ = index_text  # type: ignore[method-assign]
Expr.__str__ = expr_text  # type: ignore[method-assign]
Program.__str__ = program_text  # type: ignore[method-assign]


def _magnitude(size: Size) -> tuple[str, bool]:
    """The absolute value of a size, and whether it is negative."""
    if isinstance(size, int):
        return str(abs(size)), size < 0
    return str(size) if len(size.terms) == 1 else f"({size})", False
