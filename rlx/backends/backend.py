"""The interface of backends: a target to lower for, and a way to compile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir.graph import Graph
from ..ir.memory import Memory
from ..ir.record import field, record, replace
from ..ir.types import Type
from ..lower.target import Target

if TYPE_CHECKING:
    from ..lower.lir.program import Program
    from ..lower.memory_plan import MemoryPlan
    from ..lower.step_facts import StepFacts

FIXED_BYTES, BYTES_PER_CODE = 50_000, 16  # of an executable, measured on small and large programs


class _Miss:
    """The type of `MISS`."""

    def __repr__(self) -> str:
        return "MISS"


MISS: Final = _Miss()
"""What an entry gives for arguments that do not fit, with nothing done."""


def _always_miss(*arrays: Any) -> object:
    return MISS


@record
class Availability:
    """Whether a device can run here; if not, why, and what to install."""

    is_available: bool
    reason: str = ""
    install: str = ""


@record
class Lasting:
    """The entry of a graph's code in the disk cache."""

    key: str
    arrays: Callable[[], dict[bytes, np.ndarray]]  # the graph's constants by their content


@record(frozen=False)
class Executable:
    """A compiled graph.

    `entry(*arrays)` takes an ndarray, or an instance of the array class it was compiled for, for
    each parameter. It gives such an instance, or a tuple of them unless there is exactly one
    result. If an argument does not fit its parameter, it does nothing and gives `miss`.
    """

    entry: Callable[..., Any]
    miss: object = MISS
    native: Any = (
        None  # what `Backend.sequence` runs, which takes arguments as `prepare` makes them
    )
    make_stages: Callable[[], dict[str, str]] = dict  # the text of each level by its name
    make_report: Callable[[], str] = str  # what became of the ops
    arena_bytes: int = 0  # of the temporaries of a call
    constant_bytes: int = 0
    program: Program | None = None  # None if another process compiled it
    objects: tuple[bytes, ...] = ()  # the machine code
    seconds: dict[str, float] = field(default_factory=dict)  # of each phase of the compile
    work: Callable[[], tuple[int, int]] = lambda: (0, 0)  # instructions of a call, bytes it moves
    # (*arrays, *outs): an out is an ndarray to write a result to, or None; None if not supported
    make_entry_into: Callable[[], Callable[..., Any]] | None = None
    # the same, for an ndarray each: gives None, or MISS if one is read-only or two share memory
    make_entry_filling: Callable[[], Callable[..., Any]] = lambda: _always_miss
    # result number -> the parameter, of those given, whose memory the result may be written to
    reused_memory: Callable[[Sequence[int]], dict[int, int]] = lambda parameters: {}
    lasting: Lasting | None = None  # lets a later process `recall` the code
    # dense arrays of the fixed parameters -> the arrays, of any number, that entries take for them
    prepare: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] = tuple
    held: tuple[Any, ...] = ()  # arguments that each call passes behind its own
    memory: Memory | None = None  # the device's own: results lie there, and arguments may
    # parameter numbers -> an executable that may use up the arrays of these parameters
    make_donating: Callable[[tuple[int, ...]], Executable] | None = None
    make_tier_up: Callable[[], Executable] | None = None  # the same program, with better code
    compile_seconds: float = 0.0  # what the machine code took to make, about
    # parameters whose memory results may take over -> what a call holds
    make_plan: Callable[[Sequence[int]], MemoryPlan] | None = None
    # of a `Target.timed`: the steps by number, and nanoseconds of each and how often it ran
    timers: tuple[tuple[StepFacts | None, ...], np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"<executable of {self.code_bytes} bytes, {self.arena_bytes} for temporaries>"

    @cached_property
    def held_bytes(self) -> int:
        """Bytes in memory, roughly: code, text, loops, constants.

        The text of a program and what stands for it in Python grow with the machine code.
        """
        return FIXED_BYTES + BYTES_PER_CODE * self.code_bytes + self.constant_bytes

    def improved(self, better: Executable) -> Executable:
        """A copy with the code of a better executable."""
        return replace(
            self,
            entry=better.entry,
            native=better.native,
            make_entry_into=better.make_entry_into,
            make_entry_filling=better.make_entry_filling,
            objects=better.objects,
            prepare=better.prepare,
            make_tier_up=None,
        )

    @property
    def code_bytes(self) -> int:
        """The size of the machine code."""
        return sum(map(len, self.objects))

    @property
    def report(self) -> str:
        """What became of the ops."""
        return self.make_report()

    @cached_property
    def entry_into(self) -> Callable[..., Any] | None:
        """The entry that is given arrays for the results, made when it is asked for."""
        return self.make_entry_into() if self.make_entry_into else None

    @cached_property
    def entry_filling(self) -> Callable[..., Any]:
        """The entry that writes to given arrays and makes none, made when it is asked for."""
        return self.make_entry_filling()

    @cached_property
    def stages(self) -> dict[str, str]:
        """The text of each level, made when it is asked for."""
        return self.make_stages()


@record
class PlannedCall:
    """A call of compiled code.

    Arrays have numbers: the inputs of the sequence first, then the results of its calls in order.
    """

    native: Any  # what the backend's executable has of its own
    args: tuple[int | np.ndarray, ...]  # numbers of arrays, or dense constants
    held: tuple[np.ndarray, ...]  # arguments behind these, the same in each call
    results: tuple[int, ...]
    reused: Mapping[int, int]  # results and the arguments whose memory they may take over


@record
class Plan:
    """A sequence of calls, of which some results are given out."""

    types: tuple[Type, ...]  # of all arrays; sizes of one name are one size
    inputs: int
    calls: tuple[PlannedCall, ...]
    outputs: tuple[int, ...]

    @property
    def chains(self) -> dict[int, int]:
        """For each array the first one whose memory it may have."""
        first = {number: number for number in range(len(self.types))}
        for call in self.calls:
            first |= {result: first[given] for result, given in call.reused.items()}
        return first

    @property
    def reused(self) -> dict[int, int]:
        """Places of outputs, and those of the inputs whose memory they may take over."""
        first = self.chains
        places = {place: first[number] for place, number in enumerate(self.outputs)}
        return {place: number for place, number in places.items() if number < self.inputs}


class Backend(ABC):
    """A kind of device; making one must be quick and load no library."""

    name: str  # by which users ask for it
    target: Target
    invariant_target: Target | None = None  # the `batch_invariant` one, if it can do that
    memory: Memory | None = None  # where its arrays lie; None is the host's
    has_shardings = False  # whether `compile` takes `shardings`, for parts on many devices
    can_split = True  # whether it can compute each operation alone
    has_arena = False  # whether its programs have their temporaries where lowering puts them
    has_timers = False  # whether its programs can measure the time of each of their steps

    @abstractmethod
    def availability(self) -> Availability:
        """Whether it runs on this machine; loads the device's library to see."""

    def shortest_name(self) -> str:
        """The shortest of the names that the device has, if it is available."""
        return self.name

    def description(self) -> str:
        """What runs it, on one line: hardware and library with their versions."""
        return ""

    def details(self) -> dict[str, str]:
        """More of what runs it, by name, for `rlx.config.show`."""
        return {}

    def ufunc_entry(
        self, ufunc: np.ufunc, dtype: np.dtype, array: type, most: int
    ) -> Callable[..., Any] | None:
        """A faster way to call a ufunc on small arrays, with its bits, or None.

        It takes ndarrays or instances of `array`, of one shape and of at most so many elements, and
        gives an instance; for all else it gives `MISS`.
        """
        return None

    def memory_context(self) -> Context | None:
        """A context in which NumPy's new arrays lie where results do, aligned for vectors."""
        return None

    @abstractmethod
    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Compile a graph; results are instances of `array`, made from an ndarray.

        With `check` the graph is verified after every pass. `target` may be the
        `invariant_target`. As many of the last parameters as are `fixed` are the same arrays in
        many calls.
        """

    def sequence(self, plan: Plan, array: type) -> Executable | None:
        """One executable for calls in sequence, or None if Python must make them.

        Its results are instances of `array`. The executables of all calls have a `native`.
        """
        return None

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """What would become of the ops of a graph: their names by way, and how many.

        The ways are `NATIVE`, `EXPANDED` and `LIBRARY`, on the host. What the device cannot run is
        the error of a compile. A device that does not lower graphs to loops has its own.
        """
        from ..lower.pipeline import lower  # 20 ms to import
        from ..lower.report import ways

        lowered = lower(graph, self.target)
        return ways(lowered.hir, lowered.mir, lowered.program)

    def memory_plan(
        self, graph: Graph, target: Target | None = None, donated: Sequence[int] = ()
    ) -> MemoryPlan:
        """What a call of a graph holds in memory, planned and not measured.

        `donated` are the parameters that give their memory to results.
        """
        from ..lower.memory_plan import memory_plan
        from ..lower.pipeline import lower  # 20 ms to import

        program = lower(graph, replace(target or self.target, timed=True)).program
        return memory_plan(graph, program, self.name, is_estimate=not self.has_arena)

    def compiled_for(self) -> object:
        """What compiled code depends on besides its graph, as a value with a telling repr."""
        return self.name, self.description()

    def recall(
        self,
        lasting: Lasting,
        signature: Graph,
        whole: Callable[[], Graph],
        array: type,
        *,
        target: Target | None = None,
    ) -> Executable | None:
        """Read the code of a graph that an earlier process compiled.

        `signature` has its parameters and results, and no nodes; `whole` records it if somebody
        looks inside. None says that the code is not there.
        """
        return None
