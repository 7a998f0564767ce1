"""`rlx.supports`: whether a device runs a function, and how, without a compile."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..backends import registry
from ..ir.builder import build
from ..ir.errors import ArgumentError, RlxError
from ..ir.graph import OPS, Graph
from ..ir.op import Op, Sample
from ..ir.record import field, record
from ..ir.tracebacks import boundary
from ..ir.types import Type, as_dtype, is_bool, is_complex, is_inexact, is_integer, type_of
from ..lower.target import EXPANDED, LIBRARY, NATIVE
from ..trace.make_graph import trace
from .devices import Device
from .options import CompileOptions
from .session import default_session

# -- the samples of ops as arrays: what checks of devices and rooms run on ------------------------

Arrays = list[np.ndarray]
SWEPT = ("bool", "int8", "int32", "uint8", "uint32", "int64", "float16", "bfloat16", "float32")
SWEPT = (*SWEPT, "float64", "complex64", "complex128")


@record
class Case:
    """One sample of an op, with random numbers where it gives shapes."""

    op: Op
    sample: Sample

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes, defaults filled in."""
        return self.op.complete(self.sample.attrs)

    def arrays(self, seed: int = 0) -> Arrays:
        """The operands."""
        random = np.random.default_rng(seed)
        return [self.array(arg, random) for arg in self.sample.args]

    def array(self, arg: Any, random: np.random.Generator) -> np.ndarray:
        """One operand, of which the sample says a shape, a type or the numbers."""
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

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph that applies the op once."""
        return graph_of(self.op, self.arrays(), self.attrs)

    def swept(self, names: Sequence[str] = SWEPT) -> Iterator[tuple[str, Arrays]]:
        """The operands in each of many dtypes that the op takes."""
        for name in names:
            arrays = self.in_dtype(name)
            if arrays is not None:
                yield name, arrays

    def in_dtype(self, name: str, seed: int = 0) -> Arrays | None:
        """The operands in a dtype, or None if the op does not take it.

        Only operands of the dtype of the first inexact one (else of the first) change.
        """
        arrays = self.arrays(seed)
        main = next((x.dtype for x in arrays if is_inexact(type_of(x).dtype)), None)
        main = main or (arrays[0].dtype if arrays else None)
        changed = [cast(x, name) if x.dtype == main else x for x in arrays]
        return changed if self.takes(changed) else None

    def takes(self, arrays: Arrays) -> bool:
        """Whether the op has a type for these arrays."""
        try:
            graph_of(self.op, arrays, self.attrs)
        except RlxError:
            return False
        return True


def numbers(type: Type, random: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Random floats or complex numbers."""
    x = random.uniform(low, high, type.shape)
    if is_complex(type.dtype):
        x = x + 1j * random.uniform(low, high, type.shape)
    return np.asarray(x).astype(type.dtype)


def graph_of(op: Op, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> Graph:
    """The graph that applies an op once."""
    return build(lambda *xs: op.apply(xs, attrs), [type_of(x) for x in arrays], op.name)


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """The array in another dtype: whole and not negative where it must be."""
    dtype = as_dtype(name)
    if is_complex(x.dtype) and not is_complex(dtype):
        x = np.real(x)
    if is_integer(dtype) and not is_integer(x.dtype):
        x = np.nan_to_num(x.astype(np.float64), posinf=9, neginf=-9)
        x = np.abs(np.rint(x)) if dtype.kind == "u" else np.rint(x)
        x = np.clip(x, -100, 100)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def tolerance_of(*types: Type) -> float:
    """A few roundings of the least exact dtype; integers must be equal."""
    inexact = [t.dtype for t in types if t.is_inexact]
    return max((8 * float(ml_dtypes.finfo(d).eps) for d in inexact), default=0.0)


TOLD = {NATIVE: "native", EXPANDED: "written in simpler ops", LIBRARY: "on the host, by a library"}


@record
class Support:
    """Whether a device runs a function, and what becomes of each op; it is true if so.

    `ways` counts the ops of each way by their names: `native`; `expanded`, written in simpler ops;
    `library`, computed on the host by NumPy. If the device refuses it, `reason` says which op or
    dtype is the first one in the way.
    """

    device: str
    name: str
    ways: Mapping[str, Counter[str]] = field(default_factory=dict)
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.device} cannot run it: {self.reason}"
        lines = [f"{self.name}: {self.device} can run it"]
        lines += [f"  {TOLD[way]}: {_told(ops)}" for way, ops in self.ways.items() if ops]
        return "\n".join(lines)

    __repr__ = __str__


@boundary
def supports(device: str, fn: Callable[..., Any] | Graph, *specs: Any, **named: Any) -> Support:
    """Whether a `device` can run `fn` with such arguments; compiles nothing.

    `specs` are arrays or `rlx.spec`s, `named` those passed by keyword. What it returns is true or
    false; printed, it tells which ops run natively, which are written in simpler ones, and which
    NumPy computes on the host; or why the device refuses the function. A device that is not here
    runs nothing.

    >>> import rlx, rlx.numpy as rnp
    >>> print(supports("cpu", lambda x: rnp.linalg.svd(x)[1].sum(), rlx.spec((40, 40))))
    <lambda>: cpu can run it
      native: reduce_sum
      on the host, by a library: svd
    >>> bool(supports("cpu", rnp.sin, rlx.spec((4,))))
    True
    """
    graph = fn if isinstance(fn, Graph) else trace(fn, specs, named).graph
    return _support(Device(device), graph)


def _support(device: str, graph: Graph) -> Support:
    found = registry.availability(device)
    if not found.is_available:
        return Support(device, graph.name, {}, f"{found.reason} ({found.install})")
    try:
        ways = default_session(device).examine(graph, CompileOptions())
    except RlxError as error:
        return Support(device, graph.name, {}, error.what)
    return Support(device, graph.name, ways)


def of_op(device: str, op: Op | str) -> Support:
    """Whether a device can run an op, by its samples in float32."""
    room = OPS.get(op) if isinstance(op, str) else op
    if not isinstance(room, Op) or not room.sample_list:
        raise ArgumentError(
            f"there is no op {op!r} with samples",
            fix="name an op of rlx.ir.ops, as sin or sort; "
            "rlx.supports(device, f, *specs) tells of any function",
        )
    cases = [Case(room, sample) for sample in room.sample_list]
    graphs = [graph_of(room, c.in_dtype("float32") or c.arrays(), c.attrs) for c in cases]
    made = [_support(device, graph) for graph in graphs]
    fitting = [each for each in made if each]
    if not fitting:
        return Support(device, room.name, {}, made[0].reason)
    ways = {way: Counter[str]() for way in TOLD}
    for each in fitting:
        for way, ops in each.ways.items():
            ways[way] |= ops
    return Support(device, room.name, ways)


def _told(ops: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in sorted(ops.items()))
