"""Laws of a room: derivatives are slopes, transposes are adjoint, batches are loops."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from audit import (
    Arrays,
    Case,
    all_close,
    assert_close,
    like,
    numbers,
    pick,
    tolerance_of,
    where,
)

import rlx
from rlx.ir.builder import build, inline
from rlx.ir.errors import GradientError
from rlx.ir.graph import Graph
from rlx.ir.interpret import interpret
from rlx.ir.op import Sample
from rlx.trace.apply import apply
from rlx.transforms.jvp import jvp_graph
from rlx.transforms.transpose import transpose_graph
from rlx.transforms.vmap import batch_graph

STEP = 1e-6  # of finite differences in float64
MEMBERS = 3  # of a batch
FORWARD_ONLY = {"while_loop"}  # how often it ran is not known beforehand
REVERSE_ONLY = {"custom_vjp_call"}  # the user gave the rule of reverse mode alone


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
    return _pushed(graph, tuple(active))


@functools.lru_cache(maxsize=16)  # several laws ask for the same one
def _pushed(graph: Graph, active: Sequence[bool]) -> Graph:
    both, _ = jvp_graph(graph, active, inexact_results(graph))
    return build(lambda *xs: inline(both, xs)[len(graph.results) :], both.param_types)


def pulled(graph: Graph, active: Sequence[bool]) -> Graph:
    """The graph of the cotangents: parameters, then a cotangent for each inexact result."""
    linear = pushed(graph, active)
    is_tangent = [False] * len(graph.params) + [True] * sum(active)
    return transpose_graph(linear, is_tangent)


def is_smooth(case: Case) -> bool:
    return case.is_smooth


def has_jvp(case: Case) -> bool:
    return case.is_smooth and case.op.name not in REVERSE_ONLY


@where(has_jvp)
def law_jvp_is_the_slope(case: Case) -> None:
    """Tangents are finite differences, for each choice of moving arguments."""
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


@where(is_smooth)
def law_transpose_is_adjoint(case: Case) -> None:
    """<c, J t> = <J^T c, t>, for each choice of moving arguments."""
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


def in_complex(case: Case) -> Case:
    """The case with complex numbers for real ones, or itself.

    An op that takes none has none; one that has complex samples knows which ones are of use.
    """
    others = (Case(case.op, sample).arrays() for sample in case.op.sample_list)
    arrays = case.in_dtype("complex128")
    if arrays is None or any(x.dtype.kind == "c" for xs in others for x in xs):
        return case
    turned = [x * np.exp(0.6j + i) if x.dtype.kind == "c" else x for i, x in enumerate(arrays)]
    return Case(case.op, Sample(tuple(turned), case.sample.attrs))


def has_complex(case: Case) -> bool:
    other = in_complex(case)
    return other is not case and case.is_smooth and other.is_smooth


@where(has_complex)
def law_complex_derivatives_keep_the_convention(case: Case) -> None:
    """They are slopes along complex directions, and Re<c, J t> = Re<J^T c, t> without conjugates.

    So the gradient of a real function is its slope along 1, less i times that along i: as in JAX.
    """
    law_jvp_is_the_slope(in_complex(case))
    law_transpose_is_adjoint(in_complex(case))


@where(has_jvp)
def law_second_derivatives_are_slopes(case: Case) -> None:
    """The jvp of the tangents and of the cotangents are their finite differences."""
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


def has_transpose(case: Case) -> bool:
    return case.op.rules.transpose is not None and case.is_smooth and not case.graph.nodes[0].graphs


@where(has_transpose)
def law_linear_arguments_have_a_transpose(case: Case) -> None:
    """Where the op is linear in one argument, the rest known, its own transpose is adjoint."""
    graph, arrays = case.graph, case.arrays()
    for linear in choices(case.active)[: sum(case.active)]:
        directions = like(pick(arrays, linear), 5)
        once, twice = (steps(graph, arrays, linear, directions, by) for by in (1.0, 2.0))
        pairs = zip(once, twice, strict=True)
        if not all(np.allclose(2 * a, b, rtol=1e-9, atol=1e-12) for a, b in pairs):
            continue
        weights = like(once, 6)
        known = pick(arrays, [not is_linear for is_linear in linear])
        pull = transpose_graph(graph, linear, inexact_results(graph))
        back = interpret(pull, [*known, *weights])
        left, right = inner(weights, once), inner(back, directions)
        assert_close(left, right, 1e-9, f"transpose, linear in {linear}")


def steps(
    graph: Graph, arrays: Arrays, active: Sequence[bool], directions: Arrays, by: float
) -> Arrays:
    """How far the inexact results move when arrays move along directions."""
    inexact = inexact_results(graph)
    start = pick(interpret(graph, arrays), inexact)
    end = pick(interpret(graph, moved(arrays, active, directions, by)), inexact)
    return [b - a for a, b in zip(start, end, strict=True)]


# -- batches --------------------------------------------------------------------------------------


@where(lambda case: bool(case.sample.args))
def law_batch_is_a_loop(case: Case) -> None:
    """A batch gives what a loop over its members gives, whichever arguments are batched."""
    check_batch(case, case.graph, lambda seed: case.arrays(seed))


@where(has_jvp)
def law_batch_goes_with_jvp(case: Case) -> None:
    """The batch of tangents is the loop over them, and so are the tangents of the batch."""
    active = case.active
    tangents = pushed(case.graph, active)

    def draw(seed: int) -> Arrays:
        arrays = case.arrays(seed)
        return [*arrays, *like(pick(arrays, active), seed + 10)]

    alone = check_batch(case, tangents, draw)
    everything = [True] * len(active)
    many, _ = batch_graph(case.graph, everything, MEMBERS, [True] * len(case.graph.results))
    members = [draw(seed) for seed in range(MEMBERS)]
    got = interpret(pushed(many, active), [np.stack(xs) for xs in zip(*members, strict=True)])
    for i, member in enumerate(members):
        wanted = alone((i,) * len(member))
        all_close([x[i] for x in got], wanted, 1e-9, "jvp of the batch")


@where(lambda case: bool(case.sample.args))
def law_batch_axes_may_be_any(case: Case) -> None:
    """A batch along the last axis, or another one for each argument, is a batch too."""
    members = [case.arrays(seed) for seed in range(MEMBERS)]
    axes = tuple(-1 - i % (x.ndim + 1) for i, x in enumerate(members[0]))
    given = [np.stack(xs, axis) for xs, axis in zip(zip(*members, strict=True), axes, strict=True)]
    batched = rlx.vmap(lambda *xs: apply(case.op, *xs, **case.attrs), axes, -1)
    with rlx.config.using(device="reference"), np.errstate(all="ignore"):
        found = rlx.tree.leaves(batched(*map(rlx.array, given)))
        wanted = [interpret(case.graph, member) for member in members]
    wanted = [np.stack(items, -1) for items in zip(*wanted, strict=True)]
    tolerance = max(1e-9, tolerance_of(*case.graph.result_types))
    all_close([np.asarray(x) for x in found], wanted, tolerance, f"batched along {axes}")


@where(lambda case: bool(case.sample.args))
def law_batches_of_one_and_of_none(case: Case) -> None:
    """A batch of one member gives its results, and an empty one has their shapes."""
    graph, arrays = case.graph, case.arrays()
    count = len(arrays)
    for size, batched in itertools.product(
        (0, 1), ([True] * count, [True] + [False] * (count - 1))
    ):
        many, _ = batch_graph(graph, batched, size, [True] * len(graph.results))
        given = [
            np.repeat(x[None], size, 0) if is_batched else x
            for x, is_batched in zip(arrays, batched, strict=True)
        ]
        with np.errstate(all="ignore"):
            got, wanted = interpret(many, given), interpret(graph, arrays)
        wanted = [np.repeat(x[None], size, 0) for x in wanted]
        tolerance = max(1e-9, tolerance_of(*graph.result_types))
        all_close(got, wanted, tolerance, f"a batch of {size}, batched {batched}")


def check_batch(case: Case, graph: Graph, draw: Any) -> Callable[[tuple[int, ...]], Arrays]:
    """Compare a batch with a loop, for subsets of batched arguments.

    Gives the results alone, for the number of a member for each argument.
    """
    count = len(graph.params)
    members = [draw(seed) for seed in range(MEMBERS)]

    @functools.cache
    def alone(chosen: tuple[int, ...]) -> Arrays:
        with np.errstate(all="ignore"):
            return interpret(graph, [members[j][i] for i, j in enumerate(chosen)])

    tolerance = max(1e-9, tolerance_of(*graph.result_types))
    for batched in subsets(count):
        many, _ = batch_graph(graph, batched, MEMBERS, [True] * len(graph.results))
        given = [
            np.stack([m[i] for m in members]) if is_batched else members[0][i]
            for i, is_batched in enumerate(batched)
        ]
        with np.errstate(all="ignore"):
            got = interpret(many, given)
        for j in range(MEMBERS):
            wanted = alone(tuple(j * is_batched for is_batched in batched))
            all_close([x[j] for x in got], wanted, tolerance, f"batched {batched}, member {j}")
    return alone


def subsets(count: int) -> list[list[bool]]:
    """Every choice of one or more of few things; of many, each alone, all, and all but one."""
    if count <= 3:
        return [list(c) for c in itertools.product([False, True], repeat=count) if any(c)]
    alone = [[i == j for j in range(count)] for i in range(count)]
    return [*alone, [True] * count, *([not b for b in row] for row in alone)]


LAWS = [law for name, law in list(vars().items()) if name.startswith("law_")]
