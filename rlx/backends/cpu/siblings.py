"""Products at the same time: each thread does its share of one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...lower.lir.program import Contraction, Step
from .contraction import contracts_natively, emit_contraction, plan_contraction, scratch_bytes
from .llvm.host import Host
from .llvm.text import Function, Module
from .loops.costs import product_cost
from .loops.kernels import KERNEL_PARAMETERS, Layout


@dataclass(frozen=True)
class Siblings:
    """Products of known sizes that do not need each other."""

    steps: tuple[Contraction, ...]

    def cost(self, host: Host) -> float:
        """Rough nanoseconds on one thread."""
        return sum(product_cost(step, host) for step in self.steps)


def with_siblings(steps: Sequence[Step]) -> Iterator[Step | Siblings]:
    """The steps of a program, products at the same time as one."""
    group: list[Contraction] = []
    for step in steps:
        if group and not (isinstance(step, Contraction) and step.joins):
            yield from _together(group)
            group = []
        if isinstance(step, Contraction):
            group.append(step)
        else:
            yield step
    yield from _together(group)


def _together(group: Sequence[Contraction]) -> Iterator[Contraction | Siblings]:
    native = [step for step in group if step.is_static and contracts_natively(step)]
    if len(native) < 2:
        yield from group
        return
    yield Siblings(tuple(native))
    yield from (step for step in group if step not in native)


def emit_siblings(
    module: Module, f: Function, siblings: Siblings, layout: Layout, host: Host, parts: int
) -> int:
    """Emit the share `%part` of each product; gives the bytes of scratch of all parts.

    Each has scratch of its own, for the threads do not wait for each other in between.
    """
    total, start = 0, layout.scratch(f)
    given = (*KERNEL_PARAMETERS, ("ptr", "%scratch"))
    for step in siblings.steps:
        plan = plan_contraction(step, host, parts)
        name = f"product_{len(module.functions)}_step"
        # as for a product alone, its loops need no optimization where they are around packed panels
        attributes = "optnone noinline nounwind #0" if plan.packs else "noinline nounwind #0"
        inner = module.function(name, given, attributes=attributes, linkage="internal")
        emit_contraction(module, inner, step, plan, layout, host, parts, scratch="%scratch")
        inner.do("ret void")
        scratch = f.offset(start, "i8", str(total))
        f.do(f"call void @{name}(ptr %table, i64 %part, i64 %parts, ptr {scratch})")
        total += -(-scratch_bytes(step, plan, parts, host) // 64) * 64
    return total
