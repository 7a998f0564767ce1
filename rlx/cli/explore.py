"""`rlx explore`: a page that shows a function from its lines to machine code."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable
from typing import Any

from ..ir.errors import ArgumentError
from ..trace.make_graph import spec
from ..viz.explore import explore
from .script import script_path


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    parser.add_argument("function", help="what to look at: file.py:function")
    about = "the types of its arguments, as 32,128 or i32:8,16; without them it is called with none"
    parser.add_argument("shapes", nargs="*", default=[], help=about)
    parser.add_argument("--output", default="explore.html", metavar="FILE", help="(explore.html)")


def run(asked: argparse.Namespace) -> None:
    """Write the page.

    A function that takes nothing gives a pair: the function to look at, and its arguments.
    """
    function, args = _function(asked.function), tuple(map(_spec, asked.shapes))
    if not args:
        function, args = _prepared(function, asked.function)
    found = explore(function)(*args)
    found.save(asked.output)
    print(f"{found!r}\n{asked.output}")


def _function(named: str) -> Callable[..., Any]:
    file, _, name = named.rpartition(":")
    if not file or not name:
        raise ArgumentError(f"{named!r} names no function of a file", fix="write file.py:function")
    place, before = script_path(file), sys.path[0]
    sys.path[0] = str(place.resolve().parent)
    try:
        names = runpy.run_path(str(place), run_name="explored")
    finally:
        sys.path[0] = before
    if not callable(names.get(name)):
        known = ", ".join(k for k, x in names.items() if callable(x) and not k.startswith("_"))
        raise ArgumentError(f"{file} has no function {name!r}", fix=f"it has {known or 'none'}")
    return names[name]


def _prepared(function: Callable[..., Any], named: str) -> tuple[Callable[..., Any], Any]:
    """The function and arguments that a function without parameters gives."""
    import inspect

    needed = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        shapes = " ".join(["8,16"] * len(needed))
        raise ArgumentError(
            f"{named} takes {', '.join(needed)}",
            fix=f"give their shapes: rlx explore {named} {shapes}; or name a function that "
            "returns the one to look at, and a tuple of its arguments",
        )
    found = function()
    if not (isinstance(found, tuple) and len(found) == 2 and callable(found[0])):
        raise ArgumentError(
            f"{named} gave a {type(found).__name__}, not a function and its arguments",
            fix="return step, (model, batch)",
        )
    args = found[1]
    return found[0], args if isinstance(args, tuple) else (args,)


def _spec(text: str) -> Any:
    """A type as it stands on the command line: `32,128`, `i32:8`, `f32:` for a number."""
    dtype, colon, sizes = text.rpartition(":")
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}
    names |= {"i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8", "u32": "uint32"}
    try:
        shape = tuple(int(size) for size in sizes.split(",") if size)
    except ValueError:
        raise ArgumentError(f"{text!r} is no shape", fix="write sizes as 32,128") from None
    return spec(shape, names.get(dtype, dtype) if colon else "float32")
