"""The laws of a room: what must hold between the rules of one op, whatever op it is.

A law takes a `Case` (an op and one of its samples) and raises an `AssertionError` if it is broken.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.builder import build, inline
from rlx.ir.errors import GradientError, RlxError
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.ir.op import Op, Sample
from rlx.ir.types import Type, as_dtype, is_bool, is_complex, is_float, is_inexact, is_integer
from rlx.lower.hir.expand import expand
from rlx.lower.hir.simplify import simplify
from rlx.transforms.batch import batch_graph
from rlx.transforms.jvp import jvp_graph
from rlx.transforms.transpose import transpose_graph

Arrays = list[np.ndarray]
STEP = 1e-6  # of finite differences in float64
MEMBERS = 3  # of a batch

# made by the derivative of custom_vjp_call alone, which audits it
WITHOUT_SAMPLES = {"custom_pullback"}
FORWARD_ONLY = {"while_loop"}  # how often it ran is not known beforehand
REVERSE_ONLY = {"custom_vjp_call"}  # the user gave the rule of reverse mode alone
RULE_ORDER = ("reference", "body", "expand", "jvp", "transpose", "batch", "fold")


@dataclass(frozen=True)
class Case:
    """One sample of an op, with random numbers where it gives shapes."""

    op: Op
    sample: Sample

    @property
    def attrs(self) -> dict[str, Any]:
        return self.op.complete(self.sample.attrs)

    def arrays(self, seed: int = 0) -> Arrays:
        random = np.random.default_rng(seed)
        return [self.array(arg, random) for arg in self.sample.args]

    def array(self, arg: Any, random: np.random.Generator) -> np.ndarray:
        if not isinstance(arg, tuple | Type):
            return np.asarray(arg)
        type = arg if isinstance(arg, Type) else Type(as_dtype("float64"), arg)
        low, high = self.sample.low, self.sample.high
        if is_bool(type.dtype):
            return random.random(type.shape) < 0.5
        if is_integer(type.dtype):
            least = 0 if type.dtype.kind == "u" else int(low)
            return random.integers(least, int(high) + 1, type.shape).astype(type.dtype)
        return numbers(type, random, low, high)

    @property
    def graph(self) -> Graph:
        return graph_of(self.op, self.arrays(), self.attrs)

    @property
    def active(self) -> list[bool]:
        """Which arguments finite differences can move: numbers of 64 bits or twice that."""
        return [x.dtype.name in ("float64", "complex128") for x in self.arrays()]

    @property
    def is_smooth(self) -> bool:
        """Whether derivatives can be measured on this sample."""
        inexact = [r.dtype.name for r in self.graph.results if r.type.is_inexact]
        wide = inexact and all(name in ("float64", "complex128") for name in inexact)
        return any(self.active) and bool(wide) and "nondifferentiable" not in self.op.rules


def numbers(type: Type, random: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Random floats or complex numbers."""
    x = random.uniform(low, high, type.shape)
    if is_complex(type.dtype):
        x = x + 1j * random.uniform(low, high, type.shape)
    return np.asarray(x).astype(type.dtype)


def type_of(x: np.ndarray) -> Type:
    """The type of an array; a foreign dtype is an error."""
    return Type(as_dtype(x.dtype), x.shape)


def graph_of(op: Op, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> Graph:
    """The graph that applies an op once."""
    return build(lambda *xs: op.apply(xs, attrs), [type_of(x) for x in arrays], op.name)


def like(arrays: Sequence[np.ndarray], seed: int) -> Arrays:
    """Random directions of the shapes and dtypes of arrays."""
    random = np.random.default_rng(seed)
    return [numbers(type_of(x), random, -1, 1) for x in arrays]


def pick(items: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The items where the mask holds."""
    return [item for item, is_kept in zip(items, mask, strict=True) if is_kept]


def assert_close(got: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Raise unless arrays agree in shape and numbers; half-size floats are compared as float32."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
    got, wanted = (a if a.dtype.kind in "biufc" else a.astype(np.float32) for a in (got, wanted))
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=what)


def all_close(got: Arrays, wanted: Arrays, tolerance: float, what: str) -> None:
    """`assert_close` for each pair."""
    assert len(got) == len(wanted), f"{what}: {len(got)} results, not {len(wanted)}"
    for g, w in zip(got, wanted, strict=True):
        assert_close(g, w, tolerance, what)


# -- meaning --------------------------------------------------------------------------------------


def law_room_is_complete(case: Case) -> None:
    """Docstring and required rules are there, rules named after the op stand in their order."""
    op = case.op
    first = (op.__doc__ or "").split("\n")[0]
    assert first and len(first) <= 100 and first.endswith("."), f"{op.name}: docstring {first!r}"
    assert not op.missing(), f"{op.name} lacks {op.missing()}"
    lines = []
    for rule in RULE_ORDER:
        fn = op.rules.get(rule)
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
        results = op.rules["reference"](*arrays, **attrs)
    results = results if isinstance(results, tuple | list) else (results,)
    for result, type in zip(results, types, strict=True):
        result = np.asarray(result)
        assert result.shape == type.shape, f"{op.name}: the reference gives {result.shape}: {type}"
        kinds = kind_of(result.dtype), kind_of(type.dtype)
        # an index or a flag may be counted in any integer
        assert kinds[0] == kinds[1] or kinds == ("bool", "integer"), f"{op.name}: {kinds}"


def law_sample_gives_what_it_expects(case: Case) -> None:
    """The reference gives the numbers worked out by hand."""
    if case.sample.expect is None:
        return
    results = list(case.op.run(case.arrays(), case.attrs))
    is_many = case.op.is_multiple(case.graph.results)
    expect = case.sample.expect if is_many else [case.sample.expect]
    all_close(results, list(expect), 1e-7, "expect")


def law_expansion_is_the_reference(case: Case) -> None:
    """A composite means the same in simpler ops."""
    if "expand" not in case.op.rules:
        return
    with np.errstate(all="ignore"):
        results = interpret(expand(case.graph), case.arrays())
    all_close(results, interpret(case.graph, case.arrays()), 1e-6, "expand")


SPECIAL = (0.0, 1.0, -1.0, -0.0, np.inf, -np.inf, np.nan, 0.5)


def law_folding_keeps_the_meaning(case: Case) -> None:
    """With constants, repeats and inverses for operands, the simplified graph gives the same."""
    if "fold" not in case.op.rules:
        return
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


# -- derivatives ----------------------------------------------------------------------------------


def moved(arrays: Arrays, active: Sequence[bool], directions: Arrays, by: float) -> Arrays:
    """Arrays moved along directions, one for each active array."""
    given = iter(directions)
    pairs = zip(arrays, active, strict=True)
    return [x + by * next(given) if is_active else x for x, is_active in pairs]


def slopes(graph: Graph, arrays: Arrays, active: Sequence[bool], directions: Arrays) -> Arrays:
    """Finite differences of the inexact results along directions; NaN at kinks, jumps and poles."""
    inexact = inexact_results(graph)
    with np.errstate(all="ignore"):
        after, here, before = (
            pick(interpret(graph, moved(arrays, active, directions, by)), inexact)
            for by in (STEP, 0.0, -STEP)
        )
        return [smooth_slope(*ys) for ys in zip(after, here, before, strict=True)]


def smooth_slope(after: np.ndarray, here: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The central difference where the two one-sided ones agree and it is not steep, else NaN."""
    slope = (after - before) / (2 * STEP)
    bend = np.abs(after - 2 * here + before) / STEP
    is_smooth = (bend < 1e-2 * (1 + np.abs(slope))) & (np.abs(slope) < 1e-2 / STEP)
    return np.where(is_smooth, slope, np.nan)


def assert_slopes(got: Arrays, measured: Arrays, tolerance: float, what: str) -> None:
    """Raise unless tangents are the measured slopes, where those are finite."""
    assert len(got) == len(measured), f"{what}: {len(got)} tangents, not {len(measured)}"
    for tangent, slope in zip(got, measured, strict=True):
        finite = np.isfinite(slope)
        kept = np.where(finite, tangent, 0), np.where(finite, slope, 0)
        assert_close(*kept, tolerance, what)


def inexact_results(graph: Graph) -> list[bool]:
    return [r.type.is_inexact for r in graph.results]


def pushed(graph: Graph, active: Sequence[bool]) -> Graph:
    """The graph of the tangents alone: parameters, then a tangent for each active one."""
    both, _ = jvp_graph(graph, active, inexact_results(graph))
    return build(lambda *xs: inline(both, xs)[len(graph.results) :], both.param_types)


def pulled(graph: Graph, active: Sequence[bool]) -> Graph:
    """The graph of the cotangents: parameters, then a cotangent for each inexact result."""
    linear = pushed(graph, active)
    is_tangent = [False] * len(graph.params) + [True] * sum(active)
    return transpose_graph(linear, is_tangent)


def law_jvp_is_the_slope(case: Case) -> None:
    """Tangents are finite differences, for each choice of moving arguments."""
    if not case.is_smooth or case.op.name in REVERSE_ONLY:
        return
    graph, arrays = case.graph, case.arrays()
    for active in choices(case.active):
        directions = like(pick(arrays, active), 1)
        tangents = interpret(pushed(graph, active), [*arrays, *directions])
        measured = slopes(graph, arrays, active, directions)
        assert_slopes(tangents, measured, 3e-6, f"jvp, moving {active}")


def choices(mask: Sequence[bool]) -> list[list[bool]]:
    """Each single true place of a mask alone, and all of them."""
    alone = [[i == j for j in range(len(mask))] for i, is_true in enumerate(mask) if is_true]
    return [*alone, list(mask)] if len(alone) > 1 else [list(mask)]


def law_transpose_is_adjoint(case: Case) -> None:
    """<c, J t> = <J^T c, t>, for each choice of moving arguments."""
    if not case.is_smooth:
        return
    if case.op.name in FORWARD_ONLY:
        return assert_refuses(lambda: pulled(case.graph, case.active))
    graph, arrays = case.graph, case.arrays()
    for active in choices(case.active):
        directions = like(pick(arrays, active), 1)
        if case.op.name in REVERSE_ONLY:
            tangents = slopes(graph, arrays, active, directions)
        else:
            tangents = interpret(pushed(graph, active), [*arrays, *directions])
        if not all(np.isfinite(t).all() for t in tangents):
            return None
        weights = like(tangents, 2)
        back = interpret(pulled(graph, active), [*arrays, *weights])
        tolerance = 1e-5 if case.op.name in REVERSE_ONLY else 1e-9
        left, right = inner(weights, tangents), inner(back, directions)
        assert_close(left, right, tolerance, f"adjoint, moving {active}")
    return None


def inner(xs: Arrays, ys: Arrays) -> float:
    """The real inner product, without conjugation."""
    pairs = zip(xs, ys, strict=True)
    return float(sum(np.sum(x * y).real for x, y in pairs))


def assert_refuses(run: Any) -> None:
    """Raise unless a derivative that does not exist is an error that says so."""
    try:
        run()
    except GradientError as error:
        assert error.fix
        return
    raise AssertionError("a derivative that does not exist was given")


def law_second_derivatives_are_slopes(case: Case) -> None:
    """The jvp of the tangents and of the cotangents are their finite differences."""
    if not case.is_smooth or case.op.name in REVERSE_ONLY:
        return
    arrays, active = case.arrays(), case.active
    graphs = [pushed(case.graph, active)]
    if case.op.name not in FORWARD_ONLY:
        graphs.append(pulled(case.graph, active))
    for graph in graphs:
        random = np.random.default_rng(4)
        extra = [numbers(p.type, random, -1, 1) for p in graph.params[len(arrays) :]]
        everything, moving = [*arrays, *extra], [*active, *[False] * len(extra)]
        directions = like(pick(arrays, active), 3)
        tangents = interpret(pushed(graph, moving), [*everything, *directions])
        measured = slopes(graph, everything, moving, directions)
        assert_slopes(tangents, measured, 3e-5, "second derivative")


# -- batches --------------------------------------------------------------------------------------


def law_batch_is_a_loop(case: Case) -> None:
    """A batch gives what a loop over its members gives, whichever arguments are batched."""
    check_batch(case, case.graph, lambda seed: case.arrays(seed))


def law_batch_goes_with_jvp(case: Case) -> None:
    """The batch of tangents is the loop over them, and so are the tangents of the batch."""
    if not case.is_smooth or case.op.name in REVERSE_ONLY:
        return
    active = case.active
    tangents = pushed(case.graph, active)

    def draw(seed: int) -> Arrays:
        arrays = case.arrays(seed)
        return [*arrays, *like(pick(arrays, active), seed + 10)]

    check_batch(case, tangents, draw)
    everything = [True] * len(active)
    many, _ = batch_graph(case.graph, everything, MEMBERS, [True] * len(case.graph.results))
    members = [draw(seed) for seed in range(MEMBERS)]
    got = interpret(pushed(many, active), [np.stack(xs) for xs in zip(*members, strict=True)])
    for i, member in enumerate(members):
        all_close([x[i] for x in got], interpret(tangents, member), 1e-9, "jvp of the batch")


def check_batch(case: Case, graph: Graph, draw: Any) -> None:
    """Compare a batch with a loop, for subsets of batched arguments."""
    count = len(graph.params)
    members = [draw(seed) for seed in range(MEMBERS)]
    for batched in subsets(count):
        many, _ = batch_graph(graph, batched, MEMBERS, [True] * len(graph.results))
        given = [
            np.stack([m[i] for m in members]) if is_batched else members[0][i]
            for i, is_batched in enumerate(batched)
        ]
        with np.errstate(all="ignore"):
            got = interpret(many, given)
            for j, member in enumerate(members):
                mixed = [
                    member[i] if is_batched else members[0][i]
                    for i, is_batched in enumerate(batched)
                ]
                wanted = interpret(graph, mixed)
                all_close([x[j] for x in got], wanted, 1e-9, f"batched {batched}, member {j}")


def subsets(count: int) -> list[list[bool]]:
    """Every choice of one or more of few things; of many, each alone, all, and all but one."""
    if count <= 3:
        return [list(c) for c in itertools.product([False, True], repeat=count) if any(c)]
    alone = [[i == j for j in range(count)] for i in range(count)]
    return [*alone, [True] * count, *([not b for b in row] for row in alone)]


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
            *(x.astype(name) for name in ("bool", "int32", "uint8", "float32", "complex64")),
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
