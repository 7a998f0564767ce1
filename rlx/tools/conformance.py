"""Conformance of a backend: every op compared with its reference."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from ..ir.errors import ArgumentError, DivergenceError, UnsupportedDtype, UnsupportedOp
from ..ir.graph import OPS, Graph
from ..ir.interpret import interpret
from ..ir.record import field, record
from ..ir.types import NAMES
from ..runtime.compiled import CompiledGraph
from ..runtime.session import CompileOptions, Session
from ..runtime.supports import SWEPT, Arrays, Case, graph_of, tolerance_of

TOGETHER = 32  # samples that are compiled before they run


@record
class Outcome:
    """What became of one sample in one dtype."""

    op: str
    sample: int
    dtype: str
    absent: str = ""  # a dtype that the device cannot have in its memory
    gap: str = ""  # its reason for not running the op
    fault: str = ""  # how its results differ
    on_host: bool = False


@record
class Conformance:
    """What a device runs, sample by sample."""

    device: str
    outcomes: tuple[Outcome, ...]

    @property
    def gaps(self) -> list[Outcome]:
        """What the device refuses, with its reasons."""
        return [o for o in self.outcomes if o.gap]

    @property
    def faults(self) -> list[Outcome]:
        """What gave other numbers, or failed in a way that is no error of rlx."""
        return [o for o in self.outcomes if o.fault]

    @property
    def share_of_gaps(self) -> float:
        """The gaps over all samples in the dtypes that the device has."""
        return len(self.gaps) / max(sum(not o.absent for o in self.outcomes), 1)

    @property
    def absent(self) -> list[str]:
        """The dtypes that the device does not have."""
        return sorted({o.absent for o in self.outcomes if o.absent})

    def __str__(self) -> str:
        on_host = sum(o.on_host for o in self.outcomes)
        counts = Counter(o.gap for o in self.gaps)
        lines = [
            f"{self.device}: {len(self.outcomes)} samples, {len(self.faults)} wrong, "
            f"{len(self.gaps)} refused ({self.share_of_gaps:.1%}), {on_host} on the host"
            + (f"; it has no {', '.join(self.absent)}" if self.absent else ""),
            *(f"  {count} x {reason}" for reason, count in counts.most_common()),
            *(f"  wrong: {o.op}-{o.sample} {o.dtype}: {o.fault}" for o in self.faults),
        ]
        return "\n".join(lines)


@record
class _Sample:
    case: Case
    number: int
    dtype: str
    arrays: Arrays

    @cached_property
    def graph(self) -> Graph:
        return graph_of(self.case.op, self.arrays, self.case.attrs)


@record(frozen=False)
class _Audit:
    session: Session
    options: CompileOptions
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, samples: Iterable[_Sample]) -> None:
        """Compare samples.

        Some are compiled before the first of them runs, so that a device can build them at once.
        """
        left = iter(samples)
        while some := list(itertools.islice(left, TOGETHER)):
            compiled = [self._compiled(sample) for sample in some]
            self.outcomes += map(self._outcome, some, compiled)

    def _compiled(self, sample: _Sample) -> CompiledGraph | Exception:
        try:
            return self.session.compile(sample.graph, options=self.options)
        except Exception as error:  # to be told with what goes wrong in the call
            return error

    def _outcome(self, sample: _Sample, compiled: CompiledGraph | Exception) -> Outcome:
        place = (sample.case.op.name, sample.number, sample.dtype)
        graph, arrays = sample.graph, sample.arrays
        try:
            if isinstance(compiled, Exception):
                raise compiled
            results = compiled(*(np.array(a, order="C") for a in arrays))
        except (UnsupportedOp, UnsupportedDtype) as error:
            absent = self._absent(graph)
            gap = error.what.removeprefix(f"{sample.case.op.name}: ")
            return Outcome(*place, absent, "" if absent else gap)
        except Exception as error:  # any other is a fault of the device
            return Outcome(*place, fault=f"{type(error).__name__}: {error}".splitlines()[0])
        results = results if isinstance(results, tuple) else (results,)
        with np.errstate(all="ignore"):
            wanted = interpret(graph, arrays)
        tolerance = tolerance_of(*graph.param_types, *graph.result_types)
        fault = _difference([r.host() for r in results], wanted, tolerance)
        on_host = "library: on the host" in compiled.report()
        return Outcome(*place, fault=fault, on_host=on_host)

    def _absent(self, graph: Graph) -> str:
        """A dtype of a graph that the device's memory cannot hold."""
        stored = self.session.backend.target.stored
        used = {NAMES[v.dtype] for v in (*graph.params, *graph.results)}
        return min(used - stored, default="")


def _difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float) -> str:
    """In what results differ; empty if they agree."""
    for got, right in zip(found, wanted, strict=True):
        if (got.dtype, got.shape) != (right.dtype, right.shape):
            return f"{got.dtype}{got.shape} instead of {right.dtype}{right.shape}"
        if right.dtype.kind not in "biufc":
            got, right = got.astype(np.float32), right.astype(np.float32)
        if not np.allclose(got, right, tolerance, tolerance, equal_nan=True):
            with np.errstate(all="ignore"):
                off = np.nanmax(np.abs(np.subtract(got, right, dtype=np.result_type(right, "f8"))))
            return f"off by {off:.3g}, tolerance {tolerance:.2g}"
    return ""


def cases(ops: Iterable[str] | None = None) -> Iterator[tuple[Case, int]]:
    """Each sample of each op (or of the named ones) with its number."""
    names = list(OPS) if ops is None else list(ops)
    for name in set(names) - set(OPS):
        raise ArgumentError(
            f"check_backend: there is no op {name!r}",
            fix="name ops of rlx.ir.ops, as add, sort or scan",
        )
    for name in names:
        if not OPS[name].rules.of_user:
            yield from ((Case(OPS[name], s), i) for i, s in enumerate(OPS[name].sample_list))


def check_backend(
    device: str,
    *,
    ops: Iterable[str] | None = None,
    dtypes: Sequence[str] = SWEPT,
    only: Callable[[Case, int], Sequence[str]] | None = None,
    tier: str = "auto",
) -> Conformance:
    """Run every sample of every op on a device and compare it with the op's reference.

    `device` is its name, `ops` are names, by default of all. Each sample runs in all `dtypes` that
    the op takes; `only(case, number)` may give fewer. With `tier="fast"` less time goes into code
    that runs once. Returns a report; printed, it tells how many samples there were. What the device
    refuses with the errors for that (`UnsupportedOp`, `UnsupportedDtype`) is a gap; any other
    failure and every number that is off by more than a few roundings of the dtype raises a
    `DivergenceError`. Its attribute `conformance` is the whole result.

    >>> print(check_backend("reference", ops=["sin"], dtypes=["float32"]))
    reference: ... samples, 0 wrong, 0 refused (0.0%), 0 on the host
    """
    audit = _Audit(Session(device), CompileOptions(tier=tier))
    audit.run(
        _Sample(case, number, name, arrays)
        for case, number in cases(ops)
        for name, arrays in case.swept(tuple(only(case, number) if only else dtypes))
    )
    found = Conformance(audit.session.device, tuple(audit.outcomes))
    if found.faults:
        error = DivergenceError(
            f"{len(found.faults)} samples differ on the device {found.device!r}",
            where=str(found),
            fix="correct the device's backend, or the rooms of the ops",
        )
        error.conformance = found
        raise error
    return found
