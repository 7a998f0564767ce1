"""Random array programs, written as Python source that runs on rlx and on JAX alike.

A program is drawn line by line. Each line is run at once by rlx, without jit, on the program's own
inputs, so shapes and dtypes are known and a line whose numbers grow too large is left out. It is
run once more on inputs of double precision, or on inputs moved a little where they have that
already: a line that this changes by much is left out too, as rounding would change it as well.
The `repr` of a program is a script that shows what it computes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st
from libraries import OURS
from program_families import FAMILIES, SMOOTH_FAMILIES
from program_lines import MIXED_RULES, RULES, SMOOTH_RULES, Rule, view

import rlx
import rlx.numpy as rnp

__all__ = [
    "MIXED_RULES",
    "RULES",
    "SMOOTH_RULES",
    "Program",
    "any_program",
    "close",
    "mixed_programs",
    "programs",
    "same",
    "some",
    "wide",
]

COUNT = int(os.environ.get("RANDOM_PROGRAMS", "0"))
LARGEST = 1200  # elements of a value
Draw = Callable[[st.SearchStrategy[Any]], Any]
MOVE = 1e-9  # of inputs in double precision
MOVED = 300 * MOVE  # how far the numbers of a line may go when the inputs move
SCRIPT = """import sys

import ml_dtypes
import numpy as np

sys.path[:0] = [".", "tests"]  # from the root of the repository

import rlx
from libraries import OURS, THEIRS, jax


{source}


inputs = [
{inputs}
]
print("eager", *program(OURS, *map(rlx.array, inputs)), sep="\\n")
for device in ("cpu", "reference"):
    print(device, *rlx.jit(lambda *xs: program(OURS, *xs), device=device)(*inputs), sep="\\n")
with jax.enable_x64(True):
    print("jax", *jax.jit(lambda *xs: program(THEIRS, *xs))(*inputs), sep="\\n")
"""


def tolerance_of(dtype: np.dtype) -> float:
    """What two computations in a dtype may differ by: a third of the digits."""
    return float(rnp.finfo(dtype).eps) ** (2 / 3) if rnp.issubdtype(dtype, rnp.inexact) else 0.0


def wide(x: Any) -> np.ndarray:
    """The same numbers with the most digits there are."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def shifted(x: np.ndarray) -> np.ndarray:
    """An input of a program in double precision, or moved if it is; whole numbers stay."""
    if x.dtype.name in ("float64", "complex128"):
        return x + (MOVE * np.cos(np.arange(x.size))).reshape(x.shape)
    return wide(x) if tolerance_of(x.dtype) else x


def reads(expression: str) -> list[str]:
    """The names of the program's values an expression reads."""
    return re.findall(r"\b([xv]\d+) ", expression)


@dataclass
class Known:
    """A value of the program: its name and what it is for the program's own inputs."""

    name: str
    value: Any
    shifted: Any  # the same for shifted inputs
    tolerance: float  # the coarsest of what it was computed from

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.value.shape

    @property
    def kind(self) -> str:
        """A letter: bool, integer, float or complex."""
        if rnp.issubdtype(self.value.dtype, rnp.floating):
            return "f"
        return self.value.dtype.kind.replace("u", "i")


@dataclass
class Program:
    """Lines of source over inputs; its results are what no line reads, and some views."""

    inputs: list[np.ndarray]
    lines: list[str] = field(default_factory=list)
    values: list[Known] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    wanted: list[str] | None = None  # the results, if they are chosen
    kind: str = "wide"  # what is to be compared: see `any_program`

    def __post_init__(self) -> None:
        for i, x in enumerate(self.inputs):
            other = rlx.array(shifted(x))
            self.values.append(Known(f"x{i}", rlx.array(x), other, tolerance_of(x.dtype)))

    @property
    def results(self) -> list[str]:
        """The expressions of the results."""
        if self.wanted is not None:
            return self.wanted
        read = {name for line in self.lines for name in reads(line.partition(" = ")[2])}
        names = [f"v{i}" for i in range(len(self.lines))]
        unread = [f"{name} " for name in names if name not in read]
        return unread + self.views

    @property
    def tolerances(self) -> list[float]:
        """What each result may differ by."""
        known = {v.name: v.tolerance for v in self.values}
        return [max(known[name] for name in reads(result)) for result in self.results]

    @property
    def source(self) -> str:
        """The program as a Python function of `lib`, which has `np`, `nn`, `scan` and so on."""
        names = ", ".join(x.name for x in self.values[: len(self.inputs)])
        lines = [f"def program(lib, {names}):", *(f"    {line}" for line in self.lines)]
        return "\n".join([*lines, f"    return ({', '.join(self.results)},)"])

    def on(self, library: Any) -> Callable[..., Any]:
        """The program as a function of arrays, computed by a library."""
        scope: dict[str, Any] = {}
        exec(compile(self.source, "<program>", "exec"), scope)
        return lambda *xs: scope["program"](library, *xs)

    def add(self, expression: str) -> None:
        """Append a line if its numbers are of use."""
        try:
            value = self.evaluated(expression, {v.name: v.value for v in self.values})
        except Exception as error:
            self.lines.append(f"v{len(self.lines)} = {expression} ")
            error.add_note(repr(self))
            raise
        numbers = wide(value)
        if numbers.size > LARGEST or not np.isfinite(numbers).all():
            return
        if np.abs(numbers).max(initial=0) > 99:
            return
        known = {v.name: v.tolerance for v in self.values}
        tolerance = max([tolerance_of(value.dtype), *(known[name] for name in reads(expression))])
        other = self.evaluated(expression, {v.name: v.shifted for v in self.values})
        allowed = max(tolerance, MOVED) * (1 + np.abs(numbers)) if tolerance_of(value.dtype) else 0
        if (np.abs(wide(other) - numbers) > allowed).any():
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression} ")
        self.values.append(Known(name, value, other, tolerance))

    @staticmethod
    def evaluated(expression: str, values: dict[str, Any]) -> Any:
        """What an expression gives, line by line in NumPy."""
        with rlx.config.using(device="reference"):
            return eval(expression, {"lib": OURS} | values)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        source = re.sub(r"(?<=\d) (?=[).,\[\n])", "", self.source)
        inputs = [
            f"    np.array({x.tolist()!r}, {x.dtype.name!r}).reshape({x.shape}),"
            for x in self.inputs
        ]
        return "\n" + SCRIPT.format(source=source, inputs="\n".join(inputs))


# -- strategies -----------------------------------------------------------------------------------

# around the widths of vectors, and what is empty or has nothing to loop over
SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 15, 16, 17, 33, 65]
FORMS = ["", "a", "b", "ab", "ba", "bc", "a1", "1b", "abc", "1ab", "a1c", "1", "aa"]
COUNTS = [1, 2, 3, 4, 6, 8, 10]
MORE = [2, 3, 4, 6, 8, 10, 12, 14]  # some 5 to 40 ops, as a line has several
WIDE = ["float64", "float64", "float64", "float64", "int32", "uint8", "bool", "complex128"]
DTYPES = ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "bool", "complex64"]


def shapes(random: Random) -> list[tuple[int, ...]]:
    """Shapes of up to three inputs, made of the same few sizes so that they often fit."""
    sizes = {name: random.choice(SIZES) for name in "abc"} | {"1": 1}
    forms = random.choices(FORMS, k=random.randint(1, 3))
    found = [tuple(sizes[name] for name in form) for form in forms]
    return [shape if math.prod(shape) <= LARGEST else shape[-1:] for shape in found]


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of a dtype, short ones; those that are not whole are at most 2 and all differ."""
    if dtype == "bool":
        return random.uniform(size=shape) < 0.5
    if dtype in ("int32", "uint8"):
        return random.integers(0 if dtype == "uint8" else -9, 9, shape).astype(dtype)
    real = ((random.permutation(4001)[: math.prod(shape)] - 2000) / 1000).reshape(shape)
    number = real + 0.5j * np.flip(real) if dtype.startswith("complex") else real
    return number.astype(np.dtype(dtype))


def made(
    seed: int, rules: Sequence[Rule], dtypes: Sequence[str], counts: Sequence[int] = COUNTS
) -> Program:
    """A program of so many lines over up to three inputs, some results views of others."""
    random = Random(seed)
    generator = np.random.default_rng(random.randrange(2**32))
    program = Program([numbers(generator, s, random.choice(dtypes)) for s in shapes(random)])
    count = random.choice(counts)
    for _ in range(3 * count):
        expression = random.choice(rules)(random, program) if len(program.lines) < count else None
        if expression is not None:
            program.add(expression)
    if random.choice([True, False]):
        program.views = [text for x in program.values if (text := view(random, x))]
    if not program.results:
        program.views.append("x0 ")
    return program


@st.composite
def programs(
    draw: Draw, rules: Sequence[Rule] = RULES, dtypes: Sequence[str] = ("float64",)
) -> Program:
    """A program made from one seed: Hypothesis by itself tries many that are nearly the same."""
    return made(draw(st.integers(0, 2**32)), rules, dtypes)


def mixed_programs() -> st.SearchStrategy[Program]:
    """Programs over inputs of several dtypes."""
    return programs(MIXED_RULES, DTYPES)


def any_program(seed: int) -> Program:
    """A program of all families.

    Most are `wide`: in double precision, with numbers that another library has too. One in eight is
    `mixed`, of all dtypes, for `cpu` and `reference` alone; of one in eight the `derivatives` are
    meant as well.
    """
    if seed % 8 == 6:
        program = made(seed, MIXED_RULES + FAMILIES + FAMILIES, DTYPES, MORE)
        program.kind = "mixed"
    elif seed % 8 == 7:
        program = made(seed, SMOOTH_RULES + SMOOTH_FAMILIES, ["float64"])
        program.kind = "derivatives"
    else:
        program = made(seed, WIDE_RULES, WIDE, MORE)
    return program


# a cast to few digits would be one to other digits elsewhere
WIDE_RULES = [rule for rule in MIXED_RULES if rule.__name__ != "converted"]
WIDE_RULES += FAMILIES + FAMILIES


# -- comparisons ---------------------------------------------------------------------------------


def some(count: int, **options: Any) -> Any:
    """Settings for so many examples, always the same ones unless a longer run is asked for."""
    return settings(
        **options,
        max_examples=COUNT or count,
        derandomize=not COUNT,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def close(found: Any, wanted: Any, tolerance: float, what: str = "") -> None:
    """Compare the numbers of two arrays; those of a program are at most about a hundred."""
    assert found.shape == wanted.shape, what
    np.testing.assert_allclose(
        wide(found), wide(wanted), rtol=tolerance, atol=tolerance, err_msg=what
    )


def same(found: Sequence[Any], wanted: Sequence[Any], program: Program) -> None:
    """Compare the results of a program, each as closely as what it was computed from allows."""
    for x, y, name, tolerance in zip(
        found, wanted, program.results, program.tolerances, strict=True
    ):
        assert x.dtype == y.dtype, name
        close(x, y, tolerance if tolerance_of(x.dtype) else 0, name)
