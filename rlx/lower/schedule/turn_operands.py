"""Turn matrices that a loop multiplies by in every round, once before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...ir.types import Type
from ..lir.expr import Expr, Load, load
from ..lir.index import Variable
from ..lir.program import (
    Buffer,
    Contraction,
    Kernel,
    Program,
    RepeatStep,
    Step,
    Store,
    WhileStep,
    nested_programs,
)

NARROW = 8  # up to so many columns the product is computed as its transpose


def turn_operands(program: Program) -> Program:
    """Turn matrices that a loop multiplies by in every round, once before it.

    before: in a loop `accumulated = add over k < 128: b1[i*128 + k] * b0[j*128 + k]` with the same
    b0 in every round; after: `kernel k < 128, j < 512: t0[k*512 + j] = b0[j*128 + k]` before the
    loop, which reads t0. The numbers of several columns then lie side by side.
    """
    turner = _Turner()
    for step in program.steps:
        for nested in nested_programs(step):
            turn_operands(nested)
        if isinstance(step, RepeatStep) and step.length not in (0, 1, 2):
            added = turner.turn(step.body, step.constants)
            step = replace(step, constants=(*step.constants, *added))
        elif isinstance(step, WhileStep):
            added = turner.turn(step.body, step.body_constants)
            step = replace(step, body_constants=(*step.body_constants, *added))
        turner.steps.append(step)
    program.steps = turner.steps
    return program


@dataclass
class _Turner:
    """The steps of a program, and what each matrix with these strides has become."""

    steps: list[Step] = field(default_factory=list)
    turned: dict[tuple, Buffer] = field(default_factory=dict)

    def turn(self, body: Program, constants: tuple[Buffer, ...]) -> list[Buffer]:
        """Let a body read turned matrices, which are added behind the constants of its loop."""
        outer = dict(zip(body.inputs, constants, strict=False))
        inner: dict[Buffer, Buffer] = {}  # turned matrices, and their parameters of the body

        def matrix(e: Expr, line: Variable, depth: Variable) -> Expr:
            if not isinstance(e, Load) or e.buffer not in outer or not _is_turned(e, line, depth):
                return e
            made = self._matrix(e, outer[e.buffer], line, depth)
            if made not in inner:
                inner[made] = Buffer(f"{e.buffer.name}u{len(inner)}", made.type, "input")
            return load(inner[made], depth * line.extent + line)

        for place, step in enumerate(body.steps):
            if isinstance(step, Contraction) and step.is_static:
                rhs = matrix(step.rhs, step.column, step.depth)
                is_narrow = step.column.extent <= NARROW < step.row.extent
                lhs = matrix(step.lhs, step.row, step.depth) if is_narrow else step.lhs
                body.steps[place] = replace(step, lhs=lhs, rhs=rhs)
        count = len(constants)
        body.inputs = (*body.inputs[:count], *inner.values(), *body.inputs[count:])
        return list(inner)

    def _matrix(self, e: Load, origin: Buffer, line: Variable, depth: Variable) -> Buffer:
        """The turned matrix, and before the loop the kernel that turns it."""
        key = origin, e.index.stride_of(line), e.index.constant, line.extent, depth.extent
        if key not in self.turned:
            type = Type(origin.number_dtype, (depth.extent, line.extent))
            made = Buffer(f"{origin.name}t{len(self.turned)}", type, "temporary")
            store = Store(made, depth * line.extent + line, load(origin, e.index))
            self.steps.append(Kernel((depth, line), (store,)))
            self.turned[key] = made
        return self.turned[key]


def _is_turned(e: Load, line: Variable, depth: Variable) -> bool:
    """Whether the depth of a matrix runs in memory."""
    index = e.index
    is_matrix = index.is_affine and index.variables == {line, depth}
    return is_matrix and index.stride_of(depth) == 1 != index.stride_of(line)
