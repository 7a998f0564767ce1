"""`rlx.verify`: compare a compiled function with its ops, one by one.

The recorded graph runs op by op through the references, and compiled for each device. Where they
disagree, each op runs alone on the numbers that it had, then longer and longer parts of the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import ml_dtypes
import numpy as np

from ..ir.body import Contract, Reduce, Scan, Scatter
from ..ir.builder import build
from ..ir.errors import ArgumentError, DivergenceError
from ..ir.graph import Graph, Node, Value
from ..ir.interpret import interpret, watched
from ..ir.number_check import described
from ..ir.policy import AS_WRITTEN
from ..ir.record import record, replace
from ..ir.text import show
from ..ir.tracebacks import boundary
from ..ir.types import as_dtype, is_complex, is_inexact, type_of
from ..ir.verify import verify as verify_graph
from ..lower.hir import drop_dead, inline_calls
from ..lower.hir.rebuild import rebuild
from ..runtime.arrays import prepare
from ..runtime.precision import with_own_policies
from ..runtime.session import CompileOptions, Session
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import members
from ..trace.array import Array
from ..trace.make_graph import function_name, titled, trace
from ..trace.tensor import TracedTensor

TOGETHER = 64  # ops alone that are compiled as one program
RUNS = 2  # of an op in a loop that are looked at
PLAIN = CompileOptions(precision=AS_WRITTEN)  # the meaning of a graph is what was written
SUMS = (Contract, Reduce, Scan, Scatter)


@record
class Verification:
    """What agreed: for each device the largest difference, in units of the tolerance."""

    name: str
    results: int
    largest: dict[str, float]

    def __str__(self) -> str:
        found = ", ".join(f"{device} {worst:.2g}" for device, worst in self.largest.items())
        agree = f"{self.name}: results agree ({self.results})"
        return f"{agree}; largest difference / tolerance: {found}"


@record
class _Run:
    """One run of an op with its numbers."""

    node: Node
    operands: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]


@overload
def verify(fn: Graph) -> Graph: ...


@overload
def verify(
    fn: Callable[..., Any],
    *,
    devices: Sequence[str] = ...,
    rtol: float | None = ...,
    atol: float | None = ...,
) -> Callable[..., Verification]: ...


def verify(
    fn: Graph | Callable[..., Any],
    *,
    devices: Sequence[str] = ("cpu", "reference"),
    rtol: float | None = None,
    atol: float | None = None,
) -> Graph | Callable[..., Verification]:
    """Return a function that compares compiled `fn` with `fn` run op by op.

    Where all `devices` agree it gives a report. Else a `DivergenceError` names the first op that
    differs, its line, its operands, and how far it is off; `error.graph` is a graph that shows it,
    and `error.replay()` runs that again. The tolerances `rtol` and `atol` come from the dtypes
    unless given: for results the square root of the dtype's epsilon, for one op its power of 3/4,
    relative to the largest number, and for sums to the sum of magnitudes. Integers must be equal.
    The function runs several times, so it should have no effects; it takes arrays, and traced ones
    are an `ArgumentError`. A graph instead of a function is checked itself, every node and nested
    graph: it is given back, or a `VerifyError` says what is wrong.

    >>> import rlx
    >>> report = verify(lambda x: rlx.numpy.tanh(x).sum())(rlx.numpy.ones(3))
    >>> sorted(report.largest)
    ['cpu', 'reference']
    """
    if isinstance(fn, Graph):
        verify_graph(fn)
        return fn
    sessions = [Session(device) for device in members("verify: devices", devices)]

    @boundary
    @functools.wraps(fn)
    def verified(*args: Any, **kwargs: Any) -> Verification:
        leaves = pytree.leaves((args, kwargs))
        if any(isinstance(x, TracedTensor) for x in leaves):
            raise ArgumentError(
                "verify needs numbers, its function is being traced",
                fix="verify the transformed function: rlx.verify(rlx.grad(f)), without jit",
            )
        traced = trace(fn, args, kwargs)
        graph = drop_dead(inline_calls(with_own_policies(traced.graph)))
        arrays = prepare(graph.params, [*leaves, *traced.captures], graph.name)
        wanted = interpret(graph, arrays)
        tolerance = Tolerance(0.5, rtol, atol)
        worst = {}
        for session in sessions:
            found = _run(session, graph, arrays)
            worst[session.device] = _most(tolerance, found, wanted)
            if worst[session.device] > 1:
                raise _divergence(session, graph, arrays, tolerance)
        # arrays in place of NumPy's, so that no op is NumPy's
        own = pytree.map(lambda x: as_tensor(x) if isinstance(x, np.ndarray) else x, (args, kwargs))
        at_once = pytree.leaves(fn(*own[0], **own[1]))
        _check_recording(fn, graph, at_once, wanted, tolerance)
        return Verification(function_name(fn), len(wanted), worst)

    verified.__qualname__ = titled("verify", fn)
    return verified


def _check_recording(
    fn: Callable[..., Any],
    graph: Graph,
    results: Sequence[Any],
    recorded: Sequence[np.ndarray],
    tolerance: Tolerance,
) -> None:
    """Raise if the recorded graph means something else than the function, whatever runs it."""
    wanted = [(x if isinstance(x, Array) else Array(np.asarray(x))).host() for x in results]
    if [type_of(x) for x in wanted] == list(graph.result_types):
        worst = _most(tolerance, recorded, wanted)
        if worst <= 1:
            return
        what = f"the results differ by {worst:.3g} times the tolerance"
    else:
        types = (", ".join(str(type_of(x)) for x in xs) for xs in (recorded, wanted))
        what = "recorded it gives {}, run at once {}".format(*types)
    raise DivergenceError(
        f"{function_name(fn)} means something else when it is recorded: {what}",
        fix="its Python code must not depend on being recorded, on time or on earlier calls",
        graph=graph,
    )


def _run(session: Session, graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    results = session.compile(graph, options=PLAIN)(*arrays)
    return [x.host() for x in (results if isinstance(results, tuple) else (results,))]


def _most(tolerance: Tolerance, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    pairs = zip(found, wanted, strict=True)
    return max((tolerance.difference(x, y, scale_of(y))[0] for x, y in pairs), default=0.0)


# -- where it begins ------------------------------------------------------------------------------


def _divergence(
    session: Session,
    graph: Graph,
    arrays: Sequence[np.ndarray],
    tolerance: Tolerance,
) -> DivergenceError:
    """The error for a graph whose results differ on a device."""
    runs = _record(graph, arrays)
    for start in range(0, len(runs), TOGETHER):
        error = _wrong_op(session, runs[start : start + TOGETHER])
        if error is not None:
            return error
    return _wrong_together(session, graph, arrays, runs, tolerance)


def _record(graph: Graph, arrays: Sequence[np.ndarray]) -> list[_Run]:
    """The runs of the ops, nested ones first; ops with graphs are seen through their insides."""
    runs: list[_Run] = []
    count: dict[Node, int] = {}

    def watch(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        count[node] = count.get(node, 0) + 1
        if count[node] <= RUNS and not node.graphs and not node.op.rules.calls_python:
            runs.append(_Run(node, tuple(operands), tuple(results)))

    with watched(watch):
        interpret(graph, arrays)
    return runs


def _wrong_op(session: Session, runs: Sequence[_Run]) -> DivergenceError | None:
    """The error of the first op that differs when it runs alone, all in one program."""
    places = np.cumsum([0, *(len(run.operands) for run in runs)])

    def each_alone(*xs: Value) -> list[Value]:
        results: list[Value] = []
        for run, start, end in zip(runs, places, places[1:], strict=False):
            results += run.node.op.apply(xs[start:end], run.node.attrs)
        return results

    operands = [x for run in runs for x in run.operands]
    together = build(each_alone, [type_of(x) for x in operands], "ops")
    given = iter(_run(session, together, operands))
    for run in runs:
        found = [next(given) for _ in run.results]
        for x, y in zip(found, run.results, strict=True):
            scale = scale_of(y, run.node, run.operands)
            worst, place = Tolerance(0.75).difference(x, y, scale)
            if worst > 1:
                return _told(session, run, x, y, worst, place, _alone(run), run.operands)
    return None


def _alone(run: _Run) -> Graph:
    """A graph of one op."""
    types = [type_of(x) for x in run.operands]
    names = run.node.op.operand_names
    return build(lambda *xs: run.node.op.apply(xs, run.node.attrs), types, run.node.op.name, names)


def _wrong_together(
    session: Session,
    graph: Graph,
    arrays: Sequence[np.ndarray],
    runs: Sequence[_Run],
    tolerance: Tolerance,
) -> DivergenceError:
    """The error of the first op whose result differs though no op does alone.

    Found by halving: if one differs, one at the half before it does or not.
    """
    known: dict[Node, list[np.ndarray]] = {}

    def watch(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        known[node] = list(results)

    with watched(watch):
        interpret(graph, arrays)

    def look(number: int) -> tuple[float, Any, Any, Any, Graph]:
        part = _until(graph, graph.nodes[number])
        rows = []
        results = zip(_run(session, part, arrays), known[graph.nodes[number]], strict=True)
        for x, y in results:
            worst, place = tolerance.difference(x, y, scale_of(y))
            rows.append((worst, place, x, y, part))
        return max(rows, key=lambda row: row[0])

    numbers = [i for i, node in enumerate(graph.nodes) if node.results]
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        if look(numbers[middle])[0] > 1:
            high = middle
        else:
            low = middle + 1
    worst, place, x, y, part = look(numbers[low])
    node = graph.nodes[numbers[low]]
    table = dict(zip(graph.params, arrays, strict=True))
    table.update((r, a) for n, rs in known.items() for r, a in zip(n.results, rs, strict=True))
    operands = tuple(table[a] for a in node.args)
    return _told(session, _Run(node, operands, ()), x, y, worst, place, part, arrays)


def _until(graph: Graph, node: Node) -> Graph:
    """The graph that gives the results of one of its nodes."""
    part = replace(graph, results=list(node.results))
    return drop_dead(rebuild(part, lambda n, operands: n.op.apply(operands, n.attrs)))


def _told(
    session: Session,
    run: _Run,
    found: np.ndarray,
    wanted: np.ndarray,
    worst: float,
    place: tuple[int, ...],
    graph: Graph,
    arrays: Sequence[np.ndarray],
) -> DivergenceError:
    name, device = run.node.op.name, session.device
    at = f" at {list(place)}" if place else ""
    is_alone = len(graph.nodes) == 1
    notes = [described(i, x, found.shape, place) for i, x in enumerate(run.operands)]
    notes += ["", *show(graph, sources=False).splitlines()]
    return DivergenceError(
        f"{name} on {device} gives {found[place]!s}{at} of {type_of(found)}, its reference "
        f"{wanted[place]!s}: {worst:.3g} times the tolerance",
        where=str(run.node.source),
        notes=notes,
        fix=f"correct the room of {name} or the device {device}; error.replay() runs this again"
        if is_alone
        else f"alone no op differs: look at what merges {name} with others (RLX_DUMP=dir writes "
        "each pass); error.replay() runs this again",
        graph=graph,
        arrays=arrays,
        replay=lambda: (_run(session, graph, arrays), interpret(graph, arrays)),
    )


# -- how far two arrays are apart, in units of what rounding explains ---------------------------


@record
class Tolerance:
    """What may differ: `rtol` of the scale, and `atol`."""

    power: float  # of the dtype's epsilon, which is taken without `rtol`
    rtol: float | None = None
    atol: float | None = None

    def difference(
        self, found: np.ndarray, wanted: np.ndarray, scale: np.ndarray
    ) -> tuple[float, tuple[int, ...]]:
        """The largest difference in units of the tolerance, and its place.

        NaN equals NaN, an infinity itself; other numbers that are not equal are infinitely far
        from them, and so are two integers.
        """
        if not wanted.size:
            return 0.0, ()
        is_same = (found == wanted) | ((found != found) & (wanted != wanted))
        if not is_inexact(as_dtype(wanted.dtype)):
            units = np.where(is_same, 0.0, np.inf)
        else:
            wide = np.complex128 if is_complex(as_dtype(wanted.dtype)) else np.float64
            rtol = epsilon(wanted.dtype) ** self.power if self.rtol is None else self.rtol
            tiny = float(ml_dtypes.finfo(wanted.dtype).tiny)
            with np.errstate(all="ignore"):
                allowed = np.maximum(rtol * scale, tiny) + (self.atol or 0.0)
                units = np.abs(found.astype(wide) - wanted.astype(wide)) / allowed
            units = np.where(is_same, 0.0, np.where(np.isnan(units), np.inf, units))
        place = np.unravel_index(int(np.argmax(units)), units.shape)
        return float(units[place]), tuple(map(int, place))


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtype).eps)


def scale_of(
    wanted: np.ndarray, node: Node | None = None, operands: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """The scale of differences: the largest finite magnitude, or for sums that of all."""
    if not is_inexact(as_dtype(wanted.dtype)) or not wanted.size:
        return np.ones(wanted.shape)
    body = node.op.rules.body if node else None
    if node is not None and isinstance(body, SUMS):
        magnitudes = [np.abs(x) if is_inexact(as_dtype(x.dtype)) else x for x in operands]
        added = node.op.run(magnitudes, node.attrs)[0]
        return np.abs(added).astype(np.float64)
    sizes = np.abs(wanted).astype(np.float64)
    finite = sizes[np.isfinite(sizes)]
    return np.full(wanted.shape, finite.max() if finite.size else 1.0)
