"""A graph as a program of MIL, and as a package of Core ML."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own: which other libraries it has not tried
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    import coremltools as ct
    from coremltools.converters.mil.mil import Function, Program, Var, types

from ...ir.errors import ShapeError
from ...ir.graph import Graph, Node
from ...ir.types import Type
from ...lower.legalize import legalize
from ...lower.target import Target
from ..graph_table import Table, prepare, refused
from .elements import MIL, OF_MIL, mb
from .emit import run, table
from .shapes import reshaped

TARGET = ct.target.iOS18  # macOS 15
STORED = frozenset(dtype.name for dtype in MIL)
MOST_AXES = 5
OF_NAMES = {"fp16": types.fp16, "fp32": types.fp32, "int32": types.int32, "bool": types.int32}


def prepared(graph: Graph, check: bool = False) -> dict[str, Graph]:
    """The stages of a graph, the last of which is written in ops that MIL has.

    What Core ML cannot run is an error that names op, lack and line.
    """
    rows = table()
    stages = prepare(graph, rows.takes, check=check)
    mir = legalize(list(stages.values())[-1], Target("ane", stored=STORED))
    for param in mir.params:
        _check_shape(param.type, param.origin or "an argument", None)
    for node in mir.walk():
        _check_node(node, rows)
    return stages


def _check_node(node: Node, rows: Table) -> None:
    for result in node.results:
        _check_shape(result.type, node.op.name, str(node.source))
    if rows.takes(node):
        return
    raise refused(node, "ane", f"there is no row {node.op.name!r} for these operands")


def _check_shape(type: Type, what: str, where: str | None) -> None:
    if type.rank <= MOST_AXES and 0 not in type.shape:
        return
    lack = f"arrays of {type.rank} axes" if type.rank > MOST_AXES else "empty arrays"
    raise ShapeError(
        f"{what}: Core ML has no {lack}, as {type}",
        where=where,
        fix=f"use 1 to {MOST_AXES} axes with elements, or run on another device",
    )


def package(graph: Graph, names: Sequence[str], results: Sequence[str], is_half: bool) -> Any:
    """The model of Core ML of a graph that is prepared, not loaded.

    Scalars are arrays of one element there, and bools are whole numbers.
    """
    inputs = {
        name: mb.placeholder(shape=p.shape or (1,), dtype=OF_NAMES[MIL[p.dtype]])
        for name, p in zip(names, graph.params, strict=True)
    }
    with quiet():
        with Function(inputs, opset_version=TARGET) as function:
            given = [_inside(function.inputs[n], p.type)
                     for n, p in zip(names, graph.params, strict=True)]  # fmt: skip
            made = run(graph, given, table())
            outputs = [_outside(x, n, r.type)
                       for x, n, r in zip(made, results, graph.results, strict=True)]  # fmt: skip
            function.set_outputs(outputs)
        program = Program()
        program.add_function("main", function)
        precision = ct.precision.FLOAT16 if is_half else ct.precision.FLOAT32
        return ct.convert(
            program,
            convert_to="mlprogram",
            compute_precision=precision,
            minimum_deployment_target=TARGET,
            skip_model_load=True,
        )


def _inside(x: Var, type: Type) -> Var:
    x = x if type.shape else mb.squeeze(x=x)
    return mb.cast(x=x, dtype="bool") if type.dtype == np.bool_ else x


def _outside(x: Var, name: str, type: Type) -> Var:
    found = Type(OF_MIL[x.dtype], tuple(x.shape))
    assert found == type, f"{name} is {found} in MIL, not {type}"
    x = mb.cast(x=x, dtype="int32") if type.dtype == np.bool_ else x
    return mb.identity(x=x if type.shape else reshaped(x, [1]), name=name)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the remarks and progress bars of coremltools."""
    logger = logging.getLogger("coremltools")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        # the bars can be turned off for all of the process only, or before coremltools is loaded
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def save(model: Any, path: Path) -> None:
    """Write a model where it is to stand, whole or not at all."""
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Core ML's tools empty the place first, and fill it bit by bit
    with quiet(), TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        model.save(str(made))
        if path.exists():
            path.rename(Path(folder, "before"))  # a folder takes no other's place
        made.rename(path)
