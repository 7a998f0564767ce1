"""The interface of backends: a target to lower for, and a way to compile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir.graph import Graph
from ..ir.memory import Memory
from ..ir.record import field, record, replace
from ..lower.target import Target

if TYPE_CHECKING:
    from ..lower.lir.program import Program

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
    """The entry of a graph's code in the disk cache.

    `arrays` gives the graph's constant arrays by their content.
    """

    key: str
    arrays: Callable[[], dict[bytes, np.ndarray]]


@record(frozen=False)
class Executable:
    """A compiled graph.

    `entry(*arrays)` takes one ndarray (or one instance of the array class it was compiled for)
    for each parameter and gives an instance, or a tuple of instances where there is not exactly
    one result. What does not fit the parameter types gives `miss`, with nothing done.

    `entry_into(*arrays, *outs)` also takes an ndarray for each result to be written to, or None; it
    is None where a device cannot do that. `entry_filling(*arrays, *outs)` writes to all of them and
    gives None, or MISS where one cannot be written to or shares memory with another.
    `reused_memory(parameters)` chooses for results (by number) one of these parameters whose memory
    they may be written to.

    If the last parameters are fixed, `prepare` makes of their arrays, which are dense, what entries
    take in their place: arrays again, as many as it likes. Those that each call passes behind its
    own are `held`.

    If the device has `memory` of its own, results lie there, and the entry takes such arrays, too;
    `make_donating` gives, for some parameters, an executable that may use up their arrays.

    Where more work on the machine code may pay, `make_tier_up` gives an executable of the same
    program whose code is better; it took about `compile_seconds` to make the code there is.

    The rest is for looking inside: `make_stages` gives the text of each level by its name,
    `make_report` tells what became of the ops, `seconds` how long each phase of the compile took,
    `work` counts the scalar instructions of a call and the bytes it moves. A program that was
    compiled by another process is not at hand. `lasting`, if it is there, lets a later process
    `recall` the code.
    """

    entry: Callable[..., Any]
    miss: object = MISS
    make_stages: Callable[[], dict[str, str]] = dict
    make_report: Callable[[], str] = str
    arena_bytes: int = 0
    constant_bytes: int = 0
    program: Program | None = None
    objects: tuple[bytes, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    work: Callable[[], tuple[int, int]] = lambda: (0, 0)
    make_entry_into: Callable[[], Callable[..., Any]] | None = None
    make_entry_filling: Callable[[], Callable[..., Any]] = lambda: _always_miss
    reused_memory: Callable[[Sequence[int]], dict[int, int]] = lambda parameters: {}
    lasting: Lasting | None = None
    prepare: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] = tuple
    held: tuple[Any, ...] = ()
    memory: Memory | None = None
    make_donating: Callable[[tuple[int, ...]], Executable] | None = None
    make_tier_up: Callable[[], Executable] | None = None
    compile_seconds: float = 0.0

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


class Backend(ABC):
    """A kind of device; making one must be quick and load no library.

    `name` is the one by which users ask for it.
    """

    name: str
    target: Target
    invariant_target: Target | None = None  # the `batch_invariant` one, if it can do that
    memory: Memory | None = None  # where its arrays lie; None is the host's
    has_shardings = False  # whether `compile` takes `shardings`, for parts on many devices

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

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """What would become of the ops of a graph: their names by way, and how many.

        The ways are `NATIVE`, `EXPANDED` and `LIBRARY`, on the host. What the device cannot run is
        the error of a compile. A device that does not lower graphs to loops has its own.
        """
        from ..lower.pipeline import lower  # 20 ms to import
        from ..lower.report import ways

        lowered = lower(graph, self.target)
        return ways(lowered.hir, lowered.mir, lowered.program)

    def compiled_for(self) -> object:
        """What compiled code depends on besides its graph; its text tells that apart."""
        return self.name

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
