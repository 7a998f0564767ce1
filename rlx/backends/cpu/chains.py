"""Chains of products and loops: each thread runs its share of the rounds.

A step is a function of its own: `step(table, scratch, worker, loops...)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...lower.lir.index import Variable
from ...lower.lir.program import Chain, Contraction, Kernel, Rows
from .contraction import as_kernel, contracts_natively, emit_contraction, plan_contraction
from .gemm import GemmPlan
from .llvm.host import Host
from .llvm.text import Function, Module
from .loops.costs import loops_cost, product_cost
from .loops.kernels import KERNEL_PARAMETERS, Layout, emit_kernel, emit_rows, part_range
from .polls import LONG, is_due, leave_if_stopped

ATTRIBUTES = "noinline nounwind #0"


@dataclass(frozen=True)
class Links:
    """A chain, and the plans of those of its steps that the matrix kernel computes."""

    worker: Variable
    loops: tuple[Variable, ...]
    steps: tuple[tuple[Kernel | Rows | Contraction, GemmPlan | None], ...]
    cost: float  # rough nanoseconds on one thread

    @classmethod
    def of(cls, chain: Chain, host: Host) -> Links:
        """Plan the steps of a chain."""
        steps: list[tuple[Kernel | Rows | Contraction, GemmPlan | None]] = []
        cost = 0.0
        for step in chain.steps:
            if isinstance(step, Contraction) and contracts_natively(step):
                steps.append((step, plan_contraction(step, host, 1)))
                cost += product_cost(step, host)
            else:
                is_product = isinstance(step, Contraction)
                loops = as_kernel(step, host.sums_alike) if is_product else step
                steps.append((loops, None))
                cost += loops_cost(loops)
        return cls(chain.worker, chain.loops, tuple(steps), cost * _count(chain.loops))

    @property
    def scratch_bytes(self) -> int:
        """What the matrix kernel needs for each thread, in whole cache lines."""
        most = max((plan.scratch_bytes for _, plan in self.steps if plan), default=0)
        return -(-most // 64) * 64


def _count(loops: tuple[Variable, ...]) -> int:
    extents = [v.extent for v in loops]
    assert all(isinstance(n, int) for n in extents), "the loops of a chain are of known sizes"
    return math.prod(extents)  # type: ignore[arg-type]


def emit_chain(module: Module, f: Function, links: Links, layout: Layout, host: Host) -> None:
    """Emit the share `%part` of the rounds of a chain."""
    names = [_emit_step(module, links, number, layout, host) for number in range(len(links.steps))]
    own = f.emit(f"mul i64 %part, {links.scratch_bytes}")
    scratch = f.offset(layout.scratch(f), "i8", own)
    start, stop = part_range(f, _count(links.loops), 1)
    with f.loop(start, stop) as loop:
        if links.cost >= LONG:
            with f.when(is_due(f, loop.index, links.cost / _count(links.loops))):
                leave_if_stopped(f)
        left, places = loop.index, []
        for variable in reversed(links.loops[1:]):
            places.append(f.emit(f"urem i64 {left}, {variable.extent}"))
            left = f.emit(f"udiv i64 {left}, {variable.extent}")
        numbers = ", ".join(f"i64 {x}" for x in ("%part", left, *reversed(places)))
        for name in names:
            f.do(f"call void @{name}(ptr %table, ptr {scratch}, {numbers})")


def _emit_step(module: Module, links: Links, number: int, layout: Layout, host: Host) -> str:
    """Emit the function of one step; gives its name."""
    step, plan = links.steps[number]
    given = {v: f"%outer{i}" for i, v in enumerate((links.worker, *links.loops))}
    parameters = [KERNEL_PARAMETERS[0], ("ptr", "%scratch"), *(("i64", x) for x in given.values())]
    # as for a product alone, its loops need no optimization where they are around packed panels
    attributes = f"optnone {ATTRIBUTES}" if plan is not None and plan.packs else ATTRIBUTES
    name = f"product_{len(module.functions)}_step"
    f = module.function(name, parameters, attributes=attributes, linkage="internal")
    if isinstance(step, Kernel):
        emit_kernel(f, step, layout, host, False, given)
    elif isinstance(step, Rows):
        emit_rows(f, step, layout, host, False, given)
    else:
        assert plan is not None, "other products are loops"
        emit_contraction(module, f, step, plan, layout, host, 1, given, "%scratch")
    f.do("ret void")
    return name
