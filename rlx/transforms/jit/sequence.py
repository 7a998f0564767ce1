"""Sequences of calls of compiled functions, made without Python between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from ...ir.errors import ArgumentError, DonatedError, ShapeError, StructureError
from ...ir.graph import Graph, Value
from ...ir.memory import Memory
from ...ir.record import record
from ...ir.tracebacks import boundary
from ...ir.types import Type
from ...runtime import Executable, Plan, PlannedCall
from ...runtime.arrays import prepare
from ...runtime.compiled import CompiledCode
from ...runtime.session import default_session
from ...trace import pytree
from ...trace.array import Array
from ...trace.make_graph import check_function, function_name
from .compiled import Compiled

SIDES = "the arguments it was recorded for", "the given ones"


@final
class Placeholder:
    """Stands for an array while calls are recorded."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<array {self.number} of a sequence>"


@record
class Recorded:
    """A call of compiled code: numbers of arrays, or constants, and of its results."""

    code: CompiledCode
    args: tuple[Any, ...]
    results: tuple[int, ...]


@boundary
def sequence(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> CallSequence:
    """Record the calls of compiled functions that `fn` makes, to replay them as one.

    `fn(call, *args)` is run once, with placeholders for the arrays in `args`, whose shapes and
    numbers do not matter. It makes each call as `call(compiled, *arguments)`, gets placeholders for
    results, may hand those on, and returns a tree of them. Arguments that are arrays are constants.
    What a call donates, the sequence donates. Open sizes of one name must be one size. On `cpu` no
    Python runs between the calls; elsewhere they are made one by one.

    Returns a function of `args`. Raises an `ArgumentError` for `kwargs` (all go by position), for
    arguments that `fn` does not take, for what is not compiled, or compiled for another device; a
    `ShapeError` where a result does not fit the call it is handed to; a `DonatedError` for a use of
    what was donated.

    >>> import rlx
    >>> x = rlx.array([1.0, 2.0])
    >>> layer = rlx.jit(lambda w, x: rlx.numpy.tanh(w * x)).lower(x, x).compile()
    >>> layers = [layer.with_bound(w=rlx.array([i, 1.0])) for i in (1.0, 2.0, 3.0)]
    >>> def stack(call, x):
    ...     for each in layers:
    ...         x = call(each, x)
    ...     return x
    >>> rlx.sequence(stack, x)(x).shape
    (2,)
    """
    check_function(fn, "what sequence records")
    _check_arguments(fn, args, kwargs)
    leaves, tree = pytree.flatten(args)
    recorder = Recorder(function_name(fn), len(leaves))
    out = fn(recorder.call, *pytree.unflatten(tree, map(Placeholder, range(len(leaves)))))
    return CallSequence(recorder, _origins(fn, args), tree, out)


class Recorder:
    """Calls as they are recorded."""

    def __init__(self, name: str, inputs: int) -> None:
        self.name, self.inputs = name, inputs
        self.types: list[Type | None] = [None] * inputs  # of arrays; an input's by its first use
        self.calls: list[Recorded] = []
        self.donated: dict[int, str] = {}  # arrays, and by which function

    def call(self, compiled: Compiled, *args: Any, **kwargs: Any) -> Any:
        """Record a call of a `compiled` function; gives placeholders for its results."""
        if not isinstance(compiled, Compiled):
            raise ArgumentError(
                f"{self.name} calls a {type(compiled).__name__}, not a compiled function",
                fix="compile it: rlx.jit(fn).lower(*arguments).compile()",
            )
        if self.calls and compiled.device != self.calls[0].code.device:
            raise ArgumentError(
                f"{self.name} calls functions for {self.calls[0].code.device} and "
                f"{compiled.device}",
                fix="compile all of them for one device",
            )
        code, arrays, unflatten = compiled._ready("call", args, kwargs)
        params, name = code.signature.params, code.signature.name
        memory, pairs = code.executable.memory, zip(arrays, params, strict=True)
        taken = [self._taken(x, p, name, memory) for x, p in pairs]
        for i in code.donated:
            if not isinstance(taken[i], int) or taken.count(taken[i]) > 1:
                raise ArgumentError(
                    f"{self.name}: {name} is given what it donates as a constant, or twice",
                    fix="hand it the result of a call, or an argument of the sequence",
                )
            self.donated[taken[i]] = name
        numbers = range(len(self.types), len(self.types) + len(code.signature.results))
        self.types += code.signature.result_types
        self.calls.append(Recorded(code, tuple(taken), tuple(numbers)))
        return unflatten(tuple(map(Placeholder, numbers)))

    def _taken(self, given: Any, param: Value, name: str, memory: Memory | None) -> Any:
        """What a call takes: the number of an array, or a constant."""
        if not isinstance(given, Placeholder):
            (constant,) = prepare([param], [given], name, memory)
            return constant if isinstance(given, Array) else np.array(constant)
        number = given.number
        if number in self.donated:
            raise DonatedError(
                f"{self.name}: {name} is given an array that was donated to "
                f"{self.donated[number]} before",
                fix="use the array that the call returned instead",
            )
        known = self.types[number]
        if known is None:
            known = self.types[number] = param.type
        if known != param.type:
            raise ShapeError(
                f"{self.name}: {param.origin or 'an argument'} of {name} is {param.type}, "
                f"but the array it is given is {known}",
                fix="hand it an array of that type; open sizes that are one have one name",
            )
        return number

    def outputs(self, out: Sequence[Any]) -> list[int]:
        """The numbers of the arrays that it returns, which calls gave."""
        made = {x for call in self.calls for x in call.results} - self.donated.keys()
        numbers = [x.number if isinstance(x, Placeholder) else -1 for x in out]
        if numbers and made.issuperset(numbers):
            return numbers
        raise ArgumentError(
            f"{self.name} returns something that no call returned, or that was donated",
            fix="return what `call` gave: an array, or a tree of arrays",
        )


@final
class CallSequence(CompiledCode):
    """Calls of compiled functions that are made as one; `rlx.sequence` records them.

    A `recorder` has the calls, `origins` the names of the leaves of the arguments, whose structure
    is `tree`; `out` are the placeholders that are returned. It is called with arguments like those
    it was recorded for; others are a `StructureError`. Any number of threads may call it at once.
    """

    def __init__(
        self, recorder: Recorder, origins: Sequence[str], tree: pytree.Structure, out: Any
    ) -> None:
        leaves, self._out_tree = pytree.flatten(out)
        numbers = recorder.outputs(leaves)
        self._outputs = list(dict.fromkeys(numbers))
        self._places = [self._outputs.index(x) for x in numbers]
        self._tree, self._calls, types = tree, recorder.calls, recorder.types
        self._used = [i for i in range(recorder.inputs) if types[i] is not None]
        self.signature = Graph(recorder.name)
        for i in self._used:
            self.signature.add_param(_known(types[i]), origins[i])
        self.signature.results = [Value(_known(types[x]), self.signature) for x in self._outputs]
        self.donated = tuple(self._used.index(x) for x in recorder.donated if x in self._used)
        first = self._calls[0].code
        self.device, self.queue, self.precision = first.device, first.queue, first.precision
        whole = self._whole(types)
        self._is_whole = whole is not None
        if whole is not None:
            self.executable = whole

    def _whole(self, types: Sequence[Type | None]) -> Executable | None:
        """One executable for all calls, where the device has such."""
        if any(call.code.executable.native is None for call in self._calls):
            return None
        numbers = [*self._used, *(x for call in self._calls for x in call.results)]
        order = {old: new for new, old in enumerate(numbers)}
        plan = Plan(
            tuple(_known(types[x]) for x in numbers),
            len(self._used),
            tuple(_planned(call, order) for call in self._calls),
            tuple(order[x] for x in self._outputs),
        )
        return default_session(self.device).backend.sequence(plan, Array)

    def __repr__(self) -> str:
        return f"<{len(self._calls)} calls in sequence, {self.signature.signature}>"

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise _by_position(self.signature.name, kwargs)
        leaves, tree = pytree.flatten(args)
        if tree != self._tree:
            place = pytree.difference(self._tree, tree, "the arguments", SIDES)
            raise StructureError(
                f"{self.signature.name} was recorded for other arguments: {place}",
                fix="pass arguments with the containers and keys it was recorded for",
            )
        given = [leaves[i] for i in self._used]
        made = self._call(*given) if self._is_whole else self._in_turn(given)
        made = made if isinstance(made, tuple) else (made,)
        return pytree.unflatten(self._out_tree, [made[i] for i in self._places])

    def _in_turn(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Make the calls one by one."""
        arrays = dict(zip(self._used, given, strict=True))
        for call in self._calls:
            taken = [arrays[x] if isinstance(x, int) else x for x in call.args]
            made = call.code._call(*taken)
            arrays |= zip(call.results, made if isinstance(made, tuple) else (made,), strict=True)
        return tuple(arrays[x] for x in self._outputs)


def _known(type: Type | None) -> Type:
    assert type is not None, "a call took the array, or gave it"
    return type


def _planned(call: Recorded, order: Mapping[int, int]) -> PlannedCall:
    """A call as a backend sees it; `order` are the numbers of arrays there."""
    code, executable = call.code, call.code.executable
    args = tuple(order[x] if isinstance(x, int) else x for x in call.args)
    results = tuple(order[x] for x in call.results)
    reused = executable.reused_memory(code.donated) if code.donated else {}
    taken = {results[result]: args[given] for result, given in reused.items()}
    return PlannedCall(executable.native, args, tuple(executable.held), results, taken)


def _check_arguments(fn: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
    """Raise if `fn` does not take `call` and these."""
    name = function_name(fn)
    if kwargs:
        raise _by_position(name, kwargs)
    try:
        signature = inspect.signature(fn)
    except ValueError:
        raise ArgumentError(
            f"sequence: {name} does not tell its arguments",
            fix=f"wrap it: lambda call, x: {name}(x)",
        ) from None
    try:
        signature.bind(None, *args)
    except TypeError as wrong:
        raise ArgumentError(
            f"sequence: {name}{signature} is called with `call` and {len(args)} more: {wrong}",
            fix=f"write def {name}(call, ...), and pass what it takes behind `call`",
        ) from None


def _by_position(name: str, kwargs: Mapping[str, Any]) -> ArgumentError:
    return ArgumentError(
        f"the arguments of the sequence {name} go by position, {', '.join(kwargs)} by keyword",
        fix=f"leave out the names: {', '.join(f'{key}=' for key in kwargs)}",
    )


def _origins(fn: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """What each leaf of the arguments is, for errors."""
    names = [p.name for p in inspect.signature(fn).parameters.values()][1:]
    names += [f"argument{i}" for i in range(len(names), len(args))]  # of *args
    return [
        f"argument {i} of {function_name(fn)}, {name}{path}"
        for i, (name, arg) in enumerate(zip(names, args, strict=False))
        for path in pytree.paths(pytree.structure(arg))
    ]
