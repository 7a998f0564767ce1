"""The timers of a program: which of its steps are timed, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.record import field, record, replace
from ...ir.source import Source
from ...lower.lir.program import Program, Step
from ...lower.step_facts import Line, StepFacts, facts_of
from .llvm.text import Function
from .products.contraction import GroupedGemm
from .runtime import clock

WORTH = 2_000  # nanoseconds of a step of a loop's round, from which on its timer costs little


@record(frozen=False)
class Timers:
    """The timed steps of a program and its nested ones, by number."""

    steps: list[StepFacts | None] = field(default_factory=list)  # None for those not timed
    parents: list[int | None] = field(default_factory=list)  # of each: the step it is a part of
    stack: list[int] = field(default_factory=list)  # the steps that are being written

    def open(self, program: Program, f: Function) -> Opened:
        """The timers of the steps of one program, whose function is written."""
        return Opened(self, facts_of(program), f)

    def finished(self) -> tuple[StepFacts | None, ...]:
        """The facts of the steps, as parts of those that are timed."""
        found: list[StepFacts | None] = []
        for facts, parent in zip(self.steps, self.parents, strict=True):
            while parent is not None and self.steps[parent] is None:
                parent = self.parents[parent]
            found.append(facts and replace(facts, parent=parent))
        return tuple(found)


class Opened:
    """Writes the timers of one program into its function."""

    def __init__(self, timers: Timers, facts: dict[Step, StepFacts], f: Function) -> None:
        self._timers, self._facts, self._f, self._since = timers, facts, f, ""
        self._numbers: list[int] = []

    @contextmanager
    def timed(self, step: Step | GroupedGemm, called: Sequence[str]) -> Iterator[None]:
        """Write timers around a step; `called` are the functions that are called so far."""
        timers, number, before = self._timers, len(self._timers.steps), len(called)
        facts = self._merged(step)
        timers.parents.append(timers.stack[-1] if timers.stack else None)
        timers.steps.append(facts)
        timers.stack.append(number)
        self._numbers.append(number)
        self._since = self._since or clock.start(self._f)
        yield
        timers.stack.pop()
        timers.steps[number] = replace(facts, functions=tuple(dict.fromkeys(called[before:])))
        self._since = clock.end(self._f, number, self._since)

    def settle(self, cost: float) -> None:
        """Take the timers out of a round of a loop that takes too little time for them."""
        if cost >= WORTH * max(len(self._numbers), 1):
            return
        names = (f"@{clock.MOMENT}(", f"@{clock.STEP}(")
        self._f.lines = [x for x in self._f.lines if not any(name in x for name in names)]
        for number in self._numbers:
            self._timers.steps[number] = None

    def _merged(self, step: Step | GroupedGemm) -> StepFacts:
        if not isinstance(step, GroupedGemm):
            return self._facts[step]
        every = [self._facts[each] for each in step.steps]
        shares: dict[Source, float] = {}
        for line in (x for facts in every for x in facts.lines):
            shares[line.source] = shares.get(line.source, 0.0) + line.share / len(every)
        return replace(
            every[0],
            kind=f"{len(every)} products",
            ops=tuple(op for facts in every for op in facts.ops),
            lines=tuple(Line(*row) for row in sorted(shares.items(), key=lambda row: -row[1])),
            flops=sum(facts.flops for facts in every),
            nbytes=sum(facts.nbytes for facts in every),
        )
