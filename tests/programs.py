"""Random array programs, written as Python source that runs on rlx and on JAX alike.

A program is drawn line by line. Each line is run at once by rlx, without jit, on the program's own
inputs, so shapes and dtypes are known and a line whose numbers grow too large is left out. The
`repr` of a program is a script that shows what it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import rlx
import rlx.numpy as rnp

OURS = SimpleNamespace(
    np=rnp,
    nn=rlx.nn,
    scan=rlx.scan,
    cond=rlx.cond,
    switch=rlx.switch,
    fori_loop=rlx.fori_loop,
    while_loop=rlx.while_loop,
    jit=rlx.jit,
    vmap=rlx.vmap,
)
LARGEST = 400  # elements of a value


@dataclass
class Known:
    """A value of the program: its name and what it is for the program's own inputs."""

    name: str
    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def kind(self) -> str:
        return self.value.dtype.kind


@dataclass
class Program:
    """Lines of source over inputs; its results are the values that no line reads."""

    inputs: list[np.ndarray]
    lines: list[str] = field(default_factory=list)
    values: list[Known] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = [Known(f"x{i}", rlx.array(x)) for i, x in enumerate(self.inputs)]

    @property
    def results(self) -> list[str]:
        """The names of the results."""
        text = "\n".join(self.lines)
        names = [f"v{i}" for i in range(len(self.lines))]
        return [n for n in names if f"{n} " not in text.replace(f"{n} =", "")] or names[-1:]

    @property
    def tolerance(self) -> float:
        """What two computations may differ by: the coarsest float dtype decides."""
        sizes = [v.value.dtype.itemsize for v in self.values if v.kind == "f"]
        return {8: 1e-9, 4: 1e-4}[min(sizes)]

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
        names = {v.name: v.value for v in self.values}
        value = eval(expression, {"lib": OURS}, names)
        array = np.asarray(value)
        if (
            array.size > LARGEST
            or not np.isfinite(array).all()
            or np.abs(array).max(initial=0) > 99
        ):
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression} ")
        self.values.append(Known(name, value))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        arrays = [f"np.array({x.tolist()!r}, {x.dtype.name!r})" for x in self.inputs]
        return f"\n{self.source}\n\nprogram(OURS, {', '.join(arrays)})\n"


# -- lines ----------------------------------------------------------------------------------------

Draw = Callable[[st.SearchStrategy[Any]], Any]
Rule = Callable[[Draw, Program], str | None]

# The odd numbers keep results away from where a function jumps, as rounding may differ.
SMOOTH = [
    "lib.np.tanh({x} )", "lib.np.sin({x} )", "lib.np.cos({x} )", "lib.np.exp(-{x} * {x} )",
    "lib.np.log1p(lib.np.square({x} ))", "lib.np.sqrt(lib.np.square({x} ) + 1.1)",
    "lib.np.arctan({x} )", "-{x} * 0.7", "lib.np.square({x} )", "lib.nn.sigmoid({x} )",
    "lib.nn.gelu({x} )", "lib.nn.gelu({x} , approximate=False)", "lib.nn.silu({x} )",
    "lib.nn.softplus({x} )", "lib.np.expm1({x} * 0.1)", "1.3 / (1.5 + lib.np.cos({x} ))",
    "lib.np.cosh({x} * 0.1)", "lib.np.log(2.3 + lib.np.sin({x} ))", "({x} * 0.3) ** 3",
    "lib.np.where(lib.np.isfinite({x} ), {x} , 0.0)",
]  # fmt: skip
JUMPING = [
    "lib.np.abs({x} - 0.271)", "lib.np.floor({x} * 1.618 + 0.271)", "lib.np.sign({x} - 0.271)",
    "lib.np.round({x} * 1.618 + 0.271)", "lib.np.ceil({x} * 1.618 + 0.271)",
    "lib.nn.relu({x} - 0.271)", "lib.np.clip({x} , -0.51, 0.49)",
    "({x} * 1.618 + 0.271).astype('int32')", "lib.np.where({x} > 0.271, {x} , -0.5)",
    "{x} > 0.271", "lib.np.trunc({x} * 1.618 + 0.271)",
]  # fmt: skip
WHOLE = [
    "{x} + 3", "{x} // 3", "{x} % 5", "{x} * 2 - 1", "{x} & 6", "{x} | 1", "{x} ^ 3", "{x} >> 1",
    "({x} % 7) << 2", "-{x} ", "lib.np.abs({x} )", "lib.np.maximum({x} , 1)", "{x} == 2",
    "{x} * 0.5", "lib.np.where({x} > 1, {x} , 0)",
]  # fmt: skip
TRUTH = [
    "~{x} ", "{x} & ~{x} ", "lib.np.where({x} , 1.5, -0.5)", "{x} .astype('int32')",
    "lib.np.logical_xor({x} , True)", "lib.np.cumsum({x} .astype('int32'))",
]  # fmt: skip
PAIRS = [
    "{x} + {y} ", "{x} - {y} ", "{x} * {y} ", "{x} / (1.2 + lib.np.square({y} ))",
    "lib.np.arctan2({x} , 1.7 + lib.np.square({y} ))", "lib.np.hypot({x} , 1.0 + {y} * {y} )",
    "lib.np.power(lib.np.abs({x} ) * 0.1 + 0.6, lib.np.tanh({y} ))",
    "lib.np.logaddexp({x} , {y} )",
]  # fmt: skip
JUMPING_PAIRS = [
    "lib.np.maximum({x} , {y} * 1.618 + 0.271)", "lib.np.minimum({x} , {y} * 1.618 + 0.271)",
    "lib.np.where({x} > {y} * 1.618 + 0.271, {x} , {y} )", "{x} < {y} * 1.618 + 0.271",
]  # fmt: skip
FLOWS = [
    "lib.cond(lib.np.sum({x} ) > 0.271, lambda a: lib.np.sin(a), lambda a: a * a * 0.2, {x} )",
    "lib.switch(lib.np.asarray(1), [lambda a: a, lambda a: a * 0.5, lambda a: -a], {x} )",
    "lib.fori_loop(0, 3, lambda i, c: lib.np.tanh(c) + 0.25 * i, {x} )",
    "lib.jit(lambda a: lib.np.sin(a) * 1.1 + a)({x} )",
]
WHILE = "lib.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, lib.np.tanh(s[1])), (0, {x} ))[1]"
ROWS = [  # for values with axes that are not empty
    "lib.scan(lambda c, r: (lib.np.tanh(c + r), c * r), {x} [0] * 0.0, {x} )[1]",
    "lib.scan(lambda c, r: (c * 0.9 + r, r), {x} [0] * 0.0, {x} , reverse=True)[0]",
    "lib.vmap(lambda a: lib.np.sum(a * a) * 0.1)({x} )",
    "lib.vmap(lambda a: lib.np.sin(a))({x} )",
]


def pick(draw: Draw, program: Program, kinds: str = "f") -> Known | None:
    """A value of one of the kinds, a late one more often."""
    fitting = [v for v in program.values if v.kind in kinds]
    return draw(st.sampled_from(fitting[-4:])) if fitting else None


def of(kinds: str, texts: Sequence[str]) -> Rule:
    """Lines that read one value."""

    def rule(draw: Draw, program: Program) -> str | None:
        x = pick(draw, program, kinds)
        return draw(st.sampled_from(texts)).format(x=x.name) if x else None

    return rule


def of_two(texts: Sequence[str]) -> Rule:
    """Lines that read two values whose shapes broadcast."""

    def rule(draw: Draw, program: Program) -> str | None:
        x, y = pick(draw, program), pick(draw, program)
        if x is None or y is None:
            return None
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        return draw(st.sampled_from(texts)).format(x=x.name, y=y.name)

    return rule


def reduced(draw: Draw, program: Program) -> str | None:
    """A reduction along some axes, or a running sum along one."""
    x = pick(draw, program)
    if x is None or not x.value.size or not x.shape:
        return None
    axes = draw(st.lists(st.integers(0, len(x.shape) - 1), unique=True, min_size=1))
    keepdims = draw(st.booleans())
    options = f"axis={tuple(axes)}, keepdims={keepdims}"
    texts = ["lib.np.sum({x} , {o})", "lib.np.mean({x} , {o})", "lib.np.var({x} , {o})"]
    texts += ["lib.nn.logsumexp({x} , {o})", "lib.np.prod({x} , {o})"]
    texts += ["lib.nn.softmax({x} , axis={a})", "lib.nn.log_softmax({x} , axis={a})"]
    texts += ["lib.np.cumsum({x} , axis={a})", "lib.np.sum({x} > 0.271, {o})"]
    return draw(st.sampled_from(texts)).format(x=x.name, o=options, a=axes[0])


def moved(draw: Draw, program: Program) -> str | None:
    """A change of shape or place."""
    x = pick(draw, program, "fib")
    if x is None:
        return None
    if not x.shape:
        return f"lib.np.broadcast_to({x.name} , (2, 3))"
    axis = draw(st.integers(0, len(x.shape) - 1))
    order = tuple(draw(st.permutations(range(len(x.shape)))))
    start = draw(st.integers(-3, 3))
    step = draw(st.sampled_from([-2, -1, 1, 2, 3]))
    lead = ":, " * axis
    texts = [
        "lib.np.reshape({x} , -1)", f"lib.np.transpose({{x}} , {order})",
        f"lib.np.flip({{x}} , {axis})", f"{{x}} [{lead}{start}::{step}]",
        f"lib.np.expand_dims({{x}} , {axis})", f"lib.np.roll({{x}} , {start}, {axis})",
        f"lib.np.concatenate([{{x}} , {{x}} ], {axis})", f"lib.np.stack([{{x}} , {{x}} ], {axis})",
        f"lib.np.repeat({{x}} , 2, axis={axis})", f"lib.np.swapaxes({{x}} , 0, {axis})",
        "lib.np.tile({x} , 2)", "{x} [None]", "lib.np.pad({x} , 1)",
    ]  # fmt: skip
    return draw(st.sampled_from(texts)).format(x=x.name)


def indexed(draw: Draw, program: Program) -> str | None:
    """Reading and writing by index."""
    x = pick(draw, program)
    if x is None or not x.shape or not x.shape[0]:
        return None
    n = x.shape[0]
    places = draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=4))
    index = f"lib.np.array({places!r})"
    texts = [
        f"{{x}} [{index}]", f"{{x}} [{places[0]}]", f"lib.np.take({{x}} , {index}, axis=0)",
        f"{{x}} .at[{index}].add(0.5)", f"{{x}} .at[{places[0]}].set(0.25)",
        f"{{x}} .at[{index}].multiply(0.5)", f"{{x}} .at[{places[0]}:].add({{x}} [{places[0]}])",
    ]  # fmt: skip
    return draw(st.sampled_from(texts)).format(x=x.name)


def multiplied(draw: Draw, program: Program) -> str | None:
    """A contraction of a value with itself or another."""
    x, y = pick(draw, program), pick(draw, program)
    if x is None or y is None or not x.shape:
        return None
    if len(x.shape) == 1:
        return f"lib.np.outer({x.name} , {x.name} ) * 0.3"
    if len(y.shape) >= 1 and y.shape[-2 if len(y.shape) > 1 else 0] == x.shape[-1]:
        return f"lib.np.matmul({x.name} , {y.name} ) * 0.3" if len(y.shape) < 3 else None
    return draw(
        st.sampled_from(
            [
                f"lib.np.matmul({x.name} , lib.np.swapaxes({x.name} , -1, -2)) * 0.3",
                f"lib.np.einsum('...ij,...kj->...ik', {x.name} , {x.name} ) * 0.3",
                f"lib.np.tensordot({x.name} , {x.name} , axes=([0], [0])) * 0.3",
            ]
        )
    )


def ordered(draw: Draw, program: Program) -> str | None:
    """What depends on order; of inputs alone, whose numbers all differ by more than rounding."""
    x = draw(st.sampled_from(program.values[: len(program.inputs)]))
    if x.kind != "f" or not x.shape or not x.value.size:
        return None
    axis = draw(st.integers(0, len(x.shape) - 1))
    texts = ["lib.np.sort({x} , axis={a})", "lib.np.argsort({x} , axis={a})"]
    texts += ["lib.np.argmax({x} , axis={a})", "lib.np.max({x} , axis={a})"]
    texts += ["lib.np.min({x} , axis={a}, keepdims=True)", "lib.np.median({x} , axis={a})"]
    return draw(st.sampled_from(texts)).format(x=x.name, a=axis)


def by_row(draw: Draw, program: Program) -> str | None:
    """Loops over the first axis."""
    x = pick(draw, program)
    if x is None or not x.shape or not x.value.size:
        return None
    return draw(st.sampled_from(ROWS)).format(x=x.name)


SMOOTH_RULES = [of("f", SMOOTH), of_two(PAIRS), reduced, moved, indexed, multiplied, by_row]
SMOOTH_RULES += [of("f", FLOWS), ordered]
RULES = [*SMOOTH_RULES, of("f", JUMPING), of("i", WHOLE), of("b", TRUTH), of_two(JUMPING_PAIRS)]
RULES += [of("f", [WHILE])]

SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 4), (3, 1), (1, 4), (2, 3, 4), (0,), (2, 0)]


@st.composite
def programs(draw: Draw, rules: Sequence[Rule] = RULES, dtype: str = "float64") -> Program:
    """A program of up to ten lines over up to three inputs."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    program = Program([random.uniform(-2, 2, shape).astype(dtype) for shape in shapes])
    for rule in draw(st.lists(st.sampled_from(rules), min_size=1, max_size=10)):
        expression = rule(draw, program)
        if expression is not None:
            program.add(expression)
    if not program.lines:
        program.add("lib.np.tanh(x0 )")
    return program
