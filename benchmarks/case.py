"""What is measured: a case is inputs, and a program in the words of any library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .libraries import Laid, Library
from .trees import leaves, tree_map

RATE = 1e-3
STEPS_COMPARED = 3
ULPS = 1000.0  # of the largest number of a result; sums of thousands lose about 100
Shapes = tuple[str | None, ...]


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `kind` says what `program(library)` gives: `call`, a function of the inputs to compile;
    `train`, a loss of the first input, which is trained by the others; `stream`, a function that
    gives its result and the next of its first input; `eager`, a function that is called as it is.
    `flops` and `nbytes` are the least that any
    program must do. `outputs` tells how results are laid; `norms` compares only their
    sizes, `compared` only so many of them. The first input of a call with `weights` are weights of
    a model in use, which are the same in all calls.
    """

    name: str
    group: str
    title: str
    inputs: Callable[[], tuple[Any, ...]]
    program: Callable[[Library], Callable[..., Any]]
    kind: str = "call"
    flops: float = 0.0
    nbytes: float = 0.0
    dtype: str = "float32"
    ulps: float = ULPS
    outputs: Shapes | None = None
    norms: bool = False
    compared: int | None = None
    loops: bool = False
    weights: bool = False
    is_peak: bool = False
    is_small: bool = False  # an elementwise operation on few numbers
    starts: bool = False
    in_readme: bool = False
    without: dict[str, str] = field(default_factory=dict)  # library -> why it is left out


@dataclass
class Work:
    """A case, made ready for one library: a statement to time, and its first result.

    The statement is the call, with what waits for its end.
    """

    call: str
    statement: str
    names: dict[str, Any]
    first: Any


def placed(case: Case, library: Library) -> list[Any]:
    """The inputs as arrays of a library."""
    library.wide(case.dtype == "float64")
    return [tree_map(library.place, x) for x in case.inputs()]


def build(case: Case, library: Library, inputs: list[Any], is_first: bool = False) -> Work:
    """Compile, and run for the first time; weights are not kept if that is all that counts."""
    program = case.program(library)
    if case.kind == "train":
        function, inputs = library.trainer(program, inputs[0], RATE), inputs[1:]
    elif case.kind == "stream":
        function, inputs = library.stream(program, inputs[0]), inputs[1:]
    elif case.kind == "eager":
        function = library.eager(program)
    elif case.weights and not is_first:
        function = library.model(program)
    else:
        function = library.compile(program, case.loops)
    names = {"f": function, "wait": library.wait}
    names.update({f"x{i}": x for i, x in enumerate(inputs)})
    call = f"f({', '.join(f'x{i}' for i in range(len(inputs)))})"
    first = eval(call, names)
    statement = library.finished(call, first)
    if statement != call:
        exec(statement.replace(call, "first"), {**names, "first": first})
    return Work(call, statement, names, first)


def results(case: Case, library: Library, work: Work) -> list[np.ndarray]:
    """What is compared with other libraries: arrays of NumPy, laid alike.

    Of training, the losses of the first steps: each tells whether the updates before were right.
    """
    first = leaves(work.first)[: case.compared]
    if case.kind == "train":
        first += [eval(work.call, work.names) for _ in range(STEPS_COMPARED - 1)]
    kinds = case.outputs or (None,) * len(first)
    made = [library.taken(x, kind) for x, kind in zip(first, kinds, strict=True)]
    if case.norms:
        return [np.sqrt(np.sum(np.square(x.astype(np.float64)))) for x in made]
    return made


def disagreement(case: Case, ours: list[np.ndarray], theirs: list[np.ndarray]) -> str | None:
    """How results differ from the reference's more than rounding explains."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if x.shape != y.shape:
            return f"result {i} has shape {x.shape}, not {y.shape}"
        if x.dtype.kind in "iub" and y.dtype.kind in "iub":
            wrong = int(np.sum(x != y))
            if wrong:
                return f"result {i}: {wrong} integers of {x.size} differ"
            continue
        limit = case.ulps * float(ml_dtypes.finfo(case.dtype).eps)
        largest = float(np.max(np.abs(y), initial=0.0)) or 1.0
        error = float(np.max(np.abs(x - y), initial=0.0)) / largest
        if not error <= limit:
            return f"result {i} is off by {error:.2g} of its largest number; {limit:.2g} is allowed"
    return None


__all__ = ["Case", "Laid", "Work", "build", "disagreement", "placed", "results"]
