"""Let small products that do not need each other run at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..lir.access import reads, writes
from ..lir.program import Buffer, Contraction, Step

MOST = 8  # products at a time
FARTHEST = 16  # steps to look back
LARGEST = 1 << 23  # multiplications: such a product keeps the threads busy alone


def join_products(steps: Sequence[Step]) -> list[Step]:
    """Put small products that need no other side by side, as those of one operand.

    before: `contraction: b3 = x @ q`, a kernel that reads b3, `contraction: b4 = x @ k`; after:
    `contraction: b3 = x @ q`, `contraction: b4 = x @ k` that `joins` it, and the kernel.
    """
    groups: list[list[Step]] = []  # the first of each and what joins it
    for step in steps:
        group = _group_for(step, groups) if isinstance(step, Contraction) else None
        if group is None:
            groups.append([step])
        else:
            group.append(replace(step, joins=True))  # type: ignore[type-var]
    return [step for group in groups for step in group]


def _group_for(step: Contraction, groups: Sequence[list[Step]]) -> list[Step] | None:
    """The products that a later one may join."""
    if not _is_small(step):
        return None
    needed, made = set(reads(step)), set(writes(step))
    for group in reversed(groups[-FARTHEST:]):
        if _meets(group, needed, made):
            return None
        if isinstance(group[0], Contraction) and _is_small(group[0]) and len(group) < MOST:
            return group
    return None


def _is_small(step: Contraction) -> bool:
    variables = (*step.batch, step.row, step.column, step.depth)
    return step.is_static and math.prod(v.extent for v in variables) <= LARGEST


def _meets(steps: Sequence[Step], needed: set[Buffer], made: set[Buffer]) -> bool:
    """Whether steps write what another one needs, or use what it writes."""
    return any({*needed, *made} & set(writes(s)) or made & set(reads(s)) for s in steps)
