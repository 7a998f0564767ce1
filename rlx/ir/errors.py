"""The errors of rlx, which say what went wrong, where, and how to fix it.

Each class also derives from the Python error a user would catch. The text has three parts:

    ShapeError: matmul: the inner sizes differ, 4 and 5
      where  model.py:12 in loss      y = x @ w
             x: f32[3, 4]   argument 0 of loss
      fix    transpose one side
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from .source import Source, user_source


class RlxError(Exception):
    """The base class of all errors of rlx.

    `what` names the op and the numbers that disagree, `where` is a line of the user's code: the one
    that runs, unless another is given. `notes` are further lines about the operands, `fix` says
    what to do.
    """

    def __init__(
        self, what: str, *, fix: str, where: str | None = None, notes: Sequence[str] = ()
    ) -> None:
        super().__init__(what)
        self.what = what
        self._is_placed = where is not None
        self.where = where or _line()
        self.notes = tuple(notes)
        self.fix = fix

    def at(self, op: str, operands: Sequence[str], source: Source | None) -> None:
        """Name the op whose type rule raised it, its operands, and the line of the call.

        `op` is the op's name, `operands` are lines about them, `source` is where the call was
        recorded. An error that knows its place stays as it is.
        """
        if self._is_placed:
            return
        self.what = f"{op}: {self.what}"
        self.where = str(source) if source else None
        self.notes = self.notes or tuple(operands)
        self._is_placed = True

    def __init_subclass__(cls) -> None:
        cls.__module__ = "rlx"  # tracebacks show the public name

    def __str__(self) -> str:
        places = [*([self.where] if self.where else []), *self.notes]
        lines = [self.what]
        lines += [
            ("  where  " if i == 0 else "         ") + place for i, place in enumerate(places)
        ]
        lines.append("  fix    " + self.fix.replace("\n", "\n         "))
        return "\n".join(lines)

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self.what, self.fix, self.where, self.notes)


def _line() -> str | None:
    source = user_source()
    return str(source) if source else None


def _rebuild(cls: type[RlxError], what: str, fix: str, where: str | None, notes: tuple) -> RlxError:
    return cls(what, fix=fix, where=where, notes=notes)


class ShapeError(RlxError, TypeError):
    """Operands have shapes that an op does not accept."""


class DtypeError(RlxError, TypeError):
    """Operands have dtypes that an op does not accept, or a dtype does not exist."""


class AxisError(RlxError, ValueError, IndexError):
    """An axis lies outside an array's rank, or is named twice."""


class BoundsError(RlxError, IndexError):
    """A constant index lies outside an array."""


class AttributeValueError(RlxError, ValueError):
    """A keyword of an op has an invalid value."""


class ArgumentError(RlxError, TypeError):
    """A function was called with arguments it does not take."""


class StructureError(RlxError, TypeError):
    """A pytree has another structure than the one that is needed."""


class StaticArgumentError(RlxError, TypeError):
    """A static argument cannot be hashed, or is named but does not exist."""


class ConcretizationError(RlxError, TypeError):
    """Python asked for the value of a traced tensor, which has none while tracing."""


class SymbolicSizeError(RlxError, TypeError):
    """A number was asked of a symbolic size, or a size breaks what its dim promises."""


class LeakedTracerError(RlxError, RuntimeError):
    """A traced tensor was used after its trace had ended."""


class ImmutableError(RlxError, TypeError):
    """An assignment to an array or a module that is immutable."""


class AliasError(ImmutableError):
    """An assignment to an array that has aliases, or a use of an outdated part."""


class DonatedError(RlxError, RuntimeError):
    """An array was used after its memory had been given away."""


class GradientError(RlxError, TypeError):
    """A derivative was asked for that does not exist."""


class KeyReuseError(RlxError, ValueError):
    """A key of random numbers was used twice; the setting `key_reuse` says so."""


class CheckError(RlxError, AssertionError):
    """A condition given to `rlx.check` does not hold."""


class CallbackError(RlxError, ValueError):
    """A Python callback returned something of another type than declared."""


class RecompileError(RlxError, RuntimeError):
    """A function would be compiled where that is forbidden."""


class NanError(RlxError, FloatingPointError):
    """An operation made the first NaN, as `rlx.nan_check` found."""


class DivergenceError(RlxError, AssertionError):
    """A compiled function differs from its reference, as `rlx.verify` found.

    `graph` shows it on `arrays`; `replay()` gives the results of the device and of the references.
    Where a whole device was checked, `conformance` has what each sample gave.
    """

    conformance: Any = None

    def __init__(
        self,
        what: str,
        *,
        fix: str,
        where: str | None = None,
        notes: Sequence[str] = (),
        graph: Any = None,
        arrays: Sequence[Any] = (),
        replay: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(what, fix=fix, where=where, notes=notes)
        self.graph, self.arrays, self.replay = graph, tuple(arrays), replay


class UnknownDeviceError(RlxError, ValueError):
    """A device name that rlx does not know."""


class DeviceUnavailable(RlxError, RuntimeError):
    """A device rlx knows, but which cannot run on this machine."""


class DeviceFailure(RlxError, RuntimeError):
    """A device failed at something it can do: a compile, a call, a copy."""


class KernelBuildError(DeviceFailure):
    """A device's compiler refused a kernel."""


class DeviceMemoryError(DeviceFailure, MemoryError):
    """A device is out of memory."""


class DeviceLostError(DeviceFailure):
    """A device stopped working, and its arrays are lost."""


class DeviceMismatchError(RlxError, ValueError):
    """Arrays of two devices met in one operation."""


class FusionError(RlxError, RuntimeError):
    """Operations could not be fused, and were to be."""


class UnsupportedOp(RlxError, NotImplementedError):
    """A device cannot run an op; other libraries raise Python's own error for that."""


class UnknownPrimitive(UnsupportedOp):
    """A function of JAX uses a primitive that has no meaning in rlx."""


class UnsupportedDtype(DtypeError, NotImplementedError):
    """A device has no arithmetic for a dtype; Python's own error, as for an op."""


class ParseError(RlxError, ValueError):
    """IR text that is not a graph."""


class FileFormatError(RlxError, ValueError):
    """A file that is truncated, altered, or not what it claims to be."""


class FileMissingError(RlxError, FileNotFoundError):
    """A file that is not there, or one to be written in a directory that is not."""


class FileAccessError(RlxError, OSError):
    """A file that cannot be read or written: a directory, a forbidden one."""


class UnknownNameError(RlxError, KeyError):
    """A name that nothing stands for."""


class InUseError(RlxError, RuntimeError):
    """Something was to be removed that is still used."""


class QueueFullError(RlxError, RuntimeError):
    """The queue of waiting requests is full."""


class WorkerLostError(RlxError, RuntimeError):
    """A process that computed for this one has ended, and what it computed with it."""


class TaskTimeoutError(RlxError, TimeoutError):
    """A call that took more time than it may."""


class VerifyError(RlxError, ValueError):
    """A graph that breaks a rule of its level."""


class ConfigError(RlxError, ValueError):
    """A setting with a value it does not have."""


class InternalError(RlxError, RuntimeError):
    """A bug in rlx, with the smallest graph that shows it."""


def with_advice(module: str, advice: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that knows names of other libraries."""

    def __getattr__(name: str) -> NoReturn:
        text = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(f"{text}: {advice[name]}" if name in advice else text)

    return __getattr__


def __dir__() -> list[str]:
    kinds = (RlxError, UnrolledLoopWarning)
    return sorted(n for n, x in globals().items() if isinstance(x, type) and issubclass(x, kinds))


class UnrolledLoopWarning(UserWarning):
    """A Python loop was unrolled more often than `unroll_limit`."""


class Absent:
    """An attribute that objects of other libraries have; the error says what to use."""

    def __init__(self, name: str, advice: str) -> None:
        self.name, self.advice = name, advice

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        kind = getattr(owner, "__name__", "Array")
        raise AttributeError(f"{kind!r} object has no attribute {self.name!r}: {self.advice}")


def with_absent(cls: type, advice: Mapping[str, str]) -> None:
    """Let a class know attributes of other libraries, and what to use for each."""

    def __dir__(self: Any) -> list[str]:
        names = object.__dir__(self)
        return [n for n in names if not isinstance(inspect.getattr_static(self, n, None), Absent)]

    for name, text in advice.items():
        setattr(cls, name, Absent(name, text))
    cls.__dir__ = __dir__  # type: ignore[method-assign]
