"""Mixed precision: insert the casts of a precision policy into a graph."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.body import Call, Concat, Move, View
from ..ir.builder import rewrite
from ..ir.dims import likely
from ..ir.graph import OPS, Graph, Node, Value
from ..ir.ops.constant import like, uniform
from ..ir.ops.convert import convert
from ..ir.policy import FLOAT_DTYPES, Policy, policy_of
from ..ir.record import field, record
from ..ir.types import NAMES, is_inexact, promote
from .hir.rebuild import again, rebuild
from .work_class import CONTRACTIONS, CONVERT, EXACT, MOVEMENT, NESTED, work_class

Kinds = Counter[tuple[str, str]]


@record
class Precise:
    """A graph with the casts of a policy, and their statistics."""

    graph: Graph
    policy: Policy
    casts: int = 0  # how many there are
    computed: Kinds = field(default_factory=Counter)  # ops by class of work and dtype

    @property
    def report(self) -> str:
        """One line about the casts for reports."""
        rows = sorted(self.computed.items())
        ops = ", ".join(f"{count} {kind} in {dtype}" for (kind, dtype), count in rows)
        return f"precision {self.policy.text}: {self.casts} casts; {ops or 'no op of floats'}"


def has_policies(graph: Graph) -> bool:
    """Whether a nested graph has a policy of its own."""
    return any(_own_policy(node) is not None for node in graph.walk())


def precise(graph: Graph, policy: Policy) -> Precise:
    """Compute each class of ops in the dtype that a policy says for it.

    before: `(x: f32, w: f32) -> add(dot(x, w), 1)`, policy `mixed_bf16`; after: `a =
    convert(x, bf16); b = convert(w, bf16); c = add(dot(a, b), 1); return convert(c, f32)`.

    Parameters and results keep their dtypes, those of nested graphs too. Integers, bools, complex
    numbers and other floats are left alone, and so is what depends on no float parameter (random
    numbers, places, tables): it is computed as it was written, and cast where it is needed. Calls
    with a policy of their own vanish: their nodes follow that one.
    """
    if policy == Policy() and not has_policies(graph):
        return Precise(graph, policy)
    work = _Work(policy)
    made = work.graph(graph)
    casts = sum(1 for node in made.walk() if node in work.casts)
    return Precise(made, policy, casts, work.computed)


def _own_policy(node: Node) -> Policy | None:
    is_call = isinstance(node.op.rules.body, Call)
    text = node.attrs.get("precision") if is_call else None
    return policy_of(text) if text else None


class _Work:
    """The state of the pass: values in other dtypes, and casts made so far."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.casts: set[Node] = set()
        self.computed: Kinds = Counter()
        self.known: dict[tuple[Value, np.dtype], Value] = {}
        self.owned: set[Value] = set()  # values that depend on parameters with a fraction

    def graph(self, graph: Graph) -> Graph:
        """The graph with casts inside; its parameters and results keep their types."""
        outside, self.known = self.known, {}  # a graph may stand in several places
        self.owned.update(p for p in graph.params if is_inexact(p.dtype))
        types = graph.result_types

        def closed(results: list[Value]) -> list[Value]:
            rows = zip(results, types, strict=True)
            return [self.cast(x, t.dtype) if x.dtype != t.dtype else x for x, t in rows]

        made = rebuild(graph, self.visit, closed)
        self.known = outside
        return made

    def visit(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Record a node in the dtype of its class."""
        own = _own_policy(node)
        if own is not None:
            return self._called(node, operands, own)
        if not any(x in self.owned for x in operands):
            return again(node, operands, lambda graph: graph)
        results = self._recorded(node, operands)
        self.owned.update(r for r in results if is_inexact(r.dtype))
        return results

    def _called(self, node: Node, operands: list[Value], own: Policy) -> Sequence[Value]:
        """Inline a call under its own policy, operands and results in written dtypes."""
        graph = node.attrs["graph"]
        if own == self.policy:
            return rewrite(graph, operands, self.visit)
        given = [self.cast(x, p.dtype) for x, p in zip(operands, graph.params, strict=True)]
        with self._under(own):
            found = rewrite(graph, given, self.visit)
        return [self.cast(x, r.dtype) for x, r in zip(found, node.results, strict=True)]

    @contextmanager
    def _under(self, policy: Policy) -> Iterator[None]:
        before, self.policy = self.policy, policy
        yield
        self.policy = before

    def _recorded(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        kind = work_class(node)
        places = [i for i, x in enumerate(operands) if x.dtype in FLOAT_DTYPES]
        if kind == CONVERT and places and node.result.dtype in FLOAT_DTYPES:
            return [self.cast(operands[0], self.policy.dtype("pointwise") or node.result.dtype)]
        if kind in (EXACT, NESTED) or not places:
            types = [a.type for a in node.args]
            written = [self.cast(x, t.dtype) for x, t in zip(operands, types, strict=True)]
            return again(node, written, self.graph)
        if node.op.rules.work_kept is not None:
            kept = node.op.rules.work_kept(**node.attrs)
            places = [i for i in places if i not in kept]
        dtype = self.policy.dtype(kind) or self._widest(operands[i] for i in places)
        given = [self.cast(x, node.args[i].dtype) for i, x in enumerate(operands)]
        for i in places:
            given[i] = self.cast(operands[i], dtype)
        if kind not in (MOVEMENT, CONVERT):
            self.computed[kind, NAMES[dtype]] += 1
        return self._applied(node, given, kind)

    def _applied(self, node: Node, given: list[Value], kind: str) -> Sequence[Value]:
        attrs = node.attrs
        sums = self.policy.dtype("sums") if kind == CONTRACTIONS else None
        if sums is not None and attrs.get("dtype", sums) is None:
            attrs = {**attrs, "dtype": sums}
        is_same = all(x.type == a.type for x, a in zip(given, node.args, strict=True))
        if is_same and attrs is node.attrs:
            return again(node, given, self.graph)
        return node.op.apply(given, attrs)

    def _widest(self, values: Any) -> np.dtype:
        """The widest dtype among values; it must hold those that depend on no parameter."""
        values = list(values)
        dtypes = [x.dtype for x in values if x in self.owned] or [x.dtype for x in values]
        widest = functools.reduce(promote, dtypes)
        odd = [x.dtype for x in values if x not in self.owned and not _holds(widest, x)]
        return functools.reduce(promote, odd, widest)

    # -- casts ------------------------------------------------------------------------------------

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        """Cast a value to a dtype; one node serves all later requests."""
        if x.dtype == dtype:
            return x
        key = (x, dtype)
        if key not in self.known:
            self.known[key] = made = self._cast(x, dtype)
            if x in self.owned:
                self.owned.add(made)
        return self.known[key]

    def _cast(self, x: Value, dtype: np.dtype) -> Value:
        if x not in self.owned and x.dtype in FLOAT_DTYPES:
            number = uniform(x)
            if isinstance(number, float):
                return like(convert(x, dtype=dtype), float(_kept_in_range(number, dtype)))
            if x.constant is not None:
                lift = OPS["constant"].lift
                return lift(_kept_in_range(x.constant, dtype))
        moved = x.node if x.node and dtype.itemsize < x.dtype.itemsize else None
        if moved and _moves_no_more(moved):
            args = [self.cast(a, dtype) if a.dtype == x.dtype else a for a in moved.args]
            return moved.op.apply(args, moved.attrs)[0]
        made = convert(x, dtype=dtype)
        self.casts.add(made.node)
        return made


def _moves_no_more(node: Node) -> bool:
    """Whether a node is movement that does not shrink, so that casts go before it."""
    if not isinstance(node.op.rules.body, View | Move | Concat):
        return False
    floats = [a for a in node.args if a.dtype in FLOAT_DTYPES]
    is_one_dtype = all(a.dtype == node.result.dtype for a in floats)
    return is_one_dtype and sum(map(_size, floats)) <= _size(node.result)


def _holds(dtype: np.dtype, x: Value) -> bool:
    """Whether constants lie in the range of the normal numbers of a dtype."""
    while x.node and isinstance(x.node.op.rules.body, View | Move) and len(x.node.args) == 1:
        x = x.node.args[0]
    number = uniform(x)
    known = x.constant if number is None else np.asarray(number)
    if known is None:
        return True
    sizes = np.abs(known.astype(np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    info = ml_dtypes.finfo(dtype)
    return bool(np.all((float(info.tiny) <= sizes) & (sizes <= float(info.max))))


def _size(x: Value) -> int:
    return likely(x.type.size)


def _kept_in_range(array: Any, dtype: np.dtype) -> np.ndarray:
    """Cast constants so that finite numbers stay finite and nonzero ones nonzero.

    A mask of -1e30 would be -inf in float16, and an epsilon of 1e-8 zero.
    """
    wide, info = np.asarray(array).astype(np.float64), ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        made = wide.astype(dtype).astype(np.float64)
    has_overflown = np.isfinite(wide) & ~np.isfinite(made)
    has_vanished = (wide != 0) & (made == 0)
    made = np.where(has_overflown, np.copysign(float(info.max), wide), made)
    made = np.where(has_vanished, np.copysign(float(info.smallest_subnormal), wide), made)
    return made.astype(dtype)
