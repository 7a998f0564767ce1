"""Call paths: Python code written for one structure of arguments.

A jitted function meets the same containers again and again. Code that knows them takes them apart
and puts the results together in a tenth of the time of a general walk. For `f({"w": w, "b": b})`
that gives `{"y": y}` it is:

    def path(*args, **kwargs):
        try:
            if len(args) != 1 or kwargs: return MISS
            x0, = args
            if type(x0) is not dict or len(x0) != 2: return MISS
            x1 = x0['b']
            x2 = x0['w']
        except (KeyError, AttributeError):
            return MISS
        result = entry(x1, x2)
        if result is MISS: return MISS
        return {'y': result}

A structure that differs in anything gives MISS, with nothing done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

from ...ir.config import config
from ...ir.graph import Value
from ...runtime import MISS
from ...trace import pytree
from ...trace.host import PYTHON_SCALARS
from ...trace.make_graph import Traced, argument_origins, function_name
from ...trace.pytree import optree
from ...trace.tensor import TracedTensor

LITERALS = (str, int)  # keys whose text is Python code for them


@final
class Arguments:
    """The arguments that a call path is written for.

    `marked` are `given` with static values wrapped.
    """

    def __init__(
        self,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        marked: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        self.given, self.marked = given, marked


@final
class Call:
    """The arguments of a call and their leaves."""

    def __init__(self, arguments: Arguments, leaves: list[Any], tree: pytree.Structure) -> None:
        self.arguments, self.leaves, self.tree = arguments, leaves, tree
        self.settings = config.settings  # as the call begins

    @property
    def marked(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with static values wrapped."""
        return self.arguments.marked

    @property
    def is_traced(self) -> bool:
        """Whether it becomes a part of a function that is traced."""
        return any(isinstance(x, TracedTensor | Value) for x in self.leaves)

    def origins(self, fn: Callable[..., Any]) -> list[str]:
        """The name of each leaf in an error of a function."""
        return argument_origins(fn, self.marked[0], self.tree, function_name(fn))


def unless_static(given: Any, marked: Any) -> Any:
    """An argument that was read as an array; a static one as it was given."""
    return given if isinstance(marked, pytree.Static) else marked


def missed(*args: Any, **kwargs: Any) -> object:
    """The absent call path, which always gives MISS."""
    return MISS


def _or_missed(write: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
    """Give the absent path for containers deeper than Python's recursion limit."""

    @functools.wraps(write)
    def written(*args: Any) -> Callable[..., Any]:
        try:
            return write(*args)
        except RecursionError:
            return missed

    return written


@_or_missed
def call_path(
    entry: Callable[..., Any],
    traced: Traced,
    arguments: Arguments,
    scalars: Mapping[int, type | None],
    held: Sequence[Any],
) -> Callable[..., Any]:
    """Make the call path to `entry` for arguments like these.

    `scalars` has, for each leaf, the Python type of a number, or None for an array. The `held`
    arrays are passed after the arguments.
    """
    writer = _Writer()
    given = writer.given(entry, traced, arguments, scalars, held)
    writer.line(f"result = entry({', '.join(given)})")
    writer.line("if result is MISS: return MISS")
    writer.results(traced.out_tree)
    return writer.function("def path(*args, **kwargs):")


@_or_missed
def into_path(
    entry: Callable[..., Any],
    traced: Traced,
    arguments: Arguments,
    scalars: Mapping[int, type | None],
    held: Sequence[Any],
    out: Any,
) -> Callable[..., Any]:
    """Make the path to `entry(*arrays, *held, *outs)`, which writes to `outs`.

    It is called with `args`, `kwargs` and the tree of arrays.
    """
    writer = _Writer()
    given = writer.given(entry, traced, arguments, scalars, held, out)
    writer.line(f"return entry({', '.join(given)})")
    return writer.function("def path(args, kwargs, out):")


@final
class _Writer:
    """Writes the code of a call path; `names` are its globals."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._depth, self._count = 1, 0

    def line(self, text: str) -> None:
        """Add a line of code."""
        self.lines.append("    " * self._depth + text)

    def fresh(self) -> str:
        """A new name for a value."""
        self._count += 1
        return f"x{self._count}"

    def bind(self, thing: Any) -> str:
        """A name for a thing that exists."""
        name = f"k{len(self.names)}"
        self.names[name] = thing
        return name

    def need(self, condition: str) -> None:
        """Give MISS unless a condition holds."""
        self.line(f"if not ({condition}): return MISS")

    def function(self, head: str) -> Callable[..., Any]:
        """Compile the lines to a function.

        What its code knows comes with the function and goes with it: no cycle holds it, as one with
        globals of its own would.
        """
        lines = [f"def make({', '.join(self.names)}):", head, *self.lines]
        text = "\n    ".join([*lines, "return path"])
        return _maker(text)(*self.names.values())

    # -- arguments ------------------------------------------------------------------------------

    def given(
        self,
        entry: Callable[..., Any],
        traced: Traced,
        arguments: Arguments,
        scalars: Mapping[int, type | None],
        held: Sequence[Any],
        out: Any = MISS,
    ) -> list[str]:
        """Check and flatten what a call gives, and tell the names of what `entry` takes."""
        self.names |= {"MISS": MISS, "entry": entry, "NUMBERS": PYTHON_SCALARS}
        outs: list[str] = []
        self.line("try:")
        self._depth += 1
        leaves = self.arguments(traced.in_tree, arguments)
        for i, kind in scalars.items():
            self.scalar(leaves[i], kind)
        if out is not MISS:
            self.take(traced.out_tree, out, "out", outs)
        self._depth -= 1
        self.lines += ["    except (KeyError, AttributeError):", "        return MISS"]
        return [*leaves, *map(self.bind, held), *outs]

    def arguments(self, in_tree: pytree.Structure, arguments: Arguments) -> list[str]:
        """Flatten `args` and `kwargs`, and give the names of the leaves."""
        leaves: list[str] = []
        (given, named), (marked, marked_named) = arguments.given, arguments.marked
        positional, keywords = in_tree.children()
        self.need(f"len(args) == {len(given)} and len(kwargs) == {len(named)}")
        places = [self.fresh() for _ in given]
        if places:
            self.line(f"{', '.join(places)}, = args")
        for spec, was, now, name in zip(positional.children(), given, marked, places, strict=True):
            self._argument(spec, was, now, name, leaves)
        for key, spec in zip(keywords.entries(), keywords.children(), strict=True):
            name = self.fresh()
            self.line(f"{name} = kwargs[{key!r}]")
            self._argument(spec, named[key], marked_named[key], name, leaves)
        return leaves

    def _argument(
        self, spec: pytree.Structure, given: Any, marked: Any, name: str, leaves: list[str]
    ) -> None:
        if given is marked:
            self.take(spec, given, name, leaves)
        else:
            self._same(name, given)

    def scalar(self, name: str, kind: type | None) -> None:
        """Require a Python number of a type, or none."""
        self.need(f"type({name}) is {self.bind(kind)}" if kind else f"type({name}) not in NUMBERS")

    def take(self, spec: pytree.Structure, like: Any, name: str, leaves: list[str]) -> None:
        """Flatten a tree of a known structure, and add the names of its leaves."""
        if spec.is_leaf():
            leaves.append(name)
            return
        kind: Any = spec.type
        if like is None:
            self.need(f"{name} is None")
            return
        fields = pytree.fields_of(kind)
        children = spec.children()
        if kind is dict:
            self.need(f"type({name}) is dict and len({name}) == {len(children)}")
            keys = spec.entries()
            items = [(f"{name}[{self._key(key)}]", like[key]) for key in keys]
        elif kind in (tuple, list) or optree.is_namedtuple_class(kind):
            self.need(f"type({name}) is {self._type(kind)} and len({name}) == {len(children)}")
            items = [(f"{name}[{i}]", x) for i, x in enumerate(like)]
        elif fields is not None:
            self.need(f"type({name}) is {self._type(kind)}")
            values = name
            if fields.make is not None:  # a module: its attributes do more than give what is there
                values = self.fresh()
                self.line(f"{values} = {name}.__dict__")
            read = f"{values}.{{}}" if values is name else f"{values}[{{!r}}]"
            items = [(read.format(field), getattr(like, field)) for field in fields.names]
            for field in fields.static:
                fixed = self.fresh()
                self.line(f"{fixed} = {read.format(field)}")
                self._same(fixed, getattr(like, field))
        else:
            items = self._flattened(kind, like, name)
        for child, (code, part) in zip(children, items, strict=True):
            inner = self.fresh()
            self.line(f"{inner} = {code}")
            self.take(child, part, inner, leaves)

    def _flattened(self, kind: Any, like: Any, name: str) -> list[tuple[str, Any]]:
        """The children of a class that is registered with a function to flatten it."""
        registered = optree.register_pytree_node.get(kind, namespace=pytree.NAMESPACE)
        assert registered is not None, "a container's class is registered"
        flatten = registered.flatten_func
        children, fixed = flatten(like)[:2]
        children = tuple(children)
        self.need(f"type({name}) is {self._type(kind)}")
        parts, data = self.fresh(), self.fresh()
        self.line(f"{parts}, {data} = {self.bind(flatten)}({name})[:2]")
        self.line(f"{parts} = tuple({parts})")
        self.need(f"len({parts}) == {len(children)} and {data} == {self.bind(fixed)}")
        return [(f"{parts}[{i}]", x) for i, x in enumerate(children)]

    def _same(self, name: str, value: Any) -> None:
        """Require a value that belongs to the structure."""
        known, same = self.bind(value), self.bind(pytree.Static(value).__eq__)
        static = self.bind(pytree.Static)
        self.need(f"{name} is {known} or {same}({static}({name}))")

    def _type(self, kind: type) -> str:
        return kind.__name__ if kind in (tuple, list, dict) else self.bind(kind)

    def _key(self, key: Any) -> str:
        return repr(key) if type(key) in LITERALS else self.bind(key)

    # -- results --------------------------------------------------------------------------------

    def results(self, out_tree: pytree.Structure) -> None:
        """Return the results in their structure."""
        names = ["result"]
        if out_tree.num_leaves != 1:
            names = [self.fresh() for _ in range(out_tree.num_leaves)]
            if names:
                self.line(f"{', '.join(names)}, = result")
        self.line(f"return {self._given(out_tree, iter(names))}")

    def _given(self, spec: pytree.Structure, names: Iterator[str]) -> str:
        """The code of a tree of results."""
        if spec.is_leaf():
            return next(names)
        if spec.type is type(None):
            return "None"
        kind: Any = spec.type
        children = [self._given(child, names) for child in spec.children()]
        made = self.fresh()
        self.line(f"{made} = {self._built(spec, kind, children)}")
        return made

    def _built(self, spec: pytree.Structure, kind: Any, children: Sequence[str]) -> str:
        if kind is tuple:
            return f"({''.join(f'{child}, ' for child in children)})"
        if kind is list:
            return f"[{', '.join(children)}]"
        level = spec.one_level()
        assert level is not None, "a container has a level of its own"
        if kind is dict:
            # in the order of the dict that the function returned
            order: Any = optree.tree_unflatten(level, range(len(children)))
            return f"{{{', '.join(f'{self._key(k)}: {children[i]}' for k, i in order.items())}}}"
        if optree.is_namedtuple_class(kind):
            return f"{self.bind(kind)}({', '.join(children)})"
        fields = pytree.fields_of(kind)
        if fields is not None and fields.make is not None:
            known = vars(optree.tree_unflatten(level, children))
            values = dict(zip(fields.names, children, strict=True))
            values |= {name: self.bind(known[name]) for name in fields.static}
            items = ", ".join(f"{name!r}: {value}" for name, value in values.items())
            return f"{self.bind(fields.make)}({self.bind(kind)}, {{{items}}})"
        return f"{self.bind(level.unflatten)}([{', '.join(children)}])"


@functools.lru_cache(256)
def _maker(text: str) -> Callable[..., Callable[..., Any]]:
    """Compile a text as a part of this file, so that tracebacks leave it out."""
    names: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), names)
    return names["make"]
