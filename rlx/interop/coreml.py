"""Write a function as a package of Core ML, on any machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..ir.builder import build, inline
from ..ir.errors import AttributeValueError, DeviceUnavailable, SymbolicSizeError
from ..ir.graph import Graph, Value
from ..ir.ops import constant
from ..runtime.compiled import parameter_names
from ..trace.make_graph import Traced, trace
from ..trace.placement import check_unplaced

PRECISIONS = ("float32", "float16")


def export_coreml(
    fn: Callable[..., Any], *specs: Any, path: str | Path, precision: str = "float32"
) -> Path:
    """Write the function `fn` of arguments like `specs` as a Core ML package.

    Returns its `path`, which ends in ".mlpackage". Inputs are named after the function's arguments,
    outputs `y0`, `y1` and so on; a scalar is an array of one element there, a bool an integer.
    Arrays that the function uses from outside are part of the package. With the `precision`
    "float16" all floats are computed in that, the only one of Apple's neural engine. macOS 15 and
    iOS 18 run it.

    Raises a `DeviceUnavailable` without coremltools, an `AttributeValueError` for another path or
    precision, a `SymbolicSizeError` for open sizes.

        path = rlx.export_coreml(model, rlx.spec((1, 64)), path="digits.mlpackage")
    """
    if find_spec("coremltools") is None:
        raise DeviceUnavailable("coremltools is not installed", fix='pip install "rlx[ane]"')
    if precision not in PRECISIONS:
        raise AttributeValueError(
            f"the precision is {precision!r}",
            fix=f"use one of {', '.join(PRECISIONS)}",
        )
    from ..backends.ane.program import package, prepared, save

    path = Path(path)
    if path.suffix != ".mlpackage":
        raise AttributeValueError(
            f"the path is {path}",
            fix=f"end it in .mlpackage: {path.with_suffix('.mlpackage')}",
        )
    traced = trace(fn, specs)
    check_unplaced(traced.graph, "export_coreml")
    graph = _with_captures(traced)
    if not all(type.is_static for type in graph.param_types):
        raise SymbolicSizeError(
            f"{graph.name}: Core ML programs have known sizes",
            fix="give specs with numbers for all sizes",
        )
    mir = list(prepared(graph).values())[-1]
    results = [f"y{i}" for i in range(len(graph.results))]
    model = package(mir, _input_names(graph), results, is_half=precision == "float16")
    save(model, path)
    return path


def _with_captures(traced: Traced) -> Graph:
    """The graph with arrays from outside as constants."""
    graph, count = traced.graph, traced.n_args
    if not traced.captures:
        return graph

    def closed(*xs: Value) -> Sequence[Value]:
        # outside of any trace captures are arrays, never values
        arrays = [constant.lift(x.host()) for x in traced.captures]  # type: ignore[union-attr]
        return inline(graph, [*xs, *arrays])

    origins = [p.origin for p in graph.params[:count]]
    return build(closed, graph.param_types[:count], graph.name, origins)


def _input_names(graph: Graph) -> list[str]:
    """The names of the arguments, of English letters, digits and underscores alone."""
    names: list[str] = []
    for name in parameter_names(graph):
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
        plain = plain if not plain[0].isdigit() else f"x{plain}"
        while plain in names or re.fullmatch(r"y\d+", plain):
            plain += "_"
        names.append(plain)
    return names
