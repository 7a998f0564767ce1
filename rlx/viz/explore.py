"""`rlx.explore`: one call from the user's lines to machine code, as a page."""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

from ..ir.bind import is_symbolic
from ..ir.config import config
from ..ir.errors import ArgumentError
from ..ir.files import write_file
from ..ir.graph import Graph
from ..ir.record import field, record, replace
from ..ir.source import Source
from ..ir.text import show
from ..ir.tracebacks import boundary
from ..ir.types import Type
from ..lower.memory_plan import MemoryPlan
from ..lower.pipeline import lower
from ..lower.step_facts import StepFacts, facts_of
from ..runtime import default_session
from ..runtime.compiled import CompiledCode
from ..runtime.precision import prepared
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import check_function, titled
from ..transforms.jit.compiled import Lowered
from ..transforms.jit.jit import jit
from ..transforms.jit.jitted import Jitted
from .profile import profile

RUNS = 5  # of the call, after one that is not counted
MOST_TEXT = 1_500_000  # letters of graphs in a page
MARK = "\0"  # between the text of a node and its line
NOISE = re.compile(r"\s+\.(cfi_|p2align|type|size|globl|section|file|loc|weak|hidden)")


@record
class Step:
    """A kernel of the program, and what it took; 0 seconds if it was not run."""

    number: int  # by which steps inside of it name it
    facts: StepFacts
    count: int
    seconds: float


@record(frozen=False, repr=False)
class Explored:
    """One call of a function, from its lines to machine code.

    `save(path)` writes a page that needs no network, `html` is its text; notebooks show it. The
    parts: `stages` (the graph after each pass: lines, each with the user's line), `steps`,
    `functions` (assembly by name), `plan` (memory), `missed` (fusions, with reasons).
    """

    name: str
    device: str
    signature: str
    stages: dict[str, list[tuple[str, Source | None]]]
    steps: list[Step]
    functions: dict[str, str]
    plan: MemoryPlan
    missed: list[tuple[str, Source | None]]
    runs: int
    call_seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)  # stages for which there is no room

    def __repr__(self) -> str:
        return f"<{self.name} explored on {self.device}: {len(self.steps)} kernels>"

    @cached_property
    def html(self) -> str:
        """The page."""
        from .page import page  # which imports this file

        return page(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a `path`; a `FileAccessError` says why that cannot be."""
        write_file(path, self.html.encode())

    def _repr_html_(self) -> str:
        from .page import framed

        return framed(self.html)

    @cached_property
    def sources(self) -> list[Source]:
        """The user's lines that anything comes from, by file and line."""
        every = [s for lines in self.stages.values() for _, s in lines]
        every += [line.source for step in self.steps for line in step.facts.lines]
        found = {(s.file, s.line): s for s in every if s is not None}
        return [found[key] for key in sorted(found)]


def explore(fn: Callable[..., Any]) -> Callable[..., Explored]:
    """Give a function that shows one call of `fn` from its lines to machine code.

    `fn` is recorded, compiled with timers and run a few times on the arguments; of `rlx.spec`s it
    is only compiled. It may be jitted. Gives an `Explored`, whose `save(path)` writes one HTML page
    without any network: source lines, the graph after each pass, kernels, assembly and memory side
    by side, which light up together, with the time and the bytes of each line. On other devices
    than `cpu` there is no assembly, and times of kernels only where the device has timers. What is
    compiled already, arguments of open sizes, or a second profile at the same time are an
    `ArgumentError`; other errors are those of compiling `fn`.

    >>> import rlx, rlx.numpy as rnp
    >>> page = rlx.explore(lambda x: rnp.tanh(x @ x).sum())(rnp.ones((32, 32)))
    >>> len(page.steps) >= 1, page.html.startswith("<!doctype html>")
    (True, True)
    """

    check_function(fn, "what explore shows")
    if isinstance(fn, CompiledCode):
        raise ArgumentError(
            f"explore: {fn.signature.name} is compiled already, and tells no passes and no times",
            fix="give it the function itself: rlx.explore(f)(*args)",
        )

    @boundary
    @functools.wraps(fn)
    def explored(*args: Any, **kwargs: Any) -> Explored:
        jitted = fn if isinstance(fn, Jitted) else jit(fn)
        return _explored(jitted.lower(*args, **kwargs), args, kwargs)

    explored.__qualname__ = titled("explore", fn)
    return explored


def _explored(lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explored:
    graph = lowered.graph
    if is_symbolic(graph.param_types):
        raise ArgumentError(
            f"{graph.name} is recorded for open sizes",
            fix="explore it without `dynamic`, for arrays of one size",
        )
    steps, assembly, spent = _measured(lowered, args, kwargs)
    session = default_session(lowered.device)
    precise = prepared(graph, session.policy_for(lowered.options)).graph
    made = lower(precise, replace(session.backend.target, timed=True))
    if not steps:
        facts = facts_of(made.program)
        steps = [Step(i, facts[step], 0, 0.0) for i, step in enumerate(made.program.steps)]
    sources = {str(n.source): n.source for n in graph.walk() if n.source is not None}
    notes = [note for each in made.program.programs for note in each.notes]
    stages, left_out = _stages({"recorded": graph, **made.graphs})
    return Explored(
        graph.name,
        lowered.device,
        graph.signature,
        stages,
        steps,
        functions_in(assembly),
        session.memory_plan(graph, lowered.options),
        [_placed(note, sources) for note in notes],
        RUNS if spent else 0,
        spent,
        left_out,
    )


def _measured(
    lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Step], str, float]:
    """The steps with their times, the assembly, and the seconds of a call."""
    is_run = not any(isinstance(leaf, Type) for leaf in pytree.leaves((args, kwargs)))

    def run() -> None:
        given = pytree.map(_copied, (args, kwargs)) if compiled.donated else (args, kwargs)
        compiled(*given[0], **given[1])

    with config.using(profile=True):
        compiled = lowered.compile()
        if is_run:
            run()
    timers = compiled.executable.timers
    before = None if timers is None else timers[1].copy()
    spent = 0.0
    if is_run:
        with profile() as p:
            for _ in range(RUNS):
                run()
        spent = p.call_seconds / RUNS
    stages = compiled.stages
    assembly = stages.get("assembly", "")
    if timers is None or before is None:
        return [], assembly, spent
    totals = (timers[1] - before).tolist()
    found = [
        Step(number, facts, count, nanoseconds / 1e9 / RUNS)
        for number, (facts, (nanoseconds, count)) in enumerate(zip(timers[0], totals, strict=True))
        if facts is not None
    ]
    return found, assembly, spent


def _copied(x: Any) -> Any:
    """An array of its own, to be donated in each run; other arguments as they are."""
    return x.copy() if isinstance(x, Array) else x


def _stages(
    graphs: dict[str, Graph],
) -> tuple[dict[str, list[tuple[str, Source | None]]], list[str]]:
    """The lines of graphs that differ from those before, as many as there is room for."""
    found: dict[str, list[tuple[str, Source | None]]] = {}
    last, room, left_out = "", MOST_TEXT, []
    names = list(graphs)
    for name in (names[0], names[-1], *names[1:-1]):  # the first and the last must be there
        text, lines = lines_of(graphs[name])
        if room < len(text):
            left_out.append(name)
            continue
        found[name], room = lines, room - len(text)
    ordered: dict[str, list[tuple[str, Source | None]]] = {}
    for name in names:
        text = "\n".join(line for line, _ in found.get(name, ()))
        if name in found and text != last:
            ordered[name], last = found[name], text
    return ordered, left_out


def lines_of(graph: Graph) -> tuple[str, list[tuple[str, Source | None]]]:
    """The text of a graph, and its lines with the user's lines."""
    sources: list[Source] = []

    def mark(source: Source) -> str:
        sources.append(source)
        return f"{MARK}{len(sources) - 1}"

    text = show(graph, told=mark)
    lines: list[tuple[str, Source | None]] = []
    for line in text.splitlines():
        shown, _, number = line.partition(MARK)
        lines.append((shown.rstrip(" #"), sources[int(number)] if number else None))
    return text, lines


def _placed(note: str, sources: dict[str, Source]) -> tuple[str, Source | None]:
    """A note without the line at its end, and that line."""
    text, _, place = note.partition("   ")
    return text, sources.get(place)


def functions_in(assembly: str) -> dict[str, str]:
    """The instructions of each function of an assembly text, by its name."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in assembly.splitlines():
        label = re.match(r"([A-Za-z_][\w.$]*):", line)
        if label and not line.startswith(".L"):
            current = found.setdefault(label[1], [])
        elif line.startswith(".Lfunc_end") or line.lstrip().startswith(".section"):
            current = None
        elif current is not None and not NOISE.match(line):
            current.append(line.split("#", 1)[0].rstrip().replace("\t", " ").strip())
    kept = {name: [x for x in lines if x] for name, lines in found.items()}
    # tables of numbers have directives alone
    is_code = {name: any(x[0] != "." for x in lines) for name, lines in kept.items()}
    return {name: "\n".join(lines) for name, lines in kept.items() if is_code[name]}


def text_of(source: Source) -> str:
    """The text of a line, with its indentation."""
    return linecache.getline(source.file, source.line).rstrip()


def called_by(names: Sequence[str], functions: dict[str, str]) -> list[str]:
    """Functions of the machine code, and those that they call."""
    found: dict[str, None] = {}
    waiting = [name for name in names if name in functions]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            words = set(re.findall(r"[A-Za-z_]\w*", functions[name]))
            waiting += [other for other in words if other in functions and other != "main"]
    return list(found)
