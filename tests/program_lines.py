"""The lines of random programs: texts, and rules that choose a text for the values there are.

In a text a name that is read is followed by a space, so that a program knows who reads what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs import Known, Program

Rule = Callable[[Random, "Program"], str | None]

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
    "lib.fori_loop(0, 3, lambda i, c: lib.np.tanh(c) + (0.25 * i).astype(c.dtype), {x} )",
    "lib.jit(lambda a: lib.np.sin(a) * 1.1 + a)({x} )",
]
COMPLEX = [
    "lib.np.conj({x} )", "lib.np.real({x} )", "lib.np.imag({x} )", "lib.np.abs({x} )",
    "lib.np.exp({x} * 0.1)", "{x} * {x} * 0.2", "lib.np.sin({x} * 0.3)", "{x} / (9.0 + {x} )",
    "lib.np.square({x} ) * 0.3", "-{x} + 0.5j", "lib.np.sqrt({x} + 9.0)", "{x} == {x} ",
    "lib.np.sum({x} ) * 0.1", "lib.np.cumsum({x} , -1) if {x} .ndim else {x} ", "lib.np.mean({x} )",
]  # fmt: skip
CASTS = {
    "f": ["float16", "bfloat16", "float32", "float64", "complex64", "bool"],
    "i": ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int64", "complex64"],
    "b": ["float16", "bfloat16", "float64", "uint8", "int8", "complex64"],
    "c": ["complex64", "complex128"],
}
MIXED_PAIRS = [
    "{x} + {y} ", "{x} * {y} ", "{x} - {y} * 0.5", "lib.np.where({x} == 0, {x} , {y} )",
    "lib.np.stack(lib.np.broadcast_arrays({x} , {y} * 1))", "{x} / ({y} * {y} + 1.5)",
]  # fmt: skip
ROWS = [  # for values with axes that are not empty
    "lib.scan(lambda c, r: (lib.np.tanh(c + r), c * r), {x} [0] * 0.0, {x} )[1]",
    "lib.scan(lambda c, r: (c * 0.9 + r, r), {x} [0] * 0.0, {x} , reverse=True)[0]",
    "lib.vmap(lambda a: lib.np.sum(a * a) * 0.1)({x} )",
    "lib.vmap(lambda a: lib.np.sin(a))({x} )",
]
# Texts for `step`: a capital word is a hole for another step, of {b}, a member of {s}, or a row.
LEAVES = [
    "lib.np.tanh({x})", "{x} * 0.5", "lib.np.sin({x}) * 0.9", "{x} * 0.7 + 0.1",
    "lib.np.flip({x})", "{x} * (0.7 + lib.np.tanh(lib.np.sum({outside})).astype({x}.dtype))",
]  # fmt: skip
STEPS = [
    "lib.cond(lib.np.sum({x}) > 0.271, lambda {b}: STEP, lambda {b}: STEP, {x})",
    "lib.switch((lib.np.sum({x}) * 1.618 + 9.271).astype('int32') % 2, "
    "[lambda {b}: STEP, lambda {b}: STEP], {x})",
    "lib.fori_loop(0, 2, lambda i, {b}: STEP, {x})",
    "lib.scan(lambda {b}, r: (STEP, r), {x}, lib.np.arange(2))[0]",
    "lib.jit(lambda {b}: STEP)({x})",
    "lib.vmap(lambda {b}: ROW)({x})",
    "lib.scan(lambda c, {b}: (c * 0.5 + 0.2, ROW), 0.0, {x})[1]",
    "lib.scan(lambda {b}, r: (ROW + r * 0.25, {b}), lib.np.sum({x}, 0) * 0.1, {x})[1]",
    "lib.scan(lambda c, {b}: (c, ROW), 0.0, {x}, reverse=True)[1]",
]
JUMPING_STEPS = [
    "lib.while_loop(lambda {s}: {s}[0] < 2, lambda {s}: ({s}[0] + 1, PAIR), (0, {x}))[1]",
    "lib.while_loop(lambda {s}: ({s}[0] < 3) & (lib.np.sum({s}[1]) > -0.271), "
    "lambda {s}: ({s}[0] + 1, PAIR), (0, {x}))[1]",
    "lib.cond(lib.np.any({x} > 0.271), lambda {b}: STEP, lambda {b}: STEP, {x})",
]


def pick(random: Random, program: Program, kinds: str = "f") -> Known | None:
    """A value of one of the kinds, a late one more often."""
    fitting = [v for v in program.values if v.kind in kinds]
    return random.choice(fitting[-4:] + fitting[-1:] * 3) if fitting else None


def of(kinds: str, texts: Sequence[str]) -> Rule:
    """Lines that read one value."""

    def rule(random: Random, program: Program) -> str | None:
        x = pick(random, program, kinds)
        return random.choice(texts).format(x=x.name) if x else None

    return rule


def fits(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes broadcast."""
    return all(len(set(sizes) - {1}) < 2 for sizes in zip(*(s[::-1] for s in shapes), strict=False))


def of_two(texts: Sequence[str], kinds: str = "f") -> Rule:
    """Lines that read two values whose shapes broadcast."""

    def rule(random: Random, program: Program) -> str | None:
        x, y = pick(random, program, kinds), pick(random, program, kinds)
        if x is None or y is None or not fits(x.shape, y.shape):
            return None
        return random.choice(texts).format(x=x.name, y=y.name)

    return rule


def reduced(random: Random, program: Program) -> str | None:
    """A reduction along some axes, or a running sum along one."""
    x = pick(random, program)
    if x is None or not x.value.size or not x.shape:
        return None
    axes = random.sample(range(len(x.shape)), random.randint(1, len(x.shape)))
    keepdims = random.choice([True, False])
    options = f"axis={tuple(axes)}, keepdims={keepdims}"
    texts = ["lib.np.sum({x} , {o})", "lib.np.mean({x} , {o})", "lib.np.var({x} , {o})"]
    texts += ["lib.nn.logsumexp({x} , {o})", "lib.np.prod({x} , {o})"]
    texts += ["lib.nn.softmax({x} , axis={a})", "lib.nn.log_softmax({x} , axis={a})"]
    texts += ["lib.np.cumsum({x} , axis={a})", "lib.np.sum({x} > 0.271, {o})"]
    return random.choice(texts).format(x=x.name, o=options, a=axes[0])


def moved(random: Random, program: Program) -> str | None:
    """A change of shape or place."""
    x = pick(random, program, "fibc")
    if x is None:
        return None
    if not x.shape:
        return f"lib.np.broadcast_to({x.name} , (2, 3))"
    axis = random.randint(0, len(x.shape) - 1)
    order = tuple(random.sample(range(len(x.shape)), len(x.shape)))
    start = random.randint(-3, 3)
    step = random.choice([-2, -1, 1, 2, 3])
    lead = ":, " * axis
    texts = [
        "lib.np.reshape({x} , -1)", f"lib.np.transpose({{x}} , {order})",
        f"lib.np.flip({{x}} , {axis})", f"{{x}} [{lead}{start}::{step}]",
        f"lib.np.expand_dims({{x}} , {axis})", f"lib.np.roll({{x}} , {start}, {axis})",
        f"lib.np.concatenate([{{x}} , {{x}} ], {axis})", f"lib.np.stack([{{x}} , {{x}} ], {axis})",
        f"lib.np.repeat({{x}} , 2, axis={axis})", f"lib.np.swapaxes({{x}} , 0, {axis})",
        "lib.np.tile({x} , 2)", "{x} [None]", "lib.np.pad({x} , 1)",
    ]  # fmt: skip
    return random.choice(texts).format(x=x.name)


def indexed(random: Random, program: Program) -> str | None:
    """Reading and writing by index."""
    x = pick(random, program)
    if x is None or not x.shape or not x.shape[0]:
        return None
    n = x.shape[0]
    places = random.choices(range(-n, n), k=random.randint(1, 4))
    index = f"lib.np.array({places!r})"
    texts = [
        f"{{x}} [{index}]", f"{{x}} [{places[0]}]", f"lib.np.take({{x}} , {index}, axis=0)",
        f"{{x}} .at[{index}].add(0.5)", f"{{x}} .at[{places[0]}].set(0.25)",
        f"{{x}} .at[{index}].multiply(0.5)", f"{{x}} .at[{places[0]}:].add({{x}} [{places[0]}])",
    ]  # fmt: skip
    return random.choice(texts).format(x=x.name)


def contracted(kinds: str) -> Rule:
    """A contraction of a value with itself or another, as it is or scaled down."""

    def rule(random: Random, program: Program) -> str | None:
        x, y = pick(random, program, kinds), pick(random, program, kinds)
        if x is None or y is None or not x.shape or not y.shape:
            return None
        texts = ["lib.np.tensordot({x} , {x} , axes=([0], [0]))"]
        if len(x.shape) == 1:
            texts = ["lib.np.outer({x} , {x} )", "lib.np.dot({x} , {x} )"]
        else:
            texts += ["lib.np.matmul({x} , lib.np.swapaxes({x} , -1, -2))"]
            texts += ["lib.np.einsum('...ij,...kj->...ik', {x} , {x} )"]
            texts += ["lib.np.matmul(lib.np.swapaxes({x} , -1, -2), {x} [..., :1])"]
        if y.shape[-2 if len(y.shape) > 1 else 0] == x.shape[-1] and fits(
            x.shape[:-2], y.shape[:-2]
        ):
            texts = ["lib.np.matmul({x} , {y} )"]
        text = random.choice(texts) + random.choice(["", " * 0.3"])
        return text.format(x=x.name, y=y.name)

    return rule


def ordered(random: Random, program: Program) -> str | None:
    """What depends on order; of inputs alone, whose numbers all differ by more than rounding."""
    x = random.choice(program.values[: len(program.inputs)])
    if x.kind != "f" or not x.shape or not x.value.size:
        return None
    axis = random.randint(0, len(x.shape) - 1)
    texts = ["lib.np.sort({x} , axis={a})", "lib.np.argsort({x} , axis={a})"]
    texts += ["lib.np.argmax({x} , axis={a})", "lib.np.max({x} , axis={a})"]
    texts += ["lib.np.min({x} , axis={a}, keepdims=True)", "lib.np.median({x} , axis={a})"]
    return random.choice(texts).format(x=x.name, a=axis)


def emptied(random: Random, program: Program) -> str | None:
    """What can be said of values without elements, and of others as well."""
    x = pick(random, program, "fib")
    if x is None or not x.shape:
        return None
    axis = random.randint(0, len(x.shape) - 1)
    whole = ", dtype='int32'" if x.kind in "ib" else ""  # elsewhere whole numbers may be wider
    texts = ["lib.np.sum({x} , axis={a})", "lib.np.prod({x} , axis={a}" + whole + ")"]
    texts += ["lib.np.any({x} > 0.271, axis={a})", "lib.np.all({x} > 0.271, axis={a})"]
    texts += ["lib.np.cumsum({x} , axis={a})", "lib.np.concatenate([{x} , {x} * 2 ], {a})"]
    if x.kind == "f":
        texts += ["lib.vmap(lambda a: lib.np.tanh(lib.np.sum(a)))({x} )"]
        texts += ["lib.np.tensordot({x} , {x} , {n}) * 0.1", "lib.np.inner({x} , {x} ) * 0.1"]
        texts += ["lib.scan(lambda c, r: (c * 0.5 + lib.np.sum(r), c), lib.np.sum({x} ), {x} )[1]"]
    return random.choice(texts).format(x=x.name, a=axis, n=len(x.shape))


def reduced_mixed(random: Random, program: Program) -> str | None:
    """Reductions of what is not of floats."""
    x = pick(random, program, "fibc")
    if x is None or not x.value.size:
        return None
    whole = ", dtype='int32'" if x.kind in "ib" else ""  # elsewhere whole numbers may be wider
    texts = ["lib.np.sum({x} )", "lib.np.mean({x} )", "lib.np.sum({x} , -1)"]
    texts += ["lib.np.prod({x} " + whole + ")"]
    if x.kind in "ib":
        texts += ["lib.np.max({x} )", "lib.np.min({x} , 0)", "lib.np.argmax({x} , -1)"]
        texts += ["lib.np.sort({x} , -1)", "lib.np.argsort({x} , -1)"]
        texts += ["lib.np.bincount({x} .ravel() & 7, length=8)"]
    fitting = [text for text in texts if x.shape or not text.endswith(("1)", "0)"))]
    return random.choice(fitting).format(x=x.name)


def converted(random: Random, program: Program) -> str | None:
    """A value in another dtype."""
    x = pick(random, program, "fibc")
    if x is None:
        return None
    return f"{x.name} .astype({random.choice(CASTS[x.kind])!r})"


def by_row(random: Random, program: Program) -> str | None:
    """Loops over the first axis."""
    x = pick(random, program)
    if x is None or not x.shape or not x.value.size:
        return None
    return random.choice(ROWS).format(x=x.name)


# -- control flow in control flow -----------------------------------------------------------------


def nested(random: Random, program: Program) -> str | None:
    """Control flow within control flow, in any order; what is inside uses values from outside."""
    return _nested(
        random, program, [*STEPS, *(JUMPING_STEPS if random.choice([True, False]) else [])]
    )


def nested_smooth(random: Random, program: Program) -> str | None:
    """Control flow within control flow that reverse mode can go through."""
    return _nested(random, program, STEPS)


def _nested(random: Random, program: Program, steps: Sequence[str]) -> str | None:
    x, outside = pick(random, program), pick(random, program)
    if x is None or outside is None:
        return None
    return step(random, steps, f"{x.name} ", x.shape, f"{outside.name} ", 3)


def step(
    random: Random, steps: Sequence[str], x: str, shape: tuple[int, ...], outside: str, depth: int
) -> str:
    """An expression of `x` with its shape and dtype, `depth` functions deep at most."""
    fitting = [s for s in steps if shape or "ROW" not in s]
    text = random.choice(fitting if depth == 3 else [*LEAVES, *fitting] if depth else LEAVES)
    b, s = f"b{depth}", f"s{depth}"
    for hole, name, inner in (
        ("STEP", b, shape), ("STEP", b, shape), ("PAIR", f"{s}[1]", shape), ("ROW", b, shape[1:])
    ):  # fmt: skip
        if hole in text:
            body = step(random, steps, name, inner, outside, depth - 1)
            text = text.replace(hole, body, 1)
    return text.format(x=x, b=b, s=s, outside=outside)


# -- rules ----------------------------------------------------------------------------------------

SMOOTH_RULES = [of("f", SMOOTH), of_two(PAIRS), reduced, moved, indexed, contracted("f")]
SMOOTH_RULES += [of("f", FLOWS), by_row, ordered, emptied, nested_smooth]
RULES = [*SMOOTH_RULES, of("f", JUMPING), of("i", WHOLE), of("b", TRUTH), of_two(JUMPING_PAIRS)]
RULES += [nested]
MIXED_RULES = [
    *RULES,
    of("c", COMPLEX),
    converted,
    of_two(MIXED_PAIRS, "fibc"),
    contracted("fic"),
    reduced_mixed,
]


def view(random: Random, x: Known) -> str | None:
    """A value in another shape, or itself; or nothing."""
    texts = ["{x} ", "lib.np.reshape({x} , -1)", "{x} .T", "{x} [None]", "{x} [..., None]"]
    if x.shape and x.shape[0]:
        texts += ["{x} [0]", "{x} [::-1]", "{x} [1:]", "{x} [-1]"]
    text = random.choice([None, *texts])
    return text and text.format(x=x.name)
