"""`export`: a function as a file that runs without its code.

    rlxexprt | version u32 | lengths of header, graph, weights u64 | checksum 16 | these three

The header is JSON: the structures of arguments and results, and dtype, shape and place of each
weight. The graph is as `ir/serialize.py` writes it; its last parameters stand for the weights. The
checksum (blake2b) covers all but itself. What is not exactly such a file is refused with a
`FileFormatError`; nothing in it is executed but the graph, when it is called.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..ir.bind import bind_sizes, concretize, is_symbolic, substituted
from ..ir.config import config
from ..ir.errors import (
    ArgumentError,
    DtypeError,
    FileFormatError,
    GradientError,
    RlxError,
    ShapeError,
    StructureError,
)
from ..ir.files import read_file, write_file
from ..ir.fingerprint import is_portable
from ..ir.graph import Graph, Node
from ..ir.serialize import dumps, loads
from ..ir.tracebacks import boundary
from ..ir.types import DTYPES, Type
from ..lower.hir import expand, inline_calls
from ..runtime.compiled import CompiledGraph, parameter_names
from ..runtime.constants import hold_constants
from ..runtime.devices import default_device
from ..runtime.session import CompileOptions, default_session
from ..trace import pytree
from ..trace.apply import as_leaf, as_tensor, is_weak, operand_type
from ..trace.array import Array
from ..trace.make_graph import Traced, check_function, function_name, trace
from ..trace.placement import check_unplaced, common_device
from ..trace.promotion import convert
from ..trace.tensor import TracedTensor
from ..transforms.custom import custom_jvp
from ..transforms.run_graph import run_graph
from .trees import FIX, LEAF, count_leaves, described, filled

# -- the arguments of exported functions: their names, and errors in calls -------------------------


class Parameter(NamedTuple):
    """An argument: its name, whether it is passed by it, and what it is."""

    name: str
    by_name: bool
    what: str

    def __str__(self) -> str:
        return f"{self.name}={self.what}" if self.by_name else f"{self.name}: {self.what}"


def parameters_of(inputs: Any, origins: Sequence[str], types: Sequence[Type]) -> list[Parameter]:
    """The arguments of what was exported, with the names of their leaves.

    An origin is `argument 0 of loss, params["w"]`.
    """
    positional, named = inputs["tuple"]
    rows = [(None, tree) for tree in positional["tuple"]] + [tuple(row) for row in named["dict"]]
    found: list[Parameter] = []
    start = 0
    for i, (key, tree) in enumerate(rows):
        count = count_leaves(tree)
        path = origins[start].partition(", ")[2] if count else ""
        name = key or path.partition("[")[0].partition(".")[0]
        if not name.isidentifier() or name in [p.name for p in found]:
            name = f"argument_{i}"
        what = str(types[start]) if tree == LEAF else _container_name(tree)
        found.append(Parameter(name, key is not None, what))
        start += count
    return found


def _container_name(tree: Any) -> str:
    return "None" if tree is None else f"a {next(iter(tree))} of {count_leaves(tree)} arrays"


def is_call(inputs: Any) -> bool:
    """Whether a structure is one of positional arguments and named ones."""
    match inputs:
        case {"tuple": [{"tuple": [*_]}, {"dict": [*rows]}]}:
            return all(isinstance(key, str) for key, _ in rows)
    return False


def signature_of(parameters: Sequence[Parameter]) -> inspect.Signature:
    """What Python's tools show."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter(p.name, kinds[p.by_name]) for p in parameters])


def wrong_arguments(
    function: str, wanted: Sequence[Parameter], exported: Any, given: Any
) -> StructureError:
    """The error for arguments in other containers, or passed in another way."""
    positional, named = given["tuple"]
    count, keys = len(positional["tuple"]), [key for key, _ in named["dict"]]
    expected = [p.name for p in wanted if p.by_name]
    if count == len(wanted) - len(expected) and sorted(keys) == sorted(expected):
        return StructureError(
            f"{function} was exported for other containers of arguments",
            notes=[f"exported: {json.dumps(exported)}", f"given: {json.dumps(given)}"],
            fix="call it with the containers, keys and lengths it was exported for",
        )
    words = [p.name if not p.by_name else f"{p.name}=..." for p in wanted]
    return StructureError(
        f"{function} takes {_listed(wanted)}; it was given {_given(count, keys)}",
        fix=f"call it as {function}({', '.join(words)})",
    )


def _listed(wanted: Sequence[Parameter]) -> str:
    if not wanted:
        return "no arguments"
    ways = {p.by_name for p in wanted}
    way = "" if len(ways) == 2 else " by keyword" if ways == {True} else " by position"
    return ", ".join(map(str, wanted)) + way


def _given(count: int, keys: Sequence[str]) -> str:
    parts = [f"{count} positional argument{'s' * (count != 1)}"] if count else []
    parts += [f"{', '.join(keys)} by keyword"] if keys else []
    return " and ".join(parts) or "no arguments"


def check_type(function: str, given: Type, wanted: Type, name: str) -> None:
    """Raise if an argument has another dtype, rank or known size than was exported."""
    what = f"{function} was exported for {name}: {wanted}, it was given {given}"
    if given.dtype != wanted.dtype:
        fix = f"convert it: x.astype({wanted.dtype.name!r})"
        raise DtypeError(what, fix=fix)
    if given.rank != wanted.rank:
        fix = f"pass an array of {wanted.rank} axes"
        fix += "; x[None] has one more in front" if given.rank == wanted.rank - 1 else ""
        raise ShapeError(what, fix=fix)
    for axis, (n, size) in enumerate(zip(given.shape, wanted.shape, strict=True)):
        if isinstance(size, int) and n != size:
            fix = f"pass an array whose axis {axis} has the size {size}"
            raise ShapeError(what, fix=fix)


MAGIC = b"rlxexprt"
VERSION = 1
ALIGNMENT = 64  # of each weight
_LENGTHS = struct.Struct("<IQQQ")
_CHECKSUM = 16
_PREFIX = len(MAGIC) + _LENGTHS.size + _CHECKSUM
# what contents of unexpected form can lead to
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def export(fun: Callable[..., Any], *specs: Any, **named: Any) -> Exported:
    """Record a function for arguments like `specs`, to be kept in a file.

    Arguments that `fun` takes by keyword are `named`. What it uses from outside, such as the
    weights of a model, is kept with it. Sizes may be symbolic. Arguments and results are arrays in
    lists, tuples, named tuples and dicts. Returns an `Exported`.

    >>> import rlx
    >>> weights = rlx.numpy.array([1.0, 2.0])
    >>> data = export(lambda x: x @ weights, rlx.spec(("n", 2))).serialize()
    >>> load_exported(data)(rlx.numpy.ones((3, 2))).tolist()
    [3.0, 3.0, 3.0]
    """
    check_function(fun, "what export keeps")
    traced = trace(fun, specs, named)
    name, graph = function_name(fun), traced.graph
    check_unplaced(graph, "export")
    of_user = [node.op for node in graph.walk() if node.op.rules.of_user]
    has_rules = not is_portable(graph) or any(op.rules.jvp is not None for op in of_user)
    if has_rules:  # rules are Python functions; what they are rules of is not
        graph = inline_calls(graph, keep_recomputed=False)
    if of_user:
        graph = expand(graph, lambda node: not node.op.rules.of_user)
    for node in graph.walk():
        _check_is_known(node)
    return Exported(
        graph,
        host_captures(traced, "export"),
        described(traced.in_tree, f"the arguments of {name}"),
        described(traced.out_tree, f"the results of {name}"),
        has_rules,
    )


def _check_is_known(node: Node) -> None:
    """Raise if a node needs Python functions of the user."""
    if node.op.rules.runs_python:
        raise FileFormatError(
            f"{node.op.name} calls a Python function, which no file can hold",
            where=str(node.source),
            fix="call it before or after what is exported, or give an op of yours a `defformula`",
        )


def load_exported(source: str | Path | bytes) -> Exported:
    """Read what `export` has kept, from a file or from bytes.

    `source` is a path or the bytes. Returns an `Exported`; a damaged file is a `FileFormatError`.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _read(bytes(source))
    return read_file(source, _read)


@final
class Exported:
    """A function without its code: call it as the one that was exported.

    `export` and `load_exported` make it: of a `graph`, the `weights` it has from outside, and the
    structures of `inputs` and `results`.
    It can be jitted for a device, batched and differentiated as any function; but not
    differentiated if `without_rules`: derivatives that users gave to parts of it are not in a file.
    """

    def __init__(
        self,
        graph: Graph,
        weights: tuple[np.ndarray, ...],
        inputs: Any,
        results: Any,
        without_rules: bool,
    ) -> None:
        self.graph, self.weights, self.without_rules = graph, weights, without_rules
        self._inputs, self._results = inputs, results
        self._compiled: dict[Any, CompiledGraph] = {}
        self.__name__ = graph.name
        origins = [p.origin for p in graph.params]  # the arguments have the names of the function
        self.__signature__ = signature_of(parameters_of(inputs, origins, self.in_types))

    def __repr__(self) -> str:
        return f"<{self.graph.signature} exported>"

    @property
    def in_types(self) -> tuple[Type, ...]:
        """The types of the leaves of the arguments."""
        count = len(self.graph.params) - len(self.weights)
        return tuple(self.graph.param_types[:count])

    @property
    def out_types(self) -> tuple[Type, ...]:
        """The types of the leaves of the results."""
        return tuple(self.graph.result_types)

    def serialize(self) -> bytes:
        """The bytes of the file."""
        table, parts, start = [], [], 0
        for array in self.weights:
            data = array.astype(_unswapped(array.dtype), copy=False).tobytes()
            table.append({"dtype": array.dtype.name, "shape": list(array.shape), "start": start})
            parts.append(data + bytes(-len(data) % ALIGNMENT))
            start += len(parts[-1])
        contents = {"inputs": self._inputs, "results": self._results, "weights": table}
        contents["without_rules"] = self.without_rules
        header, graph = json.dumps(contents).encode(), dumps(self.graph)
        lengths = _LENGTHS.pack(VERSION, len(header), len(graph), start)
        body = b"".join([header, graph, *parts])
        return b"".join([MAGIC, lengths, _checksum(lengths, body), body])

    def __reduce__(self) -> tuple[Any, ...]:
        return load_exported, (self.serialize(),)

    def save(self, path: str | Path) -> None:
        """Write the file at `path`, atomically."""
        write_file(path, self.serialize())

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.flatten((args, kwargs))
        self._check_inputs(tree)
        given = [_operand(as_leaf(x), t) for x, t in zip(leaves, self.in_types, strict=True)]
        is_traced = any(isinstance(x, TracedTensor) for x in given)
        results = self._traced(given) if is_traced else self._at_once(given)
        return filled(self._results, iter(results))

    def _check_inputs(self, tree: pytree.Structure) -> None:
        found = described(tree, f"the arguments of {self.__name__}")
        if found != self._inputs:
            origins = [p.origin for p in self.graph.params]
            wanted = parameters_of(self._inputs, origins, self.in_types)
            raise wrong_arguments(self.__name__, wanted, self._inputs, found)

    def _check_types(self, given: Sequence[Any]) -> None:
        """Raise if an argument has another dtype, or sizes that it was not exported for."""
        names = parameter_names(self.graph)
        for x, wanted, name in zip(given, self.in_types, names, strict=False):
            check_type(self.__name__, operand_type(x), wanted, name)

    def _at_once(self, given: Sequence[Any]) -> Sequence[Any]:
        memory = common_device(self.__name__, given)
        device = default_device() if memory is None else memory.name
        key = str(device), config.settings.compiled_in
        if key not in self._compiled:
            self._compiled = {**self._compiled, key: self._compile(device)}
        try:
            found = self._compiled[key](*given, *self._passed)
        except (ShapeError, DtypeError):
            self._check_types(given)  # says what whoever has the file alone can do
            raise
        return found if isinstance(found, tuple) else (found,)

    @cached_property
    def _passed(self) -> tuple[np.ndarray, ...]:
        """The weights that each call passes; where all sizes are known, the code holds them."""
        return self.weights if is_symbolic(self.graph.param_types) else ()

    def _compile(self, device: str) -> CompiledGraph:
        held, session = self.weights[len(self._passed) :], default_session(device)
        # a device that knows no open sizes gets a program for each size it meets
        specialize = not session.backend.target.has_symbolic_sizes
        options = CompileOptions(fixed=len(held), specialize=specialize)
        return hold_constants(session.compile(self.graph, options=options), held)

    def _traced(self, given: Sequence[Any]) -> Sequence[Any]:
        """The graph recorded in the one under construction."""
        self._check_types(given)
        operands, graph = [*given, *map(Array, self.weights)], self.graph
        if is_symbolic(graph.param_types):
            shapes: Any = [operand_type(x).shape for x in operands]
            sizes = bind_sizes(graph.param_types, shapes, parameter_names(graph))
            graph = concretize(graph, sizes, substituted)
        if not self.without_rules:
            return run_graph(graph, operands)

        @custom_jvp
        def undifferentiable(*xs: Any) -> list[Any]:
            return run_graph(graph, xs)

        undifferentiable.defjvp(self._refuse)
        return undifferentiable(*operands)

    def _refuse(self, primals: Any, tangents: Any) -> NoReturn:
        raise GradientError(
            f"{self.__name__} was exported without its custom derivatives",
            fix="export its gradient: rlx.export(rlx.grad(f), ...)",
        )


def _operand(x: Any, type: Type) -> Any:
    """An argument; a Python number takes the dtype."""
    return as_tensor(convert(x, type.dtype) if is_weak(x) else x)


# -- reading --------------------------------------------------------------------------------------


def _read(data: bytes) -> Exported:
    if len(data) < _PREFIX or data[: len(MAGIC)] != MAGIC:
        _refuse(f"this is no exported function: it begins with {data[: len(MAGIC)]!r}")
    lengths = data[len(MAGIC) : len(MAGIC) + _LENGTHS.size]
    version, n_header, n_graph, n_weights = _LENGTHS.unpack(lengths)
    if version != VERSION:
        raise FileFormatError(
            f"the file has version {version}, this rlx reads version {VERSION}",
            fix="export the function again with this version of rlx",
        )
    body = data[_PREFIX:]
    if len(body) != n_header + n_graph + n_weights:
        _refuse(f"the file has {len(body)} bytes of {n_header + n_graph + n_weights}")
    if _checksum(lengths, body) != data[_PREFIX - _CHECKSUM : _PREFIX]:
        _refuse("the file was altered: its checksum differs")
    try:
        contents = json.loads(body[:n_header])
        graph = loads(body[n_header : n_header + n_graph])
        return _exported(contents, graph, body[n_header + n_graph :])
    except FileFormatError:
        raise
    except RlxError as error:
        _refuse(f"the file holds no valid function: {error.what}", error)
    except (*_DAMAGE, RecursionError, MemoryError) as error:
        _refuse(f"the header of the file is damaged: {error}", error)


def _exported(contents: dict[str, Any], graph: Graph, blob: bytes) -> Exported:
    weights = tuple(_weight(entry, blob) for entry in contents["weights"])
    inputs, results = contents["inputs"], contents["results"]
    if type(contents["without_rules"]) is not bool:
        _refuse("the header of the file is damaged: without_rules")
    count = count_leaves(inputs)
    if not is_call(inputs):
        _refuse("the header of the file is damaged: inputs")
    types = [Type(w.dtype, w.shape) for w in weights]
    if count + len(weights) != len(graph.params) or types != list(graph.param_types[count:]):
        _refuse("the file's arguments and weights are not those of its graph")
    if count_leaves(results) != len(graph.results):
        _refuse("the file's results are not those of its graph")
    return Exported(graph, weights, inputs, results, contents["without_rules"])


def _weight(entry: dict[str, Any], blob: bytes) -> np.ndarray:
    dtype, shape, start = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["start"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start)):
        _refuse("a weight of the file has no sizes")
    count = math.prod(shape)
    if start + count * dtype.itemsize > len(blob):
        _refuse("a weight lies outside of the file")
    array = np.frombuffer(blob, _unswapped(dtype), count, start).reshape(shape)
    return np.array(array, dtype)  # in memory of its own, which is aligned


def _refuse(what: str, cause: Exception | None = None) -> NoReturn:
    raise FileFormatError(what, fix=FIX) from cause


def _checksum(lengths: bytes, body: bytes) -> bytes:
    digest = hashlib.blake2b(MAGIC, digest_size=_CHECKSUM)
    digest.update(lengths)
    digest.update(body)
    return digest.digest()


def _unswapped(dtype: np.dtype) -> np.dtype:
    """The dtype in little endian; only machines of the other order need another one."""
    return dtype if sys.byteorder == "little" else dtype.newbyteorder("<")


# What a function uses from outside, as arrays on the host.


def host_captures(traced: Traced, name: str) -> tuple[np.ndarray, ...]:
    """The arrays that a function used from outside; traced tensors are refused."""
    found = []
    for thing in traced.captures:
        if not isinstance(thing, Array):
            raise ArgumentError(
                f"{name}: {traced.graph.name} uses a traced tensor from outside, {thing.type}",
                fix=f"give it to the function as an argument, or call rlx.{name} outside of traces",
            )
        found.append(np.asarray(thing.host()))
    return tuple(found)
