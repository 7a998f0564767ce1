"""The fastest way to compute a product, by measuring: for `jit(tier="max")`.

What is found is kept on disk, by the ways there are, the processor, the threads, and rlx's files.
All ways give the same bits (`gemm_alternatives.py`), so whatever is found, or not found in time, a
program's results are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.bind import is_symbolic
from ...ir.config import config
from ...lower.lir.program import Contraction, Program
from ...lower.target import Target
from ..disk import DiskCache, disk_cache
from ..sources import hashed, sources
from .contraction import plan_contraction, shares_batch
from .gemm_alternatives import alternatives
from .gemm_plan import Blocking, Problem
from .llvm.host import Host
from .llvm.machine import compiler
from .loops.costs import product_cost
from .pack_early import pack_early
from .rehearsal import Rehearsal, Ways, is_product, product_of

LEAST = 20_000  # nanoseconds of a product
SHARE = 0.01  # of the time of a program's products
MOST = 24  # products of a program
LARGEST = 1 << 30  # bytes of a program's memory
SECONDS = 2.5  # to measure all ways for; after that, half as many for the best ones
BETTER = 1.05  # times as fast, at least: less may be chance


@dataclass(frozen=True)
class Tuned:
    """How to compute a product, and how many times as fast as the model's way."""

    blocking: Blocking
    gain: float = 1.0

    @property
    def text(self) -> str:
        """A line for people."""
        p = self.blocking.problem
        p = p.transposed if self.blocking.swapped else p
        title = f"product of {p.m} x {p.k} by {p.k} x {p.n} ({p.dtype})"
        if self.gain == 1.0:
            return f"{title}: measured, no other way is faster"
        return f"{title}: tuned, {described(self.blocking)}; {self.gain:.2f}x the model's"


def described(blocking: Blocking) -> str:
    """What ways to compute a product differ in."""
    packed = [x for x, is_so in (("a", blocking.pack_a), ("b", blocking.pack_b)) if is_so]
    words = [
        f"{blocking.tile.rows} x {blocking.tile.vectors} tiles",
        f"packs {' and '.join(packed)}" if packed else "packs nothing",
        f"{blocking.row_panels} + {blocking.column_panels} panels",
        "along rows" if blocking.along_rows else "down columns",
    ]
    return ", ".join([*words, *([f"{blocking.down} threads down"] if blocking.down else [])])


def tunes(target: Target) -> bool:
    """Whether products are measured for a target."""
    return target.tier == "max" and config.tune


def tune(program: Program, fixed: int, host: Host) -> dict[Problem, Tuned]:
    """The fastest ways to compute the products that matter of a program."""
    if is_symbolic([b.type for b in program.inputs]) or not isinstance(program.arena_bytes, int):
        return {}
    program = replace(program)
    if fixed:
        pack_early(program, fixed, host)
    ways = _ways(program, host)
    disk = disk_cache()
    files = sources(disk) if disk and ways else ""
    keys = {p: hashed("product", x, host, compiler(), files) for p, x in ways.items() if files}
    found = {p: known for p, key in keys.items() if (known := _read(disk, key, ways[p]))}
    unknown = {p: every for p, every in ways.items() if p not in found}
    bound = (*program.inputs, *program.outputs, *program.constants)
    if unknown and program.arena_bytes + sum(b.nbytes for b in bound) <= LARGEST:
        known = {p: [tuned.blocking] for p, tuned in found.items()}
        measured = _measured(program, host, unknown, known)
        for problem in measured.keys() & keys.keys():
            _write(disk, keys[problem], measured[problem])
        found |= measured
    return found


def _ways(program: Program, host: Host) -> Ways:
    """The products that take long, with the ways there are; the model's is the first."""
    costs: dict[Problem, float] = defaultdict(float)
    steps: dict[Problem, Contraction] = {}
    for step in program.steps:
        if isinstance(step, Contraction) and is_product(step):
            problem, cost = product_of(step), product_cost(step, host)
            if cost >= LEAST:
                costs[problem] += cost
                steps.setdefault(problem, step)
    least = SHARE * sum(costs.values())
    worth = sorted((p for p in costs if costs[p] >= least), key=lambda p: -costs[p])[:MOST]
    ways = {}
    for problem in worth:
        step = steps[problem]
        parts = 1 if shares_batch(step, host) else host.cores
        ways[problem] = alternatives(plan_contraction(step, host, parts), host, parts)
    return {p: every for p, every in ways.items() if len(every) > 1}


def _measured(program: Program, host: Host, ways: Ways, known: Ways) -> dict[Problem, Tuned]:
    """The fastest ways by two measurements: the first finds them, the second is of them alone.

    If the whole program is no faster with them, they are not taken. Other products are computed
    in the one way that is `known`.
    """
    rehearsal = Rehearsal.of(program, host, {**ways, **known})
    gains, _ = rehearsal.gains({p: range(len(every)) for p, every in ways.items()}, SECONDS)
    found = {p: Tuned(ways[p][0]) for p in gains}
    best = {p: max(range(len(every)), key=every.__getitem__) for p, every in gains.items()}
    better = {p: (0, i) for p, i in best.items() if gains[p][i] >= BETTER}
    if not better:
        return found
    gains, whole = rehearsal.gains(better, SECONDS / 2)
    if whole and whole[1] > 1.0:
        for problem, (_, gain) in gains.items():
            if gain >= BETTER:
                found[problem] = Tuned(ways[problem][better[problem][1]], gain)
    return found


def _read(disk: DiskCache | None, key: str, ways: Sequence[Blocking]) -> Tuned | None:
    """What was measured before; what makes no sense is removed."""
    content = disk.get(key) if disk else None
    if disk is None or content is None:
        return None
    try:
        gain, way = content.decode().split(" ", 1)
        return Tuned({described(b): b for b in ways}[way], float(gain))
    except (ValueError, KeyError):
        disk.remove(key)
        return None


def _write(disk: DiskCache | None, key: str, tuned: Tuned) -> None:
    if disk:
        disk.put(key, f"{tuned.gain:.3f} {described(tuned.blocking)}".encode())
