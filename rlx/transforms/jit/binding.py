"""Bound arguments of a compiled function, constant from call to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.errors import ArgumentError, StructureError
from ...ir.record import record
from ...runtime.compiled import CompiledCode
from ...runtime.constants import WithConstants
from ...trace import pytree
from ...trace.make_graph import Traced
from .signature import difference

SIDES = ("the argument it was compiled for", "the bound one")


@record
class Binding:
    """A compiled function with some arguments bound."""

    names: frozenset[str]  # of the bound arguments
    constants: WithConstants  # what was compiled for them
    code: CompiledCode  # takes the leaves of the others
    tree: pytree.Structure  # of the others
    in_files: bool  # whether processes share what became of the bound ones

    @property
    def report(self) -> str:
        """Lines for reports: what was precomputed from the bound arguments."""
        return f"bound: {', '.join(sorted(self.names))}; {self.constants.report}"

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The leaves of the arguments of a call."""
        leaves, tree = pytree.flatten((args, kwargs))
        if tree == self.tree:
            return leaves
        raise StructureError(
            f"{self.code.signature.name} was compiled for other arguments: "
            f"{difference(self.tree, tree)}",
            fix=f"leave out what is bound ({', '.join(sorted(self.names))}) and what is static",
        )


def bound_to(
    code: CompiledCode,
    traced: Traced,
    compiled: Callable[[Sequence[int]], WithConstants],
    before: Binding | None,
    arguments: Mapping[str, Any],
    in_files: bool = False,
) -> Binding:
    """Bind arguments of a function; code for the same ones `before` is taken again.

    `compiled` makes the code for constant parameters at these places. What becomes of them is kept
    `in_files`, if so.
    """
    table = _arguments(traced)
    arrays: list[Any] = []
    places: list[int] = []
    for name, tree in arguments.items():
        if name not in table:
            raise ArgumentError(
                f"{code.signature.name} has no argument {name!r} to bind",
                fix=f"its arguments are {', '.join(table)}",
            )
        spec, first = table[name]
        mine = range(first, first + spec.num_leaves)
        if set(mine) & set(code.donated):
            raise ArgumentError(
                f"{name!r} of {code.signature.name} is donated, so each call needs arrays "
                "of its own",
                fix="do not donate what is bound",
            )
        arrays += pytree.flatten_like(spec, tree, f"bind {name}", SIDES)
        places += mine
    captures = traced.captures
    places += range(traced.n_args, traced.n_args + len(captures))
    names = frozenset(arguments)
    constants = before.constants if before and before.names == names else compiled(places)
    given = dict(zip(places, (*arrays, *captures), strict=True))
    code_bound = constants.bind(given, in_files)
    return Binding(names, constants, code_bound, others(traced, names), in_files)


def check_alone(
    code: CompiledCode, bound: Sequence[str], were_set: Mapping[str, Any], name: str
) -> None:
    """Raise an error if `bind` was used, which keeps no arrays to bind again."""
    if set(bound) == were_set.keys():
        return
    raise ArgumentError(
        f"{', '.join(bound)} of {code.signature.name} were bound together, so {name!r} "
        "cannot change alone",
        fix="bind all at once, c.bind(a=..., b=...), or each by set_param; c.bind() frees all",
    )


def _arguments(traced: Traced) -> dict[str, tuple[pytree.Structure, int]]:
    """For each argument with arrays, by name, its structure and its first leaf."""
    positional, named = traced.in_tree.children()
    found, first = {}, 0
    for spec in (*positional.children(), *named.children()):
        if spec.num_leaves:
            origin = traced.graph.params[first].origin.split(", ", 1)[1]
            found[origin.removesuffix(pytree.paths(spec)[0])] = spec, first
        first += spec.num_leaves
    return found


def others(traced: Traced, bound: frozenset[str] = frozenset()) -> pytree.Structure:
    """The structure of the arguments that are neither bound nor static."""
    firsts = {first for name, (_, first) in _arguments(traced).items() if name in bound}
    tree = traced.in_tree
    places = iter(range(tree.num_leaves))
    args, kwargs = pytree.unflatten(tree, places)

    def is_left(x: Any) -> bool:
        leaves = pytree.leaves(x)
        return not isinstance(x, pytree.Static) and not (leaves and leaves[0] in firsts)

    left = {name: x for name, x in kwargs.items() if is_left(x)}
    return pytree.structure((tuple(x for x in args if is_left(x)), left))
