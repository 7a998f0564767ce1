"""Laws of index arithmetic: simplified or not, an index is what Python's integers give."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings, strategies as st

from rlx.lower.lir.index import Atom, Index, Quotient, Variable, as_index


def value_of(index: Index, numbers: dict[Variable, int]) -> int:
    """The number an index stands for."""
    return index.constant + sum(c * atom_value(a, numbers) for a, c in index.terms)


def atom_value(atom: Atom, numbers: dict[Variable, int]) -> int:
    if isinstance(atom, Variable):
        return numbers[atom]
    inner = value_of(atom.index, numbers)  # type: ignore[union-attr]
    return inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor  # type: ignore[union-attr]


def random_index(random: Random, names: list[str], indices: list[Index]) -> tuple[str, Index]:
    """An index, and the same as Python text over `v`."""
    grown = [*zip(names, indices, strict=True), ("5", as_index(5))]
    for _ in range(random.randint(1, 8)):
        (left, x), (right, y) = random.choice(grown), random.choice(grown)
        n = random.choice([1, 2, 3, 4, 5, 6, 12, 30])
        grown.append(
            random.choice(
                [
                    (f"({left} + {right})", x + y),
                    (f"({left} - {right})", x - y),
                    (f"({left} * {n})", x * n),
                    (f"({left} // {n})", x // n),
                    (f"({left} % {n})", x % n),
                ]
            )
        )
    return grown[-1]


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_index_is_python_arithmetic(random: Random) -> None:
    variables = [Variable(random.randint(1, 6)) for _ in range(3)]
    names = [f"v[{i}]" for i in range(3)]
    text, index = random_index(random, names, [as_index(v) for v in variables])
    for v in itertools.product(*(range(x.extent) for x in variables)):
        number = value_of(index, dict(zip(variables, v, strict=True)))
        assert number == eval(text, {"v": v}), f"{text} became {index}"
        assert index.low <= number <= index.high


def test_splitting_and_merging_axes_cancel() -> None:
    i, j, k = Variable(4), Variable(6), Variable(5)
    place = i * 30 + j * 5 + k
    assert (place // 30, place // 5 % 6, place % 5) == tuple(map(as_index, (i, j, k)))
    assert (place // 12) * 12 + place % 12 == place
    whole = as_index(Variable(120))
    assert (whole // 12) * 12 + (whole // 3) % 4 * 3 + whole % 3 == whole


def test_substitution_goes_inside_of_quotients() -> None:
    i, j, whole = Variable(4), Variable(6), Variable(24)
    index = as_index(whole) // 5
    assert index.substitute({whole: i * 6 + j}) == (i * 6 + j) // 5


def test_strides_and_text() -> None:
    i, j = Variable(4), Variable(6)
    index = i * 12 - j + 3
    assert (index.stride_of(i), index.stride_of(j), index.is_affine) == (12, -1, True)
    assert str(index) == "i*12 - j + 3"
