"""Complex numbers and their parts: view_as_real, view_as_complex, and conversions."""

from __future__ import annotations

import numpy as np

from ..body import AsParts
from ..errors import DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, Parts, define
from ..types import Type
from .constant import constant, undone
from .convert import COMPLEX_OF, REAL_PART, complex, conj
from .families import check_kind
from .movement import reshape
from .pad_slice import concat, part_along


@define
def view_as_real(x: Type) -> Type:
    """The real and the imaginary part along a new last axis: `c64[3] → f32[3, 2]`."""
    check_kind(x, ["complex"])
    return Type(REAL_PART[x.dtype.name], (*x.shape, 2))


view_as_real.reference(lambda x: np.stack([np.real(x), np.imag(x)], axis=-1))
view_as_real.body(AsParts())


@view_as_real.transpose
def view_as_real_transpose(ct: Value, x: Value) -> list[Value]:
    # cotangents pair without conjugation, so that of the imaginary part changes its sign
    return [conj(view_as_complex(ct))]


view_as_real.batch(ALIGNED)
view_as_real.fold(undone("view_as_complex"))


@view_as_real.parts
def view_as_real_parts(x: Parts) -> Value:
    return in_pairs(x)


view_as_real.samples(np.array([1 + 2j, 3 - 4j]), expect=[[1.0, 2.0], [3.0, -4.0]])


@define
def view_as_complex(x: Type) -> Type:
    """Complex numbers of parts that lie along the last axis: `f32[3, 2] → c64[3]`."""
    if x.dtype.name not in COMPLEX_OF:
        raise DtypeError(
            f"there is no complex dtype with parts of {x.dtype.name}",
            fix="convert the operand to float32 or float64",
        )
    if not x.shape or x.shape[-1] != 2:
        raise ShapeError(f"the last axis of {x} is no pair of parts", fix="make its size 2")
    return Type(COMPLEX_OF[x.dtype.name], x.shape[:-1])


view_as_complex.reference(lambda x: np.ascontiguousarray(x).view(COMPLEX_OF[x.dtype.name])[..., 0])
view_as_complex.body(AsParts())
view_as_complex.transpose(lambda ct, x: [view_as_real(conj(ct))])
view_as_complex.batch(ALIGNED)
view_as_complex.fold(undone("view_as_real"))
view_as_complex.samples((3, 2))
view_as_complex.samples([[1.0, 2.0], [3.0, -4.0]], expect=[1 + 2j, 3 - 4j])


def parts_of(x: Value) -> Parts:
    """The parts of complex numbers that lie in memory."""
    if x.constant is not None:
        return Parts(constant.lift(np.real(x.constant)), constant.lift(np.imag(x.constant)))
    pairs = view_as_real(x)
    return Parts(_part(pairs, 0), _part(pairs, 1), x)


def _part(pairs: Value, number: int) -> Value:
    cut = part_along(pairs, pairs.rank - 1, number, number + 1)
    return reshape(cut, shape=pairs.shape[:-1])


def whole_of(x: Parts) -> Value:
    """The complex numbers of parts, for what has no rule for parts."""
    return complex(x.re, x.im)


def in_pairs(x: Parts) -> Value:
    """The parts along a new last axis; those of numbers in memory lie so already."""
    if x.whole is not None:
        return view_as_real(x.whole)
    return concat(*(reshape(part, shape=(*part.shape, 1)) for part in x[:2]), axis=x.re.rank)
