"""Traced tensors, the stand-ins for arrays while a function is traced."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any, NoReturn, final

import numpy as np

from ..ir import builder
from ..ir.bind import sizes_in
from ..ir.builder import builder_of, current, is_open, note_question
from ..ir.errors import ConcretizationError, LeakedTracerError
from ..ir.graph import Value
from ..ir.source import Source, user_source
from ..ir.types import Size, Type
from .array import Array
from .operators import Operators
from .placement import bring_to

# -- known arrays of traced values: what lets Python `if` work in `grad`, outside of `jit` ---------
#
# A trace that runs on known arrays enters its parameters here; the arrays of other values are
# computed with the ops' references only when asked for.


Known = np.ndarray | None  # None: it depends on an unknown parameter


class _State(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.known: dict[Value, Known | Array] = {}


_state = _State()


@contextmanager
def knowing(arrays: Mapping[Value, np.ndarray | Array]) -> Iterator[None]:
    """Let parameters stand for known arrays in a block."""
    _state.known.update(arrays)
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        if not _state.depth:
            _state.known.clear()


def known_array(value: Value) -> Known:
    """The array a value stands for, or None if it depends on unknown ones."""
    # outside of such a trace what is computed from constants is known all the same
    known = _state.known if _state.depth else {}
    waiting = [value]
    while waiting:
        top = waiting[-1]
        needs = _needs(top)
        missing = [v for v in needs if v not in known]
        if missing and top not in known:
            waiting.extend(missing)
            continue
        waiting.pop()
        if top not in known:
            known.update(_computed(top, [_read(known, v) for v in needs]))
    return _read(known, value)


def _read(known: dict[Value, Known | Array], value: Value) -> Known:
    """What is known of a value; an array of a device is copied when it is asked for first."""
    found = known[value]
    if isinstance(found, Array):
        found = known[value] = found.host()
    return found


def _captured(param: Value) -> object:
    """What a hidden parameter of a graph under construction stands for, or None."""
    builder = builder_of(param.graph)
    if builder is None:
        return None
    pairs = zip(builder.capture_params, builder.captures, strict=True)
    return next((thing for hidden, thing in pairs if hidden is param), None)


def _needs(value: Value) -> Sequence[Value]:
    if value.node is not None:
        return value.node.args
    outside = _captured(value)
    return [outside] if isinstance(outside, Value) else []


def _computed(value: Value, arrays: Sequence[Known]) -> dict[Value, Known]:
    node = value.node
    if node is None:
        outside = _captured(value)
        if isinstance(outside, Array):
            return {value: outside.host()}
        return {value: outside if isinstance(outside, np.ndarray) else next(iter(arrays), None)}
    ready = [a for a in arrays if a is not None]
    # members of a batch differ, Python functions are called and sizes get numbers as it runs
    is_later = node.op.rules.named is not None or node.op.rules.calls_python
    if is_later or sizes_in(node.attrs) or len(ready) < len(arrays):
        return dict.fromkeys(node.results, None)
    results = node.op.run(ready, node.attrs, source=node.source)
    return dict(zip(node.results, results, strict=True))


@final
class TracedTensor(Operators):
    """A `value` of the graph under construction that behaves as an array.

    A `weak` one came from Python numbers: it takes the dtype of what it meets.
    """

    __slots__ = ()
    value = Operators._first
    weak = Operators._second

    def __init__(self, value: Value, weak: bool = False) -> None:
        self.value = value
        self.weak = weak

    @property
    def type(self) -> Type:
        """The dtype and shape."""
        return self.value.type

    @property
    def shape(self) -> tuple[Size, ...]:
        """The size of each axis; symbolic sizes are `Dim`s."""
        return self.value.type.shape

    @property
    def device(self) -> None:
        """None, which means for new arrays: where the function under construction runs."""
        return None

    def to(self, device: Any) -> TracedTensor:
        """The tensor itself; all of the function under construction then runs on `device`.

        `None` and devices in the host's memory let it run where it does.
        """
        bring_to(device)
        return self

    def to_device(self, device: Any, /, *, stream: None = None) -> TracedTensor:
        """The same as `to`: `device` is the device's name, `stream` must be None."""
        return self.to(device)

    @property
    def concrete(self) -> np.ndarray | None:
        """The array it stands for, where the trace runs on known arrays; else None."""
        known = known_array(self.value)
        if known is None:
            note_question()
        return known

    def copy(self) -> TracedTensor:
        """The same elements in an object of its own: what is assigned to one stays there."""
        recorder = current()
        if recorder is None:
            raise leaked(self)
        # of the innermost trace, which may assign to it
        return TracedTensor(recorder.own(self.value), self.weak)

    def block_until_ready(self) -> TracedTensor:
        """The tensor itself: while tracing there is nothing to wait for."""
        return self

    def item(self, *index: int) -> Any:
        """One element, at `index`, as a Python number, where the array is known."""
        return self._known("item").item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists, where the array is known."""
        return self._known("tolist").tolist()

    def __bool__(self) -> bool:
        return bool(self._known("bool"))

    def __int__(self) -> int:
        return int(self._known("int"))

    def __float__(self) -> float:
        return float(self._known("float"))

    def __complex__(self) -> complex:
        return complex(self._known("complex"))

    def __index__(self) -> int:
        return self._known("index").__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._known("numpy.asarray"), dtype=dtype)

    def __dlpack__(self, **options: Any) -> NoReturn:
        # PyTorch asks for this first, and would read the tensor element by element without it
        raise self.no_value("from_dlpack")

    def __dlpack_device__(self) -> NoReturn:
        raise self.no_value("from_dlpack")

    def __jax_array__(self) -> NoReturn:
        raise self.no_value("jax.numpy")

    def __reduce__(self) -> NoReturn:
        raise self.no_value("pickle")

    def __len__(self) -> int:
        size = super().__len__()
        if not isinstance(size, int):
            raise ConcretizationError(
                f"len() of an array with the symbolic size {size}",
                notes=[self._describe()],
                fix="use x.shape[0], which computes with symbolic sizes",
            )
        return size

    def __format__(self, spec: str) -> str:
        known = self.concrete
        if known is None:
            return repr(self)
        return format(known.item() if not known.shape else known, spec)

    def __repr__(self) -> str:
        return f"TracedTensor({self._describe()})"

    def _known(self, action: str) -> np.ndarray:
        if not is_open(self.value.graph):
            raise leaked(self)
        known = self.concrete
        if known is None:
            raise self.no_value(action)
        return known

    def no_value(self, action: str, fix: str | None = None) -> ConcretizationError:
        """The error for an `action` that needs the numbers of a traced tensor.

        `fix` is the advice, if the usual one does not help.
        """
        name, who = self.value.graph.name, _WHO.get(action, f"{action}()")
        return ConcretizationError(
            f"{who} needs the numbers of a tensor, which it has not while `{name}` is traced",
            notes=[self._describe()],
            fix=fix or fix_for(action, user_source()),
        )

    def _describe(self) -> str:
        value = self.value
        if value.node is None:
            return f"{value.type}   {value.origin or 'a parameter'}"
        return f"{value.type}   made by {value.node.op.name} at {value.node.source}"


def fix_for(action: str, source: Source | None = None) -> str:
    """What to do instead of an action that needs numbers, in a line of the user's."""
    word = source.text.split(maxsplit=1)[0] if action == "bool" and source and source.text else ""
    return _STATEMENTS.get(word) or _FIXES.get(action, _FIXES[""])


_WHO = {"index": "a shape, range() or an index of a list"}
_FIXES = {
    "bool": "use rlx.cond(test, yes, no, *operands) to run one of two functions, "
    "rlx.numpy.where(test, a, b) to\nchoose elementwise, or @rlx.autograph below @rlx.jit, which "
    "rewrites `if`; or make the argument\na Python value with static_argnames",
    "": "keep to rlx.numpy functions in traced code, or make the argument a Python value with "
    "static_argnames",
    "pickle": "return the tensor from the traced function and pickle the result",
    "numpy.asarray": "use rlx.numpy instead of numpy in traced code, or make the argument a "
    "Python value with static_argnames",
    "from_dlpack": "use rlx.numpy instead of the other library in traced code, or call it with the "
    "numbers by\nrlx.pure_callback",
    "jax.numpy": "use rlx.numpy instead of jax.numpy, or wrap the function of JAX: rlx.from_jax(f)",
    "index": "make the argument a Python value with static_argnames; use rlx.fori_loop instead of "
    "range(),\nand the tensor itself as an index of arrays",
}


_STATEMENTS = {  # that ask for a bool
    "while": "use rlx.while_loop(test, body, value), or @rlx.autograph below @rlx.jit, which "
    "rewrites `while`;\nor make the argument a Python value with static_argnames",
    "assert": "use rlx.check(condition, message), which compiled code tests, too",
}


# -- the error for a tensor that outlived its trace: who made it, and who still holds it -----------


def leaked(tensor: TracedTensor) -> LeakedTracerError:
    """The error for a leaked tensor: the line that made it, and what holds it."""
    error = builder.leaked(tensor.value)
    holder = holder_of(tensor)
    if holder:
        error.notes = (*error.notes, f"held by {holder}")
    return error


def holder_of(thing: object) -> str:
    """Name what outside of the running frames refers to a thing, or give ""."""
    for referrer in gc.get_referrers(thing):
        if isinstance(referrer, FrameType):
            continue
        if isinstance(referrer, dict):
            name = _name_in_dict(referrer, thing)
        elif isinstance(referrer, list | set | tuple):
            name = _name_of_container(referrer)
        else:
            name = _name_in_object(referrer, thing)
        if name:
            return name
    return ""


def _name_in_dict(table: dict[Any, Any], thing: object) -> str:
    key = next((k for k, v in table.items() if v is thing), None)
    if key is None:
        return ""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module) is table:
            return f'the global variable "{key}" of module {module.__name__}'
    for owner in gc.get_referrers(table):
        if _attributes(owner) is table:
            return f"the attribute .{key} of a {type(owner).__name__}"
    return f"a dict, under the key {key!r}" + _variable_of(table)


def _name_of_container(container: list[Any] | set[Any] | tuple[Any, ...]) -> str:
    name = _variable_of(container)
    # nameless tuples are mostly the arguments of the running call
    if isinstance(container, tuple) and not name:
        return ""
    return f"a {type(container).__name__}{name}"


def _name_in_object(owner: object, thing: object) -> str:
    if type(owner).__name__ == "cell":
        for function in gc.get_referrers(*gc.get_referrers(owner)):
            if isinstance(function, FunctionType) and function.__closure__:
                pairs = zip(function.__code__.co_freevars, function.__closure__, strict=True)
                name = next((n for n, cell in pairs if cell is owner), None)
                if name:
                    return f'the variable "{name}" used by the function {function.__qualname__}'
        return ""
    attributes = _attributes(owner) or {}
    name = next((k for k, v in attributes.items() if v is thing), None)
    return f"the attribute .{name} of a {type(owner).__name__}" if name else ""


def _attributes(owner: object) -> dict[str, Any] | None:
    if isinstance(owner, ModuleType | FrameType | type | dict | list | tuple):
        return None
    try:
        return vars(owner)
    except TypeError:
        return None


def _variable_of(container: object) -> str:
    """The global variable that names a container, as ` "saved" of module m`."""
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is container:
                return f', the global variable "{name}" of module {module.__name__}'
    return ""
