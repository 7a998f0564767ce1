"""Bodies: the meaning of ops for loop backends, without their names.

A room gives its op one body. `lower` turns bodies into loop nests; it never sees the op. Index
arithmetic in a body works on opaque index objects that know `+ - *` with ints, `//` and `%` by a
positive int.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .record import record


@record
class Pointwise:
    """Each result element is one scalar instruction on the operands at its index."""

    instruction: str  # of `lower.lir.expr.INSTRUCTIONS`; `convert` goes to the result's dtype


@record
class Fill:
    """Each result element is a function of its index alone."""

    number: Callable[..., Any]  # (index, result_type, **attrs) -> Python number or index object


@record
class Read:
    """One operand element, or another number where conditions do not hold."""

    operand: int
    index: tuple[Any, ...]
    guards: tuple[tuple[Any, int, int], ...] = ()  # the conditions low <= index < high
    strides: tuple[tuple[Any, int], ...] = ()  # the conditions index % step == 0
    otherwise: int | None = None  # the scalar operand that is taken elsewhere
    fill: Any = None  # the number that is, without one


@record
class Move:
    """Each result element is an operand element at another index, or a fill value."""

    read: Callable[..., Read]  # (index of the result, operand_types, **attrs)


@record
class View:
    """The result is the operand's memory under another shape (row-major order kept)."""


@record
class AsParts(View):
    """The operand's memory, complex numbers as pairs along a last axis or the reverse."""


@record
class FromParts:
    """Each result element is the complex number of which the operands are the parts."""


@record
class Concat:
    """The operands stand one after another along the attribute `axis`."""


@record
class Reduce:
    """A reduction along the attribute `axes`."""

    combine: str  # add, mul, max, min, and, or, xor
    in_turn: bool = False  # whether terms are added one by one where a sum has one order for all


@record
class Scan:
    """An inclusive prefix scan along the attribute `axis`, backwards if `reverse`."""

    combine: str  # add, mul, max or min


@record
class Contract:
    """A product of two operands summed over contracted axes, in the result's dtype.

    The result's axes are batch, left free, right free.
    """

    # (operand_types, **attrs) -> ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    axes: Callable[..., tuple]


@record
class Gather:
    """Each result element is an operand element at an index read from other operands."""

    # (index, load, operand_types, **attrs); the index of what is read may hold `load(operand,
    # index, low, high)`: the integer element, clamped to `low..high` inclusive
    read: Callable[..., Read]


@record
class Scatter:
    """Operand 0 with updates combined in at computed places, in row-major order."""

    combine: str  # set, add, mul, min or max
    updates: int  # the number of this operand
    # (index of an update, load, operand_types, **attrs) -> its place in operand 0, with guards
    # where it is dropped
    place: Callable[..., Read]


@record
class TopK:
    """The `k` (an attribute) largest along the last axis, in order, and their indices.

    Among equal ones the first comes first. NaN is the largest, -0.0 equals 0.0.
    """


@record
class Sort:
    """A stable sort of operands along the attribute `axis` by the first `n_keys`.

    NaN is the largest, -0.0 equals 0.0.
    """


@record
class Library:
    """The NumPy reference is called on the buffers (eigenvalues and the like)."""


@record
class Part(Library):
    """Each result element is one of the parts of the operand's complex number."""


@record
class Pass:
    """Blocks of elements, computed one by one; the elements share subexpressions.

    Scalars are opaque: they know `+ - * / < > &`, `abs`, and the methods `equals`, `select`,
    `sqrt`, `log`, `sign`; Python numbers go along with them. A complex one is a pair of its parts.
    """

    extents: tuple[Any, ...]  # of the blocks along axes of their own
    # (place of a block, load) -> for each array (index, scalar) of the block's elements, where
    # `load(source, index)` is an element of an array of the pass before (of an operand, in the
    # first one), or after these of the tables
    compute: Callable[..., Sequence[Sequence[tuple[tuple[Any, ...], Any]]]]
    types: tuple[Any, ...] = ()  # of the arrays; none in the last pass, which fills the results
    tables: Callable[[], Sequence[Any]] = tuple
    continues: bool = False  # whether it reads and fills the same arrays as the pass before


@record
class Blocks:
    """The results are computed in passes over memory, block by block."""

    # (operand_types, **attrs); None if blocks are too large to be written out: then as `Library`
    passes: Callable[..., Sequence[Pass] | None]


@record
class Call:
    """Run the nested graph of the attribute `graph` on the operands."""


@record
class Branch:
    """Call one of `branches`, chosen by operand 0 (an int32, clamped), on the others."""


@record
class While:
    """Run `body` on the carried operands while `condition` holds.

    Operands: `condition_constants`, then `body_constants`, then the carried ones (`counts` of the
    first two are the attributes `n_condition` and `n_body`).
    """


@record
class Repeat:
    """Run `body` `length` times, backwards if `reverse`.

    Operands: `n_constants` constants, `n_carry` carried values, then arrays sliced along axis 0.
    Results: the last carried values, then the stacked further results of `body`.
    """
