"""Fusion decisions: which values are stored, and which are recomputed in kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...ir.body import (
    AsParts,
    Blocks,
    Concat,
    Contract,
    Fill,
    FromParts,
    Gather,
    Move,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Sort,
    View,
)
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ...ir.record import field, record
from ..legalize import needs_library
from ..lir.expr import INSTRUCTIONS, Load, is_view
from ..lir.index import Index, Variable, as_index
from ..lir.program import Buffer
from ..target import Target
from .elements import Elements, Place, flatten, loops_of, unflatten
from .traffic import STORE_COST, Site, Traffic

INLINE = (Pointwise, Move, View, Fill, Gather, Reduce)
MOST_SITES = 16  # more places of use than this: not worth following
DEEPEST = 60  # operations on one path through a kernel, a bound for code size and recursion
SHORTEST_LINE = 48  # rows or columns of a matrix that is a part of a larger one
LARGEST_SLICE = 3  # store for a contraction what it reads a slice of, if it is no larger
LEAST_SAVED = 2  # an operand has so many times the bytes of what a contraction computes it from
SCALAR_COST = 60  # a single number is computed again up to this cost: it leaves the loops


@record(frozen=False)
class Fusion:
    """Which values are stored in memory; all others are fused into their users."""

    library: set[Node]  # calls of their NumPy references
    stored: set[Value] = field(default_factory=set)
    missed: dict[Value, str] = field(default_factory=dict)  # stored value -> why it did not fuse
    forced: set[Value] = field(default_factory=set)  # those that must be in memory
    prologues: set[Value] = field(default_factory=set)  # operands that products compute themselves
    epilogues: dict[Value, Value] = field(default_factory=dict)  # stored value -> its contraction
    paths: dict[Value, tuple[Node, ...]] = field(default_factory=dict)  # the moves between the two


def fuse(graph: Graph, target: Target) -> Fusion:
    """Decide which values are stored; all others are fused into their users.

    Pointwise ops, movement, gathers, fills and reductions are computed where they are used, as
    long as that costs no more than storing and loading them. Results of the graph and operands of
    library calls and control flow are always stored.
    """
    return _Fuser(graph, target).run()


class _Fuser:
    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.users = graph.users()
        self.fusion = Fusion(library={n for n in graph.nodes if needs_library(n, target)})
        self.inline = {
            result
            for node in graph.nodes
            if isinstance(node.op.rules.body, INLINE) and node not in self.fusion.library
            for result in node.results
        }
        self.forced: dict[Value, str] = {}
        self.cost: dict[Value, float] = {}
        self.sites: dict[Value, dict[Site, float]] = {}
        self.result_memory = {memory_of(r, target) for r in graph.results}
        self.reducing: dict[Value, bool] = {}  # of the kernels looked at for epilogues
        self.known: set[Value] = set()  # what the round before has stored
        self.traffic = Traffic(graph, self.inline)

    def run(self) -> Fusion:
        self.force()
        stored = set(self.forced)
        # The first round takes every producer as computed again, which overstates costs; the
        # second knows what the first has stored.
        for _ in range(2):
            self.measure(stored)
            self.known = stored
            stored = self.decide()
        self.fusion.stored, self.fusion.forced = stored, set(self.forced)
        self.cut_deep_kernels()
        for node in self.graph.nodes:
            self.find_epilogue(node)
        return self.fusion

    def cut_deep_kernels(self) -> None:
        """Store intermediate values of kernels that would be too deep."""
        depth: dict[Value, int] = {}
        for value in (r for node in self.graph.nodes for r in node.results):
            if not self.is_inline(value):
                continue
            inner = (a for a in maker(value).args if a not in self.fusion.stored)
            depth[value] = 1 + max((depth.get(a, 0) for a in inner), default=0)
            if depth[value] > DEEPEST and value not in self.fusion.stored:
                self.fusion.missed[value] = f"its kernel would be over {DEEPEST} operations deep"
                self.fusion.stored.add(value)
        for node in reversed(self.graph.nodes):
            for value in node.results:
                self.sites[value] = self.find_sites(value, self.fusion.stored)

    # -- epilogues of contractions ---------------------------------------------------------------

    def find_epilogue(self, node: Node) -> None:
        """Make the only kernel that reads a contraction, element by element, its epilogue."""
        body = node.op.rules.body
        if not isinstance(body, Contract) or node in self.fusion.library:
            return
        if "epilogues" not in self.target.fuses:
            return
        if not has_static_columns(node):
            return
        total = node.result
        sites = self.sites[total]
        if len(sites) != 1 or total in self.result_memory:
            return
        (root, path), *_ = sites
        if self.is_padded(total, path):
            root, path = path[-1].args[0], ()
            self.fusion.stored.add(root)
        if root not in self.fusion.stored or root.type.size != total.type.size:
            return
        if not all(isinstance(step.op.rules.body, View | Move) for step in path):
            return
        if not keeps_matrices(node, path, root):
            return
        if root not in self.reducing:
            self.reducing[root] = self.has_reduction(root)
        if self.reducing[root]:
            return
        self.fusion.epilogues[root] = total
        self.fusion.paths[root] = path

    def is_padded(self, total: Value, path: Sequence[Node]) -> bool:
        """Whether the path from a contraction ends in padding.

        The epilogue then stores the unpadded value; a copy into padding costs little.
        """
        if not path or not isinstance(path[-1].op.rules.body, Move) or len(path[-1].args) != 2:
            return False
        (value, fill), is_static = path[-1].args, isinstance(total.type.size, int)
        is_inner = value.shape == total.shape and value is not total and is_known(fill)
        return self.target.computes_operands and is_static and is_inner

    def has_reduction(self, root: Value) -> bool:
        """Whether the kernel of a value holds a reduction or a gather."""
        seen: set[Value] = set()
        stack = [root]
        while stack:
            value = stack.pop()
            if isinstance(body_of(value), Reduce | Gather):
                return True
            seen.add(value)
            inner = (a for a in maker(value).args if a not in seen and a not in self.fusion.stored)
            stack += filter(self.is_inline, inner)
        return False

    # -- what must be stored ---------------------------------------------------------------------

    def is_inline(self, value: Value) -> bool:
        """Whether a value can be fused into the kernels that read it."""
        return value in self.inline

    def force(self) -> None:
        for result in self.graph.results:
            self.store(result, "it is a result")
        for node in self.graph.nodes:
            body = node.op.rules.body
            fuses = isinstance(body, (*INLINE, Blocks, Scan, Scatter, Sort, Concat, FromParts))
            in_memory = isinstance(body, AsParts) or node in self.fusion.library
            if fuses and not in_memory:
                continue
            for number, arg in enumerate(node.args):
                if isinstance(body, Contract) and self.is_prologue(node, number):
                    self.fusion.prologues.add(arg)
                    continue
                origin = self.read_in_place(node, number) if isinstance(body, Contract) else None
                self.store(origin or arg, f"{node.op.name} reads it from memory")

    def is_prologue(self, node: Node, number: int) -> bool:
        """Whether a contraction computes an operand itself, which then needs no memory.

        It does where that is made of few bytes, such as those of numbers in few bits: to store it
        would take longer than to compute it, as often as the contraction does.
        """
        arg, target = node.args[number], self.target
        sizes = [n for a in node.args for n in a.shape]
        if "producers" not in target.fuses or not all(isinstance(n, int) for n in sizes):
            return False
        if not target.contracts(target.arithmetic(node.result.dtype)) or arg in self.graph.results:
            return False
        contracted, _ = axes_of(node)
        depth = math.prod(arg.shape[axis] for axis in contracted[number])
        if target.batch_invariant and len(contracted[number]) > 1:
            return False  # the order of the axes would depend on how often it is used
        if node.result.type.size * depth > target.most_uses * arg.type.size:
            return False
        if not self.is_inline(arg) or len(self.users[arg]) > 1 or not arg.type.size:
            return False
        return self.bytes_behind(arg) * LEAST_SAVED <= arg.type.nbytes

    def bytes_behind(self, value: Value) -> float:
        """The bytes of what a value is computed from; infinite if that takes reductions."""
        found, seen, stack = 0.0, set[Value](), [value]
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.node is None or not self.is_inline(value):
                found += value.type.nbytes
            elif isinstance(body_of(value), Reduce):
                return math.inf
            else:
                stack += maker(value).args
        return found

    def read_in_place(self, node: Node, number: int) -> Value | None:
        """The value behind movement that a contraction can read by strides alone."""
        arg = origin = node.args[number]
        while self.is_inline(origin) and isinstance(body_of(origin), Move | View):
            origin, *fills = maker(origin).args
            if not all(is_known(fill) for fill in fills):
                return None
        if origin is arg or not arg.type.size:
            return None
        if ratio(origin, arg) > LARGEST_SLICE and self.is_inline(origin):
            return None
        buffers = {origin: Buffer("", origin.type, "temporary")}
        _, place = loops_of(arg.shape)
        element = Elements(self.target, buffers, lambda value: buffers[value]).at(arg, place)
        sizes = [n for a in node.args for n in a.shape]
        if self.target.computes_operands and all(isinstance(n, int) for n in sizes):
            return origin if is_view(element) and self.target.contracts(node.result.dtype) else None
        contract, _ = axes_of(node)
        depth = [place[axis] for axis in contract[number]]
        return origin if isinstance(element, Load) and is_joint(element.index, depth) else None

    def store(self, value: Value, reason: str) -> None:
        """Force a value, or the value that it is a view of, into memory."""
        value = memory_of(value, self.target)
        if self.is_inline(value):
            self.forced.setdefault(value, reason)

    # -- what it costs to compute again ----------------------------------------------------------

    def measure(self, stored: set[Value]) -> None:
        """Compute the cost of recomputing each value, given the stored ones."""
        self.cost.clear()
        for value in (r for node in self.graph.nodes for r in node.results):
            if not self.is_inline(value):
                continue
            args = maker(value).args
            body = body_of(value)
            is_reduce = isinstance(body, Reduce)
            inner = [a for a in args if self.is_inline(a) and a not in stored]
            shares = [ratio(a, value) for a in args]
            loads = (
                0.0
                if is_reduce
                else sum(
                    min(1.0, share) for a, share in zip(args, shares, strict=True) if a not in inner
                )
            )
            times = max(1.0, *shares) if is_reduce else 1.0
            total = sum(self.cost[a] for a in inner) * times
            self.cost[value] = cost_of(body, value) + loads + total

    # -- where it is used ------------------------------------------------------------------------

    def decide(self) -> set[Value]:
        """Decide value by value, from the results back to the operands."""
        stored = set(self.forced)
        self.fusion.missed = dict(self.forced)
        self.sites.clear()
        for node in reversed(self.graph.nodes):
            for value in node.results:
                self.sites[value] = self.find_sites(value, stored)
                if not self.is_inline(value) or value in stored:
                    continue
                reason = self.reason_to_store(value)
                if reason:
                    self.fusion.missed[value] = reason
                    stored.add(value)
        return stored

    def find_sites(self, value: Value, stored: set[Value]) -> dict[Site, float]:
        """Every kernel that would compute the value, and how often for each element."""
        found: dict[Site, float] = {}
        for user in self.users.get(value, ()):
            body = user.op.rules.body
            result = user.results[0] if user.results else value
            if not self.is_inline(result):
                found[(result, (user,))] = 1.0
                continue
            is_here = result in stored
            onward = {(result, ()): 1.0} if is_here else self.sites.get(result, {})
            if isinstance(body, Pointwise):
                step: tuple[Node, ...] = ()
                factor = 1.0
            else:
                step = (user,)
                factor = max(1.0, ratio(result, value))
            for (root, path), times in onward.items():
                site = (root, path + step)
                found[site] = max(found.get(site, 0.0), times * factor)
                if len(found) > MOST_SITES:
                    return found
        return found

    def reason_to_store(self, value: Value) -> str:
        """Why storing a value beats recomputing it; empty if it does not."""
        body = body_of(value)
        sites = self.sites[value]
        if isinstance(body, Fill) or not sites:
            return ""
        if all(isinstance(body_of(root), Contract) for root, _ in sites):
            return ""  # a part of an operand that a contraction computes itself
        if "producers" not in self.target.fuses and not isinstance(body, View):
            return "operations are not to be fused into others"
        if isinstance(body, Reduce):
            is_plain = len(sites) == 1 and all(not path for _, path in sites)
            return "" if is_plain else "a reduction whose result is not used just once"
        times, cost = sum(sites.values()), self.cost[value]
        if times <= 1 or (len(sites) > MOST_SITES and not cost):
            return ""
        if isinstance(body, Move) and all(ratio(a, value) < 1 for a in maker(value).args):
            return ""  # if anything is stored, then what it repeats, which is smaller
        if value.type.size == 1 and cost <= SCALAR_COST:
            return ""
        if times * cost <= cost + STORE_COST + times:
            return ""
        if len(sites) <= MOST_SITES and self.traffic.favors_again(value, sites, self.known):
            return ""
        return f"computing it {times:.3g} times costs more than storing it"


def maker(value: Value) -> Node:
    """The node of a value that is not a parameter."""
    assert value.node is not None
    return value.node


def body_of(value: Value) -> object:
    """The body of the op that makes a value."""
    return maker(value).op.rules.body


def is_known(value: Value) -> bool:
    """Whether a value is a constant or a fill, which needs no memory of its own."""
    return value.constant is not None or (
        value.node is not None and isinstance(body_of(value), Fill)
    )


def memory_of(value: Value, target: Target) -> Value:
    """The value in whose memory a value lies; a view lies in that of its operand."""
    while value.node is not None and isinstance(body_of(value), View):
        if needs_library(value.node, target):
            break
        value = value.node.args[0]
    return value


def cost_of(body: object, value: Value) -> float:
    """The cost of one element of a value, without its operands."""
    if isinstance(body, Pointwise):
        return INSTRUCTIONS[body.instruction][0]
    if isinstance(body, Reduce):
        (arg,) = maker(value).args
        return 2.0 * ratio(arg, value)
    return 2.0 if isinstance(body, Gather) else 0.0


def has_static_columns(node: Node) -> bool:
    """Whether all sizes of a contraction but rows and batches are static."""
    contracted, batch = axes_of(node)
    inner = [n for i, n in enumerate(node.args[1].shape) if i not in batch[1] or i in contracted[1]]
    return all(isinstance(n, int) for n in inner)


def keeps_matrices(node: Node, path: Sequence[Node], root: Value) -> bool:
    """Whether movement keeps a contraction's result in whole matrices.

    Its lines must stay contiguous, and long enough where one matrix is split into several.
    """
    if all(isinstance(step.op.rules.body, View) for step in path):
        return True
    loops, place = loops_of(node.result.shape)
    carried = carried_place(path, place)
    out = flatten(carried, root.shape) if carried else None
    if out is None or not out.is_affine:
        return False
    (contracted, _), (batch, _) = axes_of(node)
    first = len(batch)
    last = first + node.args[0].rank - len(batch) - len(contracted)
    sides = [
        merged([v for v in loops if as_index(v) in side], [out])
        for side in (place[first:last], place[last:])
    ]
    if not any(out.stride_of(run[-1]) == 1 for runs in sides for run in runs):
        return False
    return all(len(runs) < 2 or length_of(runs, out) >= SHORTEST_LINE for runs in sides)


def length_of(runs: Sequence[Sequence[Variable]], out: Index) -> int:
    """How many rows or columns a matrix keeps: the contiguous ones, or the most."""
    dense = [run for run in runs if out.stride_of(run[-1]) == 1]
    return max(math.prod(likely(v.extent) for v in run) for run in dense or runs)


def axes_of(node: Node) -> tuple:
    """The contracted axes of both operands, and the batch axes of both."""
    return node.op.rules.body.axes([a.type for a in node.args], **node.attrs)


def ratio(value: Value, other: Value) -> float:
    """The ratio of the sizes of two values."""
    return likely(value.type.size) / max(1, likely(other.type.size))


def is_joint(index: Index, parts: Sequence[Index]) -> bool:
    """Whether an affine index steps through nested loops as if they were one."""
    if not index.is_affine:
        return False
    variables = [v for part in parts for v in part.variables]
    steps = [(index.stride_of(v), v.extent) for v in variables]
    steps.sort(key=lambda step: (likely(step[0]), likely(step[1])))
    return all(wide == narrow * extent for (narrow, extent), (wide, _) in itertools.pairwise(steps))


def carried_place(path: Sequence[Node], place: Place) -> Place | None:
    """The place of an element after a path of movement, or None.

    The last node of the path is the first to move it. None stands for a path on which a node does
    more than regroup or permute axes.
    """
    for node in reversed(path):
        if isinstance(node.op.rules.body, View):
            place = unflatten(flatten(place, node.args[0].shape), node.result.shape)
            continue
        axes = _permutation(node)
        if axes is None:
            return None
        place = tuple(place[axis] for axis in axes)
    return place


def _permutation(node: Node) -> list[int] | None:
    """The permutation of axes that a movement is, or None."""
    body, rank = node.op.rules.body, node.result.rank
    if len(node.args) != 1 or node.args[0].rank != rank:
        return None
    if node.args[0].type.size != node.result.type.size:
        return None
    variables = [Variable(2) for _ in range(rank)]
    # bodies see the sizes of operands and attributes only, so the variables may be short
    read = body.read(tuple(map(as_index, variables)), [node.args[0].type], **node.attrs)
    if read.guards or read.strides or read.otherwise is not None:
        return None
    places = [as_index(i) for i in read.index]
    axes = [places.index(as_index(v)) for v in variables if as_index(v) in places]
    return axes if len(axes) == rank else None


def merged(variables: Sequence[Variable], indices: Sequence[Index]) -> list[list[Variable]]:
    """Merge neighboring variables that step through all indices as one would."""
    runs: list[list[Variable]] = []
    for variable in variables:
        if runs and all(
            index.stride_of(runs[-1][-1]) == index.stride_of(variable) * variable.extent
            for index in indices
        ):
            runs[-1].append(variable)
        else:
            runs.append([variable])
    return runs
