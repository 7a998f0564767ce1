"""What a language must say, so that kernels can be written in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ...ir.record import record
from ...ir.types import as_dtype

FLOAT32, INT32, INT64 = as_dtype("float32"), as_dtype("int32"), as_dtype("int64")
HALVES = frozenset(map(as_dtype, ("float16", "bfloat16")))
UNSIGNED = {n: as_dtype(f"uint{8 * n}") for n in (1, 2, 4, 8)}


def register(dtype: np.dtype) -> np.dtype:
    """The dtype of variables that hold this one: float32 for half floats."""
    return FLOAT32 if dtype in HALVES else dtype


@record
class Parameter:
    """An array that a kernel is given."""

    name: str
    dtype: np.dtype  # of its elements
    is_written: bool
    has_offset: bool  # whether an argument counts the elements before its first one

    @property
    def offset_name(self) -> str:
        """The name of the number of elements before it."""
        return f"{self.name}_at"


@record
class LocalArray:
    """Memory that the threads of a group share, of a register's dtype."""

    name: str
    dtype: np.dtype
    count: int


@record
class Signature:
    """What stands around the lines of a kernel."""

    parameters: tuple[Parameter, ...]
    numbers: tuple[str, ...] = ()  # int32 arguments behind the arrays and their offsets
    locals: tuple[LocalArray, ...] = ()
    threads: tuple[int, int, int] = (1, 1, 1)  # of a group, along x, y and z


@record
class Limits:
    """What a device can do at once."""

    threads: int = 256  # of a group, as far as more of them are faster
    groups: tuple[int, int, int] = (2**31 - 1, 65535, 65535)  # along each axis, at most
    local_bytes: int = 32768  # of the memory that a group shares
    serial: bool = False  # like a processor: few threads, each fast over memory in order
    lanes: int = 1  # float32 numbers of a vector, for dialects that have vectors
    shares: bool = True  # whether products gain by the memory that a group shares
    subgroup: int = 1  # threads that pass numbers without a barrier; 1 if unknown
    batch_invariant: bool = False  # whether the order of a sum is the same for any batch size


class Dialect(ABC):
    """A language for kernels: words for variables, loops, memory, instructions.

    Lines end and blocks are braced as in C: `;`, `{`, `}`, `if (...) {`, `x = ...;`. All numbers of
    indices have one dtype in a kernel, int32 or int64.
    """

    name: str
    has_wide_index = True  # whether indices may be int64
    has_offsets = True  # else the device passes the very place where an array begins
    # half floats that arrays hold as such: loads and stores convert them from and to float32
    stored_halves: frozenset[np.dtype] = frozenset()
    owns_temporaries = False  # whether each is memory of its own; else they lie in one arena

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    # -- words -----------------------------------------------------------------------------------

    @abstractmethod
    def type(self, dtype: np.dtype) -> str:
        """The type of a variable; never asked for a half float."""

    @abstractmethod
    def literal(self, dtype: np.dtype, number: object) -> str:
        """A number of a register's dtype, with what is infinite or none."""

    @abstractmethod
    def constant(self, dtype: np.dtype, name: str, value: str) -> str:
        """The line that names a value."""

    @abstractmethod
    def variable(self, dtype: np.dtype, name: str, value: str | None = None) -> str:
        """The line that declares what is changed later, perhaps without a value."""

    @abstractmethod
    def array(self, dtype: np.dtype, name: str, count: int) -> str:
        """The line that declares an array of a thread's own, in registers if can be."""

    @abstractmethod
    def loop(self, dtype: np.dtype, name: str, start: str, end: str, step: str = "1") -> str:
        """The line that opens a loop, upwards."""

    # -- instructions ----------------------------------------------------------------------------

    @abstractmethod
    def template(self, name: str, dtype: np.dtype, result: np.dtype) -> str | None:
        """An instruction on operands of a dtype, as text with `{0}`, `{1}` for them.

        None says that there is none: it is then made of simpler ones, by `bodies`. Those that all
        others can be made of are listed in the package's docstring. For `select` the dtype is that
        of the chosen numbers.
        """

    def zero_factor(self, dtype: np.dtype, zero: str) -> str:
        """A float 0 in a product or quotient, with NaN and infinite numbers obeyed."""
        return zero

    # -- memory and threads ----------------------------------------------------------------------

    @abstractmethod
    def load(self, parameter: Parameter, place: str) -> str:
        """An element as it is stored: bool as bool, a half float as the bits of uint16.

        One of `stored_halves` as float32.
        """

    @abstractmethod
    def store(self, parameter: Parameter, place: str, value: str) -> str:
        """The line that puts such a value into memory."""

    @abstractmethod
    def place(self, what: str, axis: int) -> str:
        """Where a thread is along an axis, as int32.

        `what` is its `group`, its `thread` in it, or `both` together. With subgroups it may be its
        `subgroup` in the group, too, or its `lane` in that.
        """

    @abstractmethod
    def barrier(self) -> str:
        """The line where a group's threads wait for what others wrote to shared memory."""

    def barrier_of_arrays(self) -> str:
        """The line where a group's threads wait for what others wrote to arrays."""
        return self.barrier()

    def passed(self, dtype: np.dtype, number: str, distance: int) -> str | None:
        """A number of the lane whose place differs in one bit; None if it cannot be.

        All lanes of a subgroup must come by, so it stands on a line of its own.
        """
        return None

    # -- vectors, where `has_vectors`: for products on a processor --------------------------------

    has_vectors = False

    def vector(self, dtype: np.dtype, lanes: int) -> str:
        """The type of a vector."""
        raise NotImplementedError

    def spread(self, dtype: np.dtype, lanes: int, number: str) -> str:
        """A number in all lanes of a vector."""
        raise NotImplementedError

    def vector_load(self, array: str, place: str, lanes: int) -> str:
        """A vector from a shared array."""
        raise NotImplementedError

    def vector_store(self, array: str, place: str, lanes: int, value: str) -> str:
        """The line that puts a vector into a shared array."""
        raise NotImplementedError

    def vector_sum(self, dtype: np.dtype, x: str, y: str, total: str) -> str:
        """total + x * y in each lane, perhaps rounded once."""
        raise NotImplementedError

    # -- wholes ----------------------------------------------------------------------------------

    @abstractmethod
    def function(
        self,
        result: np.dtype,
        name: str,
        parameters: Sequence[tuple[str, np.dtype]],
        lines: Sequence[str],
        value: str,
    ) -> str:
        """A function of numbers: its lines, then the value it returns."""

    @abstractmethod
    def kernel(self, name: str, signature: Signature, lines: Sequence[str]) -> str:
        """A kernel of some lines."""

    def module(self, functions: Sequence[str], kernels: Sequence[str]) -> str:
        """The text that is compiled as one: the functions first."""
        return "\n\n".join([*functions, *kernels]) + "\n"
