"""Graphs built op by op: objects that the user fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, final

import numpy as np

from .. import lax, nn, numpy as rnp
from ..ir import graph as ir
from ..ir.builder import Builder, reopened
from ..ir.errors import ArgumentError
from ..ir.graph import OPS
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import spec
from ..trace.tensor import TracedTensor


@final
class Graph(ir.Graph):
    """A graph to be filled: inputs and parameters, ops as methods, outputs.

    `name` is what errors and reports call it. Every function of `rlx.numpy`, `rlx.nn.functional`
    and `rlx.lax` is a method: `g.matmul(x, w)`. In a block `with g:` operators work, too.
    `Session.compile` compiles it as the function it stands for; its inputs and parameters have the
    names that `run` and `set_param` use.

    >>> import rlx
    >>> g = Graph("hello")
    >>> x = g.input("x", (1, 2))
    >>> w = g.param("w", (2, 2))
    >>> g.set_outputs([g.matmul(x, w)])
    >>> compiled = rlx.Session("cpu").compile(g)
    >>> compiled.set_param("w", [[1.0, 0.0], [0.0, 2.0]])
    >>> compiled.run(x=[[4.0, 3.0]]).tolist()
    [[4.0, 6.0]]
    """

    is_built = True

    def __init__(self, name: str = "graph") -> None:
        super().__init__(name)
        self._builder = Builder(name, self)
        self._names: list[str] = []
        self._opened: list[AbstractContextManager[None]] = []

    def input(self, name: str, shape: Any, dtype: Any = "float32") -> TracedTensor:
        """Add an input, an array that each call is given, and return its tensor.

        A `name` that the graph has already is an `ArgumentError`. `shape` and `dtype` are its type;
        a name in the shape is an open size.
        """
        if name in self._names:
            raise ArgumentError(
                f"the graph {self.name} has {name!r} already",
                fix="give each input and parameter a name of its own",
            )
        self._names.append(name)
        origin = f"argument {len(self.params)} of {self.name}, {name}"
        return TracedTensor(self.add_param(spec(shape, dtype), origin))

    def param(self, name: str, shape: Any, dtype: Any = "float32") -> TracedTensor:
        """Add a parameter: an input that `set_param` or `bind` may set for all calls.

        `name`, `shape` and `dtype` are as for `input`; returns its tensor.
        """
        return self.input(name, shape, dtype)

    def constant(self, array: Any) -> TracedTensor:
        """An array whose elements become a part of the graph: those of `array`."""
        with self:
            return TracedTensor(OPS["constant"].lift(np.asarray(array)))

    def set_outputs(self, outputs: Any) -> None:
        """Say what the graph returns: `outputs` is one of its tensors, or a list of them.

        Anything else is an `ArgumentError`.
        """
        many = outputs if isinstance(outputs, list | tuple) else [outputs]
        for i, each in enumerate(many):
            if not isinstance(each, TracedTensor) or not self.owns(each.value):
                raise ArgumentError(
                    f"output {i} is a {type(each).__name__} that {self.name} did not make",
                    fix="give what its methods gave, as g.set_outputs([g.matmul(x, w)])",
                )
        self._check_closed()
        self.results = [each.value for each in many]

    def _check_closed(self) -> None:
        if self._builder.captures:
            kinds = ", ".join(str(value.type) for value in self._builder.capture_params)
            raise ArgumentError(
                f"the graph {self.name} uses arrays from outside: {kinds}",
                fix="make each a parameter, g.param(name, shape), or a part of it, g.constant(x)",
            )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        rooms = () if name.startswith("_") else ROOMS  # which load some names when asked for them
        found = next(filter(None, (getattr(room, name, None) for room in rooms)), None)
        if not callable(found):
            raise AttributeError(
                f"a Graph has no op {name!r}, nor has rlx.numpy", name=name, obj=self
            )

        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = pytree.map(self._operand, (args, kwargs))
            with self:
                return found(*args, **kwargs)

        return call

    def _operand(self, x: Any) -> Any:
        """An operand as it is, or an array from outside as a constant."""
        is_array = isinstance(x, np.ndarray | Array) and np.ndim(x) > 0
        return self.constant(x) if is_array else x

    def __enter__(self) -> Graph:
        self._opened.append(opened := reopened(self._builder))
        opened.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.pop().__exit__(kind, error, traceback)


ROOMS: Sequence[Any] = (rnp, nn.functional, nn, lax)
