"""Laws of a room: type, reference, expansion, folds, refusals, dtypes and symbolic sizes agree."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from audit import (
    COMPLETE,
    Arrays,
    Case,
    all_close,
    cast,
    graph_of,
    tolerance_of,
    where,
)

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.dims import Dim, dim
from rlx.ir.errors import RlxError
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret
from rlx.ir.op import Op
from rlx.ir.types import as_dtype, is_bool, is_complex, is_float, is_integer, type_of
from rlx.lower.hir.inline_calls import expand
from rlx.lower.hir.simplify import simplify
from rlx.lower.lir import evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target
from rlx.runtime.supports import SWEPT

RULE_ORDER = ("reference", "body", "expand", "jvp", "transpose", "batch", "fold")


def law_room_is_complete(case: Case) -> None:
    """Docstring and required rules are there, rules named after the op stand in their order."""
    op = case.op
    first = (op.__doc__ or "").split("\n")[0]
    assert first and len(first) <= 100 and first.endswith("."), f"{op.name}: docstring {first!r}"
    assert not op.missing(), f"{op.name} lacks {op.missing()}"
    lines = []
    for rule in RULE_ORDER:
        fn = getattr(op.rules, rule)
        if getattr(fn, "__qualname__", "") == f"{op.name}_{rule}":
            lines.append(inspect.getsourcelines(fn)[1])
    assert lines == sorted(lines), f"{op.name}: rules are not in the order {RULE_ORDER}"


def kind_of(dtype: np.dtype) -> str:
    kinds = {"bool": is_bool, "integer": is_integer, "float": is_float, "complex": is_complex}
    return next(kind for kind, holds in kinds.items() if holds(dtype))


def law_type_is_that_of_the_reference(case: Case) -> None:
    """The type rule gives the shape and the kind of dtype that the reference has."""
    check_reference(case.op, case.arrays(), case.attrs)


def check_reference(op: Op, arrays: Arrays, attrs: dict[str, Any]) -> None:
    types = op.infer([type_of(x) for x in arrays], attrs)
    with np.errstate(all="ignore"):
        results = op.rules.reference(*arrays, **attrs)
    results = results if isinstance(results, tuple | list) else (results,)
    for result, type in zip(results, types, strict=True):
        result = np.asarray(result)
        assert result.shape == type.shape, f"{op.name}: the reference gives {result.shape}: {type}"
        kinds = kind_of(result.dtype), kind_of(type.dtype)
        # an index or a flag may be counted in any integer
        assert kinds[0] == kinds[1] or kinds == ("bool", "integer"), f"{op.name}: {kinds}"


@where(lambda case: case.sample.expect is not None)
def law_sample_gives_what_it_expects(case: Case) -> None:
    """The reference gives the numbers worked out by hand."""
    results = list(case.op.run(case.arrays(), case.attrs))
    is_many = case.op.is_multiple(case.graph.results)
    expect = case.sample.expect if is_many else [case.sample.expect]
    all_close(results, list(expect), 1e-7, "expect")


@where(lambda case: case.op.rules.expand is not None)
def law_expansion_is_the_reference(case: Case) -> None:
    """A composite means the same in simpler ops."""
    with np.errstate(all="ignore"):
        results = interpret(expand(case.graph), case.arrays())
    all_close(results, interpret(case.graph, case.arrays()), 1e-6, "expand")


SPECIAL = (0.0, 1.0, -1.0, -0.0, np.inf, -np.inf, np.nan, 0.5)


@where(lambda case: case.op.rules.fold is not None)
def law_folding_keeps_the_meaning(case: Case) -> None:
    """With constants, repeats and inverses for operands, the simplified graph gives the same."""
    for build_variant in fold_variants(case):
        try:
            graph = build(build_variant, [type_of(x) for x in case.arrays()])
        except RlxError:
            continue
        small = simplify(graph)
        for arrays in (case.arrays(), special_arrays(case)):
            with np.errstate(all="ignore"):
                wanted = interpret(graph, arrays)
                all_close(interpret(small, arrays), wanted, 1e-12, "fold")


def special_arrays(case: Case) -> Arrays:
    """Floats that algebra trips over, where the sample has random ones."""
    return [
        np.resize(np.roll(SPECIAL, i), x.shape).astype(x.dtype)
        if isinstance(arg, tuple) and x.size
        else x
        for i, (arg, x) in enumerate(zip(case.sample.args, case.arrays(), strict=True))
    ]


def fold_variants(case: Case) -> Iterator[Any]:
    op, attrs, count = case.op, case.attrs, len(case.sample.args)

    def replaced(places: Sequence[int], make: Any) -> Any:
        return lambda *xs: op.apply(
            [make(x, xs) if i in places else x for i, x in enumerate(xs)], attrs
        )

    every = range(count)
    yield lambda *xs: op.apply(xs, attrs)
    for number in (0, 1, -1, 2, True):
        for places in [[i] for i in every] + [list(every)]:
            yield replaced(
                places, lambda x, xs, n=number: ops.full(shape=x.shape, value=n, dtype=x.dtype)
            )
    for i in every:
        yield replaced([i], lambda x, xs: xs[0])
        for inverse in ("neg", "conj", "bit_not", "abs"):
            yield replaced([i], lambda x, xs, name=inverse: OPS[name](x))
        yield replaced(every, lambda x, xs: OPS["neg"](x))
        for j in range(len(case.graph.results)):
            yield replaced([i], lambda x, xs, j=j: op.apply(xs, attrs)[j])


# -- refusals -------------------------------------------------------------------------------------


def law_wrong_arguments_are_refused(case: Case) -> None:
    """What the type rule takes the reference takes; all else is an error of the house."""
    for arrays, attrs in wrong_calls(case):
        try:
            check_reference(case.op, arrays, case.op.complete(attrs))
        except RlxError as error:
            assert error.what and error.fix, f"{case.op.name}: {error!r} has no fix"


def wrong_calls(case: Case) -> Iterator[tuple[Arrays, dict[str, Any]]]:
    arrays, attrs = case.arrays(), dict(case.sample.attrs)
    yield [*arrays, np.ones(3)], attrs
    if arrays:
        yield arrays[:-1], attrs
    yield arrays, {**attrs, "nonsense": 1}
    for name in attrs:
        yield arrays, {k: v for k, v in attrs.items() if k != name}
    for i, x in enumerate(arrays):
        others = [
            *(cast(x, name) for name in ("bool", "int32", "uint8", "float32", "complex64")),
            x[None],
            np.stack([x, x], axis=-1),
            *(np.repeat(x, 2, axis) for axis in range(x.ndim)),
            *(np.take(x, 0, axis) for axis in range(x.ndim) if x.shape[axis]),
            *(np.take(x, [], axis) for axis in range(x.ndim)),
        ]
        for other in others:
            yield [*arrays[:i], other, *arrays[i + 1 :]], attrs
    for name, attr in attrs.items():
        for other in wrong_attrs(attr):
            yield arrays, {**attrs, name: other}


def wrong_attrs(attr: Any) -> Iterator[Any]:
    if isinstance(attr, bool | str):
        return
    if isinstance(attr, int):
        yield from (attr + 9, -attr - 3)
    if isinstance(attr, tuple | list) and all(isinstance(n, int) for n in attr):
        yield from ((*attr, 0), attr[:-1], attr[::-1], tuple(n + 9 for n in attr))
        yield from (tuple(-n - 1 for n in attr), attr[:1] * len(attr))


# -- dtypes and sizes -----------------------------------------------------------------------------

SAME_BITS = {"bitcast"}  # the number is not what stays


def compiled_dtypes(case: Case) -> Sequence[str]:
    """Those in which programs of a sample are made: all for the first one of an op.

    For each of the others one in four, in turn, and its own; all in `make audit`.
    """
    samples = case.op.sample_list
    number = next((i for i, sample in enumerate(samples) if sample is case.sample), 0)
    if COMPLETE or not number:
        return SWEPT
    own = {x.dtype.name for x in case.arrays()}
    return [name for i, name in enumerate(SWEPT) if i % 4 == number % 4 or name in own]


def law_short_dtypes_are_near_the_long_one(case: Case) -> None:
    """A reference in 16 or 32 bits gives about what it gives in 64."""
    for name, arrays in case.swept():
        if name not in ("float16", "bfloat16", "float32", "complex64"):
            continue
        if case.op.name in SAME_BITS:
            continue
        wide = "complex128" if name == "complex64" else "float64"
        longer = [x.astype(wide) if x.dtype == as_dtype(name) else x for x in arrays]
        graph = graph_of(case.op, arrays, case.attrs)
        got, wanted = interpret(graph, arrays), case.op.run(longer, case.attrs)
        tolerance = tolerance_of(*graph.param_types, *graph.result_types)
        with np.errstate(all="ignore"):
            exact = [w.astype(g.dtype) for g, w in zip(got, wanted, strict=True)]
        all_close(got, exact, tolerance, name)


def law_symbolic_sizes_follow_numbers(case: Case) -> None:
    """With a named size for each number, the type rule gives names that fit, or an error."""
    arrays, attrs = case.arrays(), case.attrs
    types = [type_of(x) for x in arrays]
    wanted = case.op.infer(types, attrs)
    for number in sorted({n for t in types for n in t.shape if n > 1}):
        size = dim("n")
        symbolic = [t.with_shape([size if n == number else n for n in t.shape]) for t in types]
        try:
            results = case.op.infer(symbolic, attrs)
        except RlxError:
            continue
        for result, static in zip(results, wanted, strict=True):
            shape = tuple(
                n.substitute({"n": number}) if isinstance(n, Dim) else n for n in result.shape
            )
            assert shape == static.shape, f"{case.op.name}: {result} with n = {number}: {static}"


def law_program_is_the_reference(case: Case) -> None:
    """Lowered and evaluated, the op gives what its reference gives, in each dtype it takes."""
    for name, arrays in case.swept(compiled_dtypes(case)):
        graph = graph_of(case.op, arrays, case.attrs)
        tolerance = tolerance_of(*graph.param_types, *graph.result_types)
        program = lower(graph, Target("cpu")).program
        all_close(evaluate(program, arrays), interpret(graph, arrays), tolerance, name)


LAWS = [law for name, law in list(vars().items()) if name.startswith("law_")]
