"""What is known of each step of a program: operations, lines, work and memory."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ir.body import Contract, Fill, Move, Pointwise, Reduce, View
from ..ir.dims import likely
from ..ir.graph import Node, Value
from ..ir.record import record
from ..ir.source import Source
from .cost import work
from .lir.access import reads, times, writes
from .lir.expr import INSTRUCTIONS
from .lir.program import (
    BranchStep,
    Buffer,
    Chain,
    Program,
    RepeatStep,
    RowGroup,
    Step,
    WhileStep,
)
from .report import kind_of
from .schedule.plan_memory import rounded

MOST_NAMED = 4  # operations in the name of a step
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
KINDS = {BranchStep: "branch", WhileStep: "loop", RepeatStep: "loop", Chain: "chain"}


@record
class Line:
    """A line of the user's, and its share of the work of a step."""

    source: Source
    share: float


@record
class StepFacts:
    """A step of a program, as tools show it."""

    kind: str  # kernel, contraction, ...
    ops: tuple[str, ...]  # the operations that it computes, in order
    lines: tuple[Line, ...]  # the first has the largest share
    flops: int  # scalar instructions of one execution
    nbytes: int  # that it reads and writes
    live_bytes: int  # of the program's temporaries while it runs
    parent: int | None = None  # the step whose program it is a part of
    functions: tuple[str, ...] = ()  # of the machine code, that it calls

    @property
    def name(self) -> str:
        """Its kind and operations, as `kernel mul, add, tanh`."""
        named = list(dict.fromkeys(self.ops))
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        return f"{self.kind} {', '.join(named[:MOST_NAMED])}{more}".rstrip()

    @property
    def source(self) -> Source | None:
        """The line that most of its work is for."""
        return self.lines[0].source if self.lines else None


def facts_of(program: Program) -> dict[Step, StepFacts]:
    """The facts of the steps of a program lowered for a `Target.timed`, by step.

    Those of nested programs are left out.
    """
    ends = _Ends(program)
    readers = _readers(program.steps)
    found: dict[Step, StepFacts] = {}
    for step, living in zip(program.steps, live_bytes(program), strict=True):
        nodes = ends.nodes_of([step])
        if not nodes:  # a part of a sum, or a copy: it is for those who read it
            nodes = ends.nodes_of([s for b in writes(step) for s in readers.get(b.name, ())])
        flops, nbytes = work(Program(program.name, (), (), (), [step]))
        counted = [n for n in nodes if not isinstance(n.op.rules.body, (View, Move, Fill))]
        ops = tuple(node.op.name for node in counted or nodes)
        found[step] = StepFacts(_kind(step), ops, tuple(_lines(nodes, step)), flops, nbytes, living)
    return found


def _kind(step: Step) -> str:
    return KINDS.get(type(step)) or kind_of(step)


class _Ends:
    """The values that the steps of a program store, where the operations of others end."""

    def __init__(self, program: Program) -> None:
        self._origins = program.origins
        written = {b.name for step in program.steps for b in _written(step)}
        self._stored = {v: name for name, v in program.origins.items() if name in written}

    def nodes_of(self, steps: Sequence[Step]) -> list[Node]:
        """The nodes that steps compute, in order, back to what others store."""
        inside = {b.name: None for step in steps for b in _written(step)}
        found: dict[Node, None] = {}
        seen: set[Value] = set()
        waiting = [(self._origins[name], False) for name in inside if name in self._origins]
        waiting.reverse()
        while waiting:
            value, is_done = waiting.pop()
            node = value.node
            if node is None or node.op.is_constant:
                continue
            if is_done:
                found[node] = None
            elif value not in seen and self._stored.get(value, next(iter(inside))) in inside:
                seen.add(value)
                waiting.append((value, True))
                waiting += [(arg, False) for arg in reversed(node.args)]
        return list(found)


def _written(step: Step) -> list[Buffer]:
    return [b for part in _parts([step]) for b in writes(part)]


def _parts(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps, and those that stand in a chain."""
    for step in steps:
        yield from step.steps if isinstance(step, Chain) else (step,)


def _readers(steps: Sequence[Step]) -> Mapping[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        for buffer in reads(step):
            found.setdefault(buffer.name, []).append(step)
    return found


def _lines(nodes: Sequence[Node], step: Step) -> Iterator[Line]:
    """The lines of nodes by their shares of the work, the largest first."""
    found: dict[Source, float] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        waiting += [each for graph in node.graphs for each in graph.nodes]
        if node.source is not None and not node.graphs:
            found[node.source] = found.get(node.source, 0.0) + node_work(node)
    if not found:
        own = [node.source for node in nodes if node.source is not None]
        found = dict.fromkeys(own or _sources(step), 1.0)
    total = sum(found.values()) or 1.0
    for source, part in sorted(found.items(), key=lambda row: -row[1]):
        yield Line(source, part / total)


def _sources(step: Step) -> list[Source]:
    """The lines that a step and its parts name themselves."""
    parts: Sequence[Step] = (step,)
    if isinstance(step, RowGroup):
        parts = step.kernels
    elif isinstance(step, Chain):
        parts = step.steps
    given = [getattr(part, "source", None) for part in parts]
    return [source for source in dict.fromkeys(given) if source is not None]


def node_work(node: Node) -> float:
    """About how many simple instructions an operation takes."""
    body, size = node.op.rules.body, sum(likely(r.type.size) for r in node.results)
    if isinstance(body, Contract):
        (contracted, _), _ = body.axes([a.type for a in node.args], **node.attrs)
        depth = math.prod(likely(node.args[0].shape[axis]) for axis in contracted)
        return 2.0 * size * max(depth, 1)
    if isinstance(body, Pointwise):
        return float(size * INSTRUCTIONS[body.instruction][0])
    if isinstance(body, Reduce):
        return float(sum(likely(a.type.size) for a in node.args))
    return 0.1 * size


def live_bytes(program: Program) -> list[int]:
    """For each step the bytes of the temporaries that hold something while it runs."""
    moments = list(times(program.steps))
    spans: dict[Buffer, list[int]] = {}
    for moment, step in zip(moments, program.steps, strict=True):
        for buffer in (*reads(step), *writes(step)):
            if buffer.kind == "temporary":
                spans.setdefault(buffer, []).append(moment)
    changes: Counter[int] = Counter()
    for buffer, used in spans.items():
        changes[used[0]] += rounded(likely(buffer.nbytes))
        changes[used[-1] + 1] -= rounded(likely(buffer.nbytes))
    living = list(itertools.accumulate(changes[m] for m in range(max(moments, default=0) + 1)))
    return [living[moment] for moment in moments]


def size_text(nbytes: float) -> str:
    """Bytes in a unit that one can read."""
    unit, size = next((row for row in UNITS if nbytes >= row[1]), ("bytes", 1.0))
    return f"{nbytes / size:.3g} {unit}"
