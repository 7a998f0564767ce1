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
    """Each result element is one scalar instruction on the operands at its index.

    `instruction` is one of `lower.lir.expr.INSTRUCTIONS`; `convert` goes to the result's dtype.
    """

    instruction: str


@record
class Fill:
    """Each result element is a function of its index alone.

    `number(index, result_type, **attrs)` gives a Python number or an index object.
    """

    number: Callable[..., Any]


@record
class Read:
    """One operand element: operand number, index, and bounds where it holds.

    Outside of the `guards` (index, low, high: `low <= index < high`) and of the `strides`
    (index, step: `index % step == 0`) the element of operand `otherwise` (a scalar) is meant, or
    the number `fill`.
    """

    operand: int
    index: tuple[Any, ...]
    guards: tuple[tuple[Any, int, int], ...] = ()
    strides: tuple[tuple[Any, int], ...] = ()
    otherwise: int | None = None
    fill: Any = None


@record
class Move:
    """Each result element is an operand element at another index, or a fill value.

    `read(index, operand_types, **attrs)` gives a `Read` for the result index.
    """

    read: Callable[..., Read]


@record
class View:
    """The result is the operand's memory under another shape (row-major order kept)."""


@record
class AsParts(View):
    """The operand's memory: complex numbers as pairs of parts, or the reverse.

    The parts lie along a last axis of their own, the real one first.
    """


@record
class FromParts:
    """Each result element is the complex number of which the operands are the parts."""


@record
class Concat:
    """The operands stand one after another along the attribute `axis`."""


@record
class Reduce:
    """Combine along the attribute `axes` with `combine`.

    `combine` is add, mul, max, min, and, or, xor.
    """

    combine: str


@record
class Scan:
    """Running combination along the attribute `axis`, backwards if `reverse`.

    `combine` is add, mul, max or min.
    """

    combine: str


@record
class Contract:
    """A product of two operands summed over contracted axes.

    `axes(operand_types, **attrs)` gives ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch));
    the result's axes are batch, left free, right free. Accumulates in the result's dtype.
    """

    axes: Callable[..., tuple]


@record
class Gather:
    """Each result element is an operand element at an index read from other operands.

    `read(index, load, operand_types, **attrs)` gives a `Read` whose index may hold
    `load(operand, index, low, high)`: the integer element, clamped to `low..high` inclusive.
    """

    read: Callable[..., Read]


@record
class Scatter:
    """Operand 0 with elements of the operand `updates` combined in at computed places.

    `place(index, load, operand_types, **attrs)` gives a `Read` of operand 0: where the update
    element at `index` goes, with guards (outside of them it is dropped). `combine` is set, add,
    mul, min or max; updates apply in row-major order.
    """

    combine: str
    updates: int
    place: Callable[..., Read]


@record
class TopK:
    """The `k` (an attribute) greatest along the last axis, and their indices.

    The greatest comes first; among equal ones the first does. NaN is the greatest, -0.0 equals 0.0.
    """


@record
class Sort:
    """The operands in order along the attribute `axis`, stable.

    The first `n_keys` of them are compared. NaN is the greatest, -0.0 equals 0.0.
    """


@record
class Library:
    """The NumPy reference is called on the buffers (eigenvalues and the like)."""


@record
class Pass:
    """Blocks of elements of some arrays, computed one by one in scalars.

    What a block's elements share is computed once. There are `extents` blocks along some axes of
    their own. `compute(place, load)` gives for each array the pairs of an index and the scalar
    there, of all elements of the block at `place`. `load(source, index)` is an element of an array
    of the pass before (of an operand, in the first one), or after these of the `tables`.

    Scalars are opaque: they know `+ - * / < > &`, `abs`, and the methods `equals`, `select`,
    `sqrt`, `log`, `sign`; Python numbers go along with them. A complex one is a pair of its parts.
    `types` are those of the arrays; none in the last pass, which fills the op's results. A pass
    that `continues` reads and fills the same arrays as the one before, at other places.
    """

    extents: tuple[Any, ...]
    compute: Callable[..., Sequence[Sequence[tuple[tuple[Any, ...], Any]]]]
    types: tuple[Any, ...] = ()
    tables: Callable[[], Sequence[Any]] = tuple
    continues: bool = False


@record
class Blocks:
    """The results are computed in passes over memory, block by block.

    `passes(operand_types, **attrs)` gives each `Pass`; None if blocks would be too large to be
    written out: then it is as `Library`.
    """

    passes: Callable[..., Sequence[Pass] | None]


@record
class Call:
    """Run the nested graph of the attribute `graph` on the operands."""


@record
class Branch:
    """Run one of the graphs of `branches`: operand 0 (an int32, clamped) chooses it.

    The other operands are the arguments of every branch.
    """


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
