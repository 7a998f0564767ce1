"""einsum: products summed over axes that have names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError
from ..trace.apply import as_tensor
from ..trace.arguments import check_precision, choice, count_of, members, wrong
from ..trace.array import Array
from ..trace.promotion import convert, result_dtype, wide_dtype
from .contraction import contracted
from .creation import arange
from .elementwise import multiply, refuse_out
from .manipulation import moveaxis, reshape, transpose
from .reductions import sum

WAYS = ("auto", True, False, "greedy", "optimal")  # to find an order of products


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Einstein summation: `einsum("ij,jk->ik", x, y)` is `x @ y`.

    `subscripts` name the axes of the `operands` and of the result. Operands are contracted in
    pairs, the pair with the smallest result first, or along the path that `einsum_path` gave for
    `optimize`. Axes may be numbers: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
    """
    check_precision("einsum", precision)
    refuse_out("einsum", out)
    subscripts, operands = _as_text(subscripts, operands)
    tensors = [as_tensor(x) for x in operands]
    inputs, output = _parse(subscripts, tensors)
    dtype = result_dtype(*tensors)
    wide = wide_dtype(dtype)
    is_plain = preferred_element_type is not None or not _takes_steps(inputs, output)
    if wide is not None and not is_plain:  # what is summed in several steps is rounded once
        tensors = [convert(x, wide) for x in tensors]
        return convert(_contracted(inputs, output, tensors, optimize, None), dtype)
    return _contracted(inputs, output, tensors, optimize, preferred_element_type)


def _takes_steps(inputs: list[list[str]], output: list[str]) -> bool:
    """Whether more is to do than one sum, or one product of two."""
    alone = [set(labels) - set(other) - {*output} for labels, other in permutations(inputs, 2)]
    return len(inputs) > 2 or any(alone)


def _contracted(
    inputs: list[list[str]],
    output: list[str],
    tensors: list[Any],
    optimize: Any,
    preferred_element_type: Any,
) -> Array:
    """The sum of products, two of the operands at a time."""
    is_path = isinstance(optimize, list | tuple)
    if not is_path:
        choice("einsum: optimize", optimize, WAYS)
    dtype = result_dtype(*tensors)
    sizes = _label_sizes(inputs, tensors)
    terms = [
        _simple(convert(x, dtype), labels, sizes) for x, labels in zip(tensors, inputs, strict=True)
    ]
    terms = [
        _summed(x, labels, [*output, *_others(terms, i)]) for i, (x, labels) in enumerate(terms)
    ]
    steps = iter(_steps("einsum", optimize, len(terms)) if is_path else ())
    while len(terms) > 1:
        step = next(steps, None)
        pairs = _cheapest(terms, output, sizes) if step is None else step
        first, *others = (terms[i] for i in pairs)
        terms = [t for k, t in enumerate(terms) if k not in pairs]
        for other in others:
            kept = [*output, *(s for _, labels in [*terms, *others[1:]] for s in labels)]
            first = _contract_terms(first, other, kept, preferred_element_type)
        terms.append(first)
    x, labels = terms[0]
    return transpose(x, [labels.index(s) for s in output if s in labels])


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: bool | str | list[Any] = "auto"
) -> tuple[list[Any], Any]:
    """The contraction path of least cost for `einsum`, and a printable report of it.

    `subscripts`, `operands` and `optimize` are as for `einsum`.

    >>> einsum_path("ij,jk,kl->il", np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 2)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    subscripts, operands = _as_text(subscripts, operands)
    stand_ins = [np.broadcast_to(np.float32(0), as_tensor(x).shape) for x in operands]
    if isinstance(optimize, list):
        how: Any = ["einsum_path", *_steps("einsum_path", optimize, len(operands))]
    else:
        known = choice("einsum_path: optimize", optimize, WAYS)
        how = "greedy" if known == "auto" else known
    inputs, _ = _parse(subscripts, [as_tensor(x) for x in operands])  # an error if they are wrong
    _label_sizes(inputs, stand_ins)
    return np.einsum_path(subscripts, *stand_ins, optimize=how)  # it reads nothing but shapes


def _steps(name: str, path: Any, count: int) -> list[tuple[int, ...]]:
    """The operands that each step of a path contracts, by their places among those left then."""
    found = []
    steps = members(f"{name}: optimize", path)
    for step in steps[1:] if steps[:1] == ("einsum_path",) else steps:
        what = f"{name}: a step of optimize"
        places = tuple(count_of(what, i, most=count - 1) for i in members(what, step))
        if len(set(places)) != len(places) or not places:
            raise wrong(what, step, "made of different places", "take what einsum_path gives")
        found.append(places)
        count -= len(places) - 1
    if name == "einsum_path" and count != 1:
        raise wrong(f"{name}: optimize", path, "a whole path", "contract until one array is left")
    return found


def _as_text(subscripts: Any, operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The subscripts as text, also where axes were given as lists of numbers."""
    if isinstance(subscripts, str) or not operands:
        return subscripts, operands
    given = [subscripts, *operands]
    lists = given[1::2]
    if not all(isinstance(part, Sequence) for part in lists):
        return subscripts, operands
    output = given[-1] if len(given) % 2 else None
    arrays = tuple(given[0 : 2 * len(lists) : 2])
    text = ",".join(map(_letters, lists))
    return (text if output is None else f"{text}->{_letters(output)}"), arrays


def _letters(axes: Sequence[Any]) -> str:
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    given = members("einsum: the axes of an operand", axes)
    numbers = [a if a is Ellipsis else count_of("einsum: an axis", a, most=51) for a in given]
    return "".join("..." if n is Ellipsis else names[n] for n in numbers)


def _others(terms: list[tuple[Any, list[str]]], i: int) -> list[str]:
    return [s for j, (_, labels) in enumerate(terms) if j != i for s in labels]


def _parse(subscripts: str, tensors: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; `...` becomes labels of its own."""
    if not isinstance(subscripts, str):
        raise ArgumentError(
            f"einsum: the subscripts are of type {type(subscripts).__name__}, not a text",
            fix='name the axes first: einsum("ij,jk->ik", x, y)',
        )
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise _einsum_error(f"{subscripts!r} names {len(parts)} operands, {len(tensors)} are given")
    inputs = []
    for part, x in zip(parts, tensors, strict=True):
        named = len(part.replace("...", ""))
        hidden = x.ndim - named
        if hidden < 0 or (hidden and "..." not in part):
            raise _einsum_error(f"{part!r} names {named} axes of an array with {x.ndim}")
        inputs.append(_with_dots(part, hidden))
    hidden = [[s for s in labels if s.startswith(".")] for labels in inputs]  # what stands for ...
    widest = max(map(len, hidden), default=0)
    if arrow:
        output = _with_dots(right, widest)
    else:
        letters = sorted(s for s in set(left) - set(".,") if left.count(s) == 1)
        output = [*(f".{i}" for i in reversed(range(widest))), *letters]
    known = {s for labels in inputs for s in labels}
    if not set(output) <= known or len(set(output)) < len(output):
        raise _einsum_error(f"the result {right!r} must name axes of the operands, each once")
    return inputs, output


def _with_dots(part: str, hidden: int) -> list[str]:
    before, dots, after = part.partition("...")
    middle = [f".{i}" for i in reversed(range(hidden))] if dots else []
    return [*before, *middle, *after]


def _einsum_error(what: str) -> ArgumentError:
    return ArgumentError(f"einsum: {what}", fix='write a letter for each axis, as "bij,bjk->bik"')


def _label_sizes(inputs: Sequence[Sequence[str]], tensors: Sequence[Any]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for labels, x in zip(inputs, tensors, strict=True):
        for label, n in zip(labels, x.shape, strict=True):
            before = sizes.setdefault(label, n)
            if before == 1:
                sizes[label] = n
            elif n not in (1, before):
                raise _einsum_error(f"the axis {label!r} has the sizes {before} and {n}")
    return sizes


def _simple(x: Any, labels: Sequence[str], sizes: dict[str, Any]) -> tuple[Any, list[str]]:
    """The operand without thin axes, and with diagonals taken.

    Thin axes repeat others' sizes; a label that stands twice asks for a diagonal.
    """
    labels = list(labels)
    thin = [i for i, s in enumerate(labels) if x.shape[i] == 1 and sizes[s] != 1]
    if thin:
        x = reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in thin))
        labels = [s for i, s in enumerate(labels) if i not in thin]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            line = arange(x.shape[i], dtype="int32")
            x = moveaxis(x, (i, j), (0, 1))[line, line]
            labels = [label, *(s for k, s in enumerate(labels) if k not in (i, j))]
    return x, labels


def _summed(x: Any, labels: list[str], kept: Sequence[str]) -> tuple[Any, list[str]]:
    """Without axes that nobody else names."""
    lone = tuple(i for i, s in enumerate(labels) if s not in kept)
    return (sum(x, lone, x.dtype), [s for s in labels if s in kept]) if lone else (x, labels)


def _cheapest(
    terms: Sequence[tuple[Any, list[str]]], output: Sequence[str], sizes: dict[str, Any]
) -> tuple[int, int]:
    """The pair whose contraction shrinks the operands most."""
    best, found = None, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            kept = {*output, *(s for k, t in enumerate(terms) if k not in (i, j) for s in t[1])}
            both = set(terms[i][1]) | set(terms[j][1])
            spans = (both & kept, terms[i][1], terms[j][1])
            result, first, second = (_volume(span, sizes) for span in spans)
            cost = result - first - second
            if best is None or cost < best:
                best, found = cost, (i, j)
    return found


def _volume(labels: Any, sizes: dict[str, Any]) -> int:
    return math.prod(n if isinstance(n, int) else 1000 for n in (sizes[s] for s in labels))


def _contract_terms(
    first: tuple[Any, list[str]], second: tuple[Any, list[str]], kept: Sequence[str], dtype: Any
) -> tuple[Any, list[str]]:
    (x, left), (y, right) = first, second
    shared = [s for s in left if s in right]
    batch = [s for s in shared if s in kept]
    inner = [s for s in shared if s not in kept]
    if not inner:
        return _outer_terms(x, left, y, right)
    result = contracted(
        x,
        y,
        ([left.index(s) for s in inner], [right.index(s) for s in inner]),
        ([left.index(s) for s in batch], [right.index(s) for s in batch]),
        dtype,
    )
    free = [s for s in [*left, *right] if s not in shared]
    return result, [*batch, *free]


def _outer_terms(x: Any, left: list[str], y: Any, right: list[str]) -> tuple[Any, list[str]]:
    """A product without a sum, by broadcasting."""
    labels = [*left, *(s for s in right if s not in left)]
    ordered = [s for s in labels if s in right]
    y = transpose(y, [right.index(s) for s in ordered])
    sizes = iter(y.shape)
    y = reshape(y, tuple(next(sizes) if s in right else 1 for s in labels))
    x = reshape(x, (*x.shape, *(1 for s in labels[len(left) :])))
    return multiply(x, y), labels
