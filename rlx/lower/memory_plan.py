"""The memory of a program before it runs: what it holds, when, for which lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape

from ..ir.dims import Dim, likely
from ..ir.graph import Graph, Value
from ..ir.record import field, record
from ..ir.source import Source
from .lir.access import reads, times, writes
from .lir.program import Buffer, Program, Step, nested_programs
from .schedule.plan_memory import rounded
from .step_facts import facts_of, size_text

MOST, MOST_NOTED = 12, 6  # blocks in a text, and in an error
WIDE, HIGH = 760, 300  # of the picture without its margins
LEFT, TOP, BELOW = 64, 26, 34
COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


@record
class Block:
    """Memory of one array.

    kind     argument, result, constant or temporary
    what     the argument's name, or the operation that makes it
    type     as text, `f32[8, 4]`
    nbytes   its bytes; a symbolic size counts as a likely number
    source   the user's line that makes it, or None
    offset   of a temporary: where it begins in the block of all temporaries
    first    the step that writes it first
    last     the step that reads it last
    """

    kind: str
    what: str
    type: str
    nbytes: int
    source: Source | None
    offset: int = 0
    first: int = 0
    last: int = 0


@record(repr=False)
class MemoryPlan:
    """What a call of a program holds in memory.

    Print it for a table of the largest blocks; `svg()` is a picture of all temporaries over the
    steps of the program, which notebooks show. All sizes are bytes.
    """

    name: str
    device: str
    blocks: tuple[Block, ...]
    steps: tuple[str, ...]  # names of the steps, in order
    lines: tuple[Source | None, ...]  # where each comes from
    arena_bytes: int  # of temporaries, those of matrix kernels included
    scratch_bytes: int = 0  # of these, of matrix kernels
    reused: Mapping[int, int] = field(default_factory=dict)  # results in the memory of arguments
    is_estimate: bool = False  # whether the device plans its memory itself

    def __repr__(self) -> str:
        return f"<memory plan of {self.name}: {size_text(self.peak_bytes)} at most>"

    def __str__(self) -> str:
        return "\n".join(self._text())

    def bytes_of(self, kind: str) -> int:
        """The bytes of all blocks of a `kind`: argument, result, constant or temporary."""
        return sum(block.nbytes for block in self.blocks if block.kind == kind)

    @cached_property
    def reused_bytes(self) -> int:
        """Bytes of results that take over the memory of donated arguments."""
        results = [block for block in self.blocks if block.kind == "result"]
        return sum(results[number].nbytes for number in self.reused)

    @property
    def peak_bytes(self) -> int:
        """Bytes of arguments, results, constants and temporaries together."""
        kinds = sum(map(self.bytes_of, ("argument", "result", "constant")))
        return kinds - self.reused_bytes + self.arena_bytes

    @cached_property
    def top(self) -> list[Block]:
        """All blocks, the largest first."""
        return sorted(self.blocks, key=lambda block: -block.nbytes)

    @cached_property
    def live(self) -> list[int]:
        """The bytes of temporaries that hold something, by step."""
        found = [0] * len(self.steps)
        for block in self.blocks:
            if block.kind == "temporary":
                for number in range(block.first, block.last + 1):
                    found[number] += rounded(block.nbytes)
        return found

    @property
    def fullest(self) -> int:
        """The step during which temporaries hold the most, 0 if there is none."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def _text(self) -> Iterator[str]:
        parts = [f"arguments {size_text(self.bytes_of('argument'))}"]
        parts.append(f"results {size_text(self.bytes_of('result'))}")
        if self.bytes_of("constant"):
            parts.append(f"constants {size_text(self.bytes_of('constant'))}")
        scratch = f" ({size_text(self.scratch_bytes)} of matrix kernels)"
        scratch = scratch if self.scratch_bytes else ""
        parts.append(f"temporaries {size_text(self.arena_bytes)}{scratch}")
        less = f" - donated {size_text(self.reused_bytes)}" if self.reused else ""
        about = "about " if self.is_estimate else ""
        peak = size_text(self.peak_bytes)
        yield f"{self.name} on {self.device}: {about}{peak} = {' + '.join(parts)}{less}"
        if self.live and max(self.live):
            number, line = self.fullest, self.lines[self.fullest]
            where = f"   {line}" if line else ""
            yield (
                f"temporaries hold {size_text(self.live[number])} at most, in step {number} of "
                f"{len(self.steps)}: {self.steps[number]}{where}"
            )
        yield from self.rows()

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines that an error for missing memory shows."""
        return tuple(f"memory of {self}".splitlines()[: 2 + MOST_NOTED])

    def rows(self, most: int = MOST) -> Iterator[str]:
        """A line for each of the `most` largest blocks."""
        for block in self.top[:most]:
            when = f"steps {block.first} to {block.last}" if block.kind == "temporary" else ""
            line = f"   {block.source}" if block.source else ""
            named = f"{block.what} {block.type}"
            yield f"{size_text(block.nbytes):>9}  {block.kind:9}  {named}  {when}{line}".rstrip()

    def svg(self) -> str:
        """A picture: temporaries as rectangles, steps from left to right, bytes upwards."""
        return _picture(self)

    _repr_svg_ = svg


def memory_plan(
    graph: Graph,
    program: Program,
    device: str,
    scratch_bytes: int = 0,
    reused: Mapping[int, int] | None = None,
    is_estimate: bool = False,
) -> MemoryPlan:
    """The memory of a `program` that was lowered from a `graph` for a `Target.timed`.

    Its matrix kernels need `scratch_bytes` besides; `reused` says which results lie in the memory
    of arguments.
    """
    facts = facts_of(program)
    blocks = [
        *(_given(value, "argument") for value in graph.params),
        *(_given(value, "result") for value in graph.results),
        *(_constant(buffer) for p in program.programs for buffer in p.constants),
        *_temporaries(program),
    ]
    arena = likely(program.arena_bytes) + scratch_bytes
    steps = tuple(facts[step].name for step in program.steps)
    lines = tuple(facts[step].source for step in program.steps)
    return MemoryPlan(
        graph.name,
        device,
        tuple(blocks),
        steps,
        lines,
        arena,
        scratch_bytes,
        reused or {},
        is_estimate,
    )


def _given(value: Value, kind: str) -> Block:
    name = value.origin.split(", ", 1)[-1] if value.origin else ""
    if value.node is not None:
        name = value.node.op.name
    source = value.node.source if value.node else None
    return Block(kind, name or kind, str(value.type), likely(value.type.nbytes), source)


def _constant(buffer: Buffer) -> Block:
    return Block("constant", "array", str(buffer.type), likely(buffer.nbytes), None)


def _temporaries(program: Program) -> Iterator[Block]:
    """The buffers of the arena by when they are alive; those that share memory are one each."""
    spans: dict[Buffer, list[int]] = {}
    makers: dict[Buffer, Step] = {}
    numbers = _numbers(program.steps)
    for number, step in zip(numbers, program.steps, strict=True):
        for buffer in (*writes(step), *reads(step)):
            if buffer.kind == "temporary":
                spans.setdefault(buffer, []).append(number)
                makers.setdefault(buffer, step)
    for buffer, used in spans.items():
        value, step = program.origins.get(buffer.name), makers[buffer]
        node = value.node if value else None
        source = node.source if node else getattr(step, "source", None)
        inner = nested_programs(step)
        what = node.op.name if node else "memory of a loop" if inner else "part of a sum"
        offset = 0 if isinstance(buffer.offset, Dim) else buffer.offset or 0
        nbytes = likely(buffer.nbytes)
        yield Block("temporary", what, str(buffer.type), nbytes, source, offset, used[0], used[-1])


def _numbers(steps: Sequence[Step]) -> list[int]:
    """The numbers of steps; of those at the same time all have that of the first."""
    found: list[int] = []
    for number, moment in enumerate(moments := list(times(steps))):
        is_joined = number and moments[number - 1] == moment
        found.append(found[-1] if is_joined else number)
    return found


# -- the picture ----------------------------------------------------------------------------------


def _picture(plan: MemoryPlan) -> str:
    """The picture as a text of SVG; what is under the pointer says what it is."""
    wide, high = LEFT + WIDE + 8, TOP + HIGH + BELOW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}" font-family="sans-serif" font-size="12" role="img">'
    )
    title = f"Temporaries of {plan.name}: {size_text(plan.arena_bytes)}"
    lines = [head, f"<title>{escape(title)}</title>", _text(LEFT, 16, title)]
    lines += _axes(plan)
    lines += _blocks(plan)
    return "\n".join([*lines, "</svg>"])


def _blocks(plan: MemoryPlan) -> Iterator[str]:
    top = max(plan.arena_bytes, 1)
    count = max(len(plan.steps), 1)
    sources = dict.fromkeys(b.source for b in plan.top if b.kind == "temporary")
    colors = {source: COLORS[i % len(COLORS)] for i, source in enumerate(sources)}
    for block in plan.blocks:
        if block.kind != "temporary":
            continue
        size = rounded(likely(block.nbytes))
        x = LEFT + WIDE * block.first / count
        width = max(WIDE * (block.last + 1 - block.first) / count - 0.5, 0.5)
        height = max(HIGH * size / top - 0.5, 0.5)
        y = TOP + HIGH - HIGH * (block.offset + size) / top
        line = f"{block.source.file}:{block.source.line}" if block.source else ""
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colors[block.source]}" data-line="{escape(line)}">'
            f"<title>{escape(_told(block))}</title></rect>"
        )


def _told(block: Block) -> str:
    where = f"\n{block.source}" if block.source else ""
    steps = f"steps {block.first} to {block.last}"
    return f"{block.what} {block.type}, {size_text(block.nbytes)}, {steps}{where}"


def _axes(plan: MemoryPlan) -> Iterator[str]:
    for part in range(5):
        y = TOP + HIGH - HIGH * part / 4
        yield f'<path d="M{LEFT} {y:.1f}h{WIDE}" stroke="#8884" fill="none"/>'
        yield _text(LEFT - 6, y + 4, size_text(plan.arena_bytes * part / 4), "end")
    yield _text(LEFT, TOP + HIGH + 16, "step 0")
    yield _text(LEFT + WIDE, TOP + HIGH + 16, f"step {max(len(plan.steps) - 1, 0)}", "end")


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">'
        f"{escape(text)}</text>"
    )
