"""More lines of random programs: a rule for each family of ops that the plain ones leave out.

Numbers that are made, not read, say their dtype: the two libraries differ in their defaults.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from program_lines import STEPS, of, pick, step

if TYPE_CHECKING:
    from programs import Known, Program

SPECIAL = [
    "lib.special.erf({x} )", "lib.special.gammaln(lib.np.abs({x} ) + 0.6)",
    "lib.special.digamma(lib.np.square({x} ) + 0.7)", "lib.special.i0e({x} )",
    "lib.special.i1e({x} )", "lib.special.ndtr({x} )", "lib.special.log_ndtr({x} )",
    "lib.special.expit({x} )", "lib.special.xlogy(lib.np.square({x} ), 1.7)",
    "lib.special.entr(lib.np.square({x} ) + 0.3)", "lib.np.sinc({x} * 0.3)", "lib.np.cbrt({x} + 9)",
    "lib.np.arcsinh({x} )", "lib.np.log2({x} * {x} + 1.3)", "lib.np.exp2({x} * 0.1)",
    "lib.np.nan_to_num(lib.np.log({x} - 0.271))", "lib.np.float_power({x} * {x} + 1.1, 0.4)",
]  # fmt: skip
BITS = [
    "lib.lax.population_count({x} .astype('int32'))", "lib.lax.clz({x} .astype('int32'))",
    "~{x} .astype('int16')", "lib.np.floor_divide({x} .astype('int32'), -3)",
    "lib.np.gcd({x} , 6)", "lib.np.fmod({x} , 4)", "lib.np.divmod({x} , 5)[0]",
    "lib.np.bitwise_count({x} & 63)",
    "{x} .astype('int8') + {x} .astype('int8')", "lib.np.sort({x} .ravel())",
    "lib.lax.bitcast_convert_type({x} .astype('int32'), 'uint32') >> 28",
    "lib.np.sum({x} , dtype='int32') & 31", "lib.np.cumsum({x} & 3, dtype='int32')",
    "lib.np.searchsorted(lib.np.array([0, 2, 5], 'int32'), {x} .astype('int32'))",
    "lib.np.bincount({x} .ravel() & 7, length=8)", "lib.np.lcm({x} & 7, 4)",
    "lib.np.where({x} & 1 == 0, {x} , -{x} )", "lib.np.left_shift({x} & 7, 3)",
    "lib.lax.shift_right_logical({x} .astype('uint8'), lib.np.full({x} .shape, 1, 'uint8'))",
    "lib.np.bitwise_xor({x} .astype('int32'), 21)", "lib.nn.one_hot({x} & 3, 4, dtype='float64')",
    "lib.np.unpackbits({x} .ravel().astype('uint8'))", "{x} .astype('float64') * 0.37",
]  # fmt: skip
NUMBERS = [  # real ones to complex ones
    "{x} + 1j * lib.np.sin({x} )", "lib.np.exp(1j * {x} )",
    "lib.lax.complex({x} .astype('float64'), {x} .astype('float64') * -0.5)",
]  # fmt: skip
COMPLEX = [
    "lib.np.angle({x} * 0.05 + 6.5)", "lib.np.log({x} * 0.05 + 6.5)", "lib.np.tanh({x} * 0.02)",
    "lib.np.power({x} * 0.05 + 6.5, 0.5)", "lib.np.vdot({x} , {x} ) * 0.01", "{x} ** 2 * 0.1",
    "lib.np.einsum('...,...->...', {x} , lib.np.conj({x} ))", "lib.np.cosh({x} * 0.02)",
    "lib.np.where(lib.np.real({x} ) > 0.271, {x} , 0.5)", "1.0 / ({x} * 0.05 + 6.5)",
    "lib.grad(lambda a: lib.np.real(lib.np.sum(lib.np.sin(a * 0.1) * lib.np.conj(a))))({x} )",
    "lib.vjp(lambda a: lib.np.exp(a * 0.1) * a, {x} )[1](lib.np.conj({x} ))[0]",
    "lib.jvp(lambda a: lib.np.abs(a * 0.05 + 6.5), ({x} ,), (lib.np.conj({x} ),))[1]",
    "lib.vjp(lambda a: a * lib.np.imag(a) * 0.1, {x} )[1]({x} )[0]",
]  # fmt: skip
# Made of a body: STEP keeps the shape of `b`, ROW that of a row of it.
DERIVED = [
    "lib.grad(lambda b: lib.np.sum(lib.np.sin(STEP)))({x} )",
    "lib.jvp(lib.grad(lambda b: lib.np.sum(lib.np.sin(STEP))), ({x} ,), (lib.np.cos({x} ),))[1]",
    "lib.vjp(lambda b: STEP, {x} )[1](lib.np.cos({x} ))[0]",
    "lib.checkpoint(lambda b: STEP)({x} )",
    "lib.grad(lambda a: lib.np.sum(lib.checkpoint(lambda b: STEP)(a)))({x} )",
    "lib.jvp(lambda b: STEP, ({x} ,), (lib.np.sin({x} ),))[1]",
    "lib.with_jvp(lambda b: STEP, lambda p, t: (lib.np.sin(p[0]), t[0] * 0.7))({x} )",
    "lib.jvp(lib.with_jvp(lambda b: STEP, "
    "lambda p, t: (p[0] * 0.9, t[0] * lib.np.cos(p[0]))), ({x} ,), ({x} ,))[1]",
    "lib.grad(lambda a: lib.np.sum(lib.with_vjp(lambda b: (STEP, b), "
    "lambda kept, ct: (ct * kept * 0.5,))(a)))({x} )",
]
DERIVED_ROWS = [
    "lib.grad(lambda a: lib.np.sum(lib.vmap(lambda b: ROW)(a) * 0.3))({x} )",
    "lib.vmap(lambda b: lib.cond(lib.np.sum(b) > 0.271, lambda b: ROW, lambda b: ROW, b))({x} )",
    "lib.grad(lambda a: lib.np.sum(lib.vmap(lambda b: lib.cond(lib.np.sum(b) > 0.271, "
    "lambda b: ROW, lambda b: ROW, b))(a)))({x} )",
    "lib.vmap(lib.grad(lambda b: lib.np.sum(ROW)))({x} )",
    "lib.grad(lambda a: lib.np.sum(lib.scan(lambda c, b: (c * 0.5 + lib.np.sum(ROW), c), "
    "lib.np.sum(a), a)[1]))({x} )",
    "lib.vmap(lib.with_jvp(lambda b: ROW, lambda p, t: (p[0] * 0.9, t[0] * 0.7)))({x} )",
    "lib.vmap(lambda b: lib.fori_loop(0, 3, lambda i, b: ROW, b), in_axes=-1, out_axes=-1)({x} .T)",
    "lib.vmap(lambda b: lib.while_loop(lambda s: lib.np.sum(lib.np.abs(s)) > 0.271, "
    "lambda s: s * 0.5, b))({x} )",
    "lib.grad(lambda a: lib.np.sum(lib.vmap(lambda r: lib.scan(lambda c, b: "
    "(lib.np.tanh(c * 0.5 + lib.np.sum(b)), c), 0.1 * lib.np.sum(r), r[None])[1])(a)))({x} )",
    "lib.jvp(lib.grad(lambda a: lib.np.sum(lib.scan(lambda c, b: (lib.np.sin(c + b), c * b), "
    "a[0], a)[1])), ({x} ,), (lib.np.cos({x} ),))[1]",
]
DERIVED_LINES = [
    "lib.jacfwd(lambda b: lib.np.tanh(b) * lib.np.sum(b))({x} )",
    "lib.jacrev(lambda b: lib.np.cumsum(lib.np.sin(b)))({x} )",
]


def real(random: Random, program: Program, rank: int = 1, kinds: str = "f") -> Known | None:
    """A value of 32 bits or more with elements and with at least so many axes."""
    x = pick(random, program, kinds)
    if x is None or len(x.shape) < rank or not x.value.size or x.value.dtype.itemsize < 4:
        return None
    return x


def transformed(random: Random, program: Program) -> str | None:
    """Fourier transforms."""
    x = real(random, program, kinds="fc")
    if x is None:
        return None
    a = random.randrange(len(x.shape))
    texts = ["lib.np.fft.fft({x} , axis={a}) * 0.2", "lib.np.fft.ifft({x} , axis={a})"]
    texts += ["lib.np.fft.fftshift({x} , axes={a})", "lib.np.fft.fftn({x} ) * 0.1"]
    if x.kind == "f":
        texts += ["lib.np.fft.rfft({x} , axis={a}) * 0.2"]
    if x.shape[a] > 1:
        texts += ["lib.np.fft.irfft({x} , axis={a})"]
    return random.choice(texts).format(x=x.name, a=a)


def solved(random: Random, program: Program) -> str | None:
    """Linear algebra, of matrices that are far from singular."""
    x = real(random, program, 2, "fc")
    if x is None or max(x.shape[-2:]) > 17:
        return None
    matrix = "(lib.np.matmul({x} , lib.np.swapaxes(lib.np.conj({x} ), -1, -2)) * 0.1"
    matrix += f" + lib.np.eye({x.shape[-2]}, dtype='float64') * 2.3)"
    texts = [
        "lib.np.linalg.slogdet(M)[1]", "lib.np.linalg.inv(M)", "lib.np.linalg.solve(M, {x} )",
        "lib.np.linalg.cholesky(M)", "lib.np.linalg.eigvalsh(M)",
        "lib.np.abs(lib.np.linalg.qr(M)[1])", "lib.np.linalg.norm({x} , axis=(-2, -1))",
        "lib.np.linalg.matrix_power(M, 2) * 0.1", "lib.np.linalg.pinv(M)",
        "lib.np.trace({x} , axis1=-2, axis2=-1)", "lib.np.tril({x} )", "lib.np.triu({x} , 1)",
        "lib.np.diagonal({x} , axis1=-2, axis2=-1)", "lib.np.linalg.svd(M, compute_uv=False)",
        "lib.grad(lambda a: lib.np.sum(lib.np.linalg.slogdet(a)[1]))(M)",
        "lib.np.kron({x} [..., :2, :2], {x} [..., :1, :2])" if len(x.shape) == 2 else "{x} .mT",
    ]  # fmt: skip
    return random.choice(texts).replace("M", matrix).format(x=x.name)


def convolved(random: Random, program: Program) -> str | None:
    """Convolutions, of the value with a part of itself."""
    x = real(random, program)
    if x is None or x.value.size < 3:
        return None
    stride, left, right, spread, apart = (random.choice([1, 1, 2, 3]) for _ in range(5))
    options = f"({stride},), [({left}, {right})], lhs_dilation=({spread},), rhs_dilation=({apart},)"
    line = "lib.lax.conv_general_dilated({x} .reshape(1, 1, -1), K, O)"
    kernel = "lib.np.sin({x} ).reshape(-1)[:3].reshape(1, 1, -1)"
    texts = [line, "lib.np.convolve({x} .ravel(), {x} .ravel()[:3], mode='same')"]
    texts += [f"lib.grad(lambda k: lib.np.sum(lib.np.sin({line.replace('K', 'k')})))(K)"]
    texts += ["lib.np.correlate({x} .ravel(), {x} .ravel()[:2], mode='full')"]
    if len(x.shape) > 1:
        h, w = x.shape[-2:]
        plane = f"lib.lax.conv_general_dilated({{x}} .reshape(-1, 1, {h}, {w}), "
        plane += f"{{x}} .reshape(-1, 1, {h}, {w})[:2, :, :2, :2], ({stride}, 1), 'SAME')"
        texts += [plane]
    text = random.choice(texts).replace("K", kernel).replace("O", options)
    return text.format(x=x.name)


def windowed(random: Random, program: Program) -> str | None:
    """Reductions of windows, and running ones."""
    x = real(random, program)
    if x is None or x.value.dtype.name != "float64":
        return None
    a = random.randrange(len(x.shape))
    window = tuple(random.choice([1, 2, 3]) for _ in x.shape)
    strides = tuple(random.choice([1, 1, 2]) for _ in x.shape)
    padding = random.choice(["VALID", "SAME"])
    options = f"{window}, {strides}, {padding!r}"
    texts = [
        "lib.lax.reduce_window({x} , 0.0, lib.lax.add, {o})",
        "lib.lax.reduce_window({x} , -lib.np.inf, lib.lax.max, {o})",
        "lib.lax.cumsum({x} , {a}, reverse=True)", "lib.lax.cumlogsumexp({x} , {a})",
        "lib.lax.cumprod({x} * 0.3 + 0.5, {a})", "lib.lax.cummax({x} , {a})",
        "lib.associative_scan(lib.np.add, {x} , axis={a})", "lib.np.diff({x} , axis={a})",
        "lib.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), "
        "({x} * 0.3, lib.np.sin({x} )), axis={a})[1]",
        "lib.np.cumprod(lib.np.cos({x} ), axis={a})", "lib.np.trapezoid({x} , axis={a})",
        "lib.np.ptp({x} , axis={a})", "lib.np.std({x} + 0.1, axis={a})",
    ]  # fmt: skip
    return random.choice(texts).format(x=x.name, o=options, a=a)


def placed(random: Random, program: Program) -> str | None:
    """Reading and writing at computed places."""
    x = pick(random, program, "ffib")
    if x is None or not x.shape or not x.value.size:
        return None
    n, a = x.shape[0], random.randrange(len(x.shape))
    places = [random.randrange(n) for _ in range(random.randint(1, 5))]
    more = [random.randrange(n) for _ in places]
    index, other = (f"lib.np.array({each!r}, 'int32')" for each in (places, more))
    lead = [1] * len(x.shape)
    lead[a] = len(places)
    along = [random.randrange(x.shape[a]) for _ in places]
    start = [random.randint(-1, size) for size in x.shape]
    sizes = [random.randint(1, size) for size in x.shape]
    texts = [
        f"lib.np.take_along_axis({{x}} , lib.np.array({along}, 'int32').reshape({lead}), {a})",
        f"lib.lax.dynamic_slice({{x}} , {tuple(start)}, {tuple(sizes)})",
        f"lib.lax.dynamic_update_slice({{x}} , {{x}} [:1], {tuple(start)})",
        f"lib.np.take({{x}} , lib.np.array([{n + 2}, -1, 0], 'int32'), axis=0, mode='clip')",
        f"lib.np.take({{x}} , lib.np.array([{n + 2}, -1, 0], 'int32'), axis=0, mode='wrap')",
        f"lib.np.rot90({{x}} .reshape({n}, -1))", f"{{x}} .at[{index}].set({{x}} [{places[0]}])",
        f"lib.np.flip({{x}} )[{index}]", f"lib.np.delete({{x}} , {places[0]}, axis=0)",
        f"lib.np.array_split({{x}} , 2, axis={a})[0]", f"lib.np.moveaxis({{x}} , {a}, 0)",
        f"lib.np.insert({{x}} , {places[0]}, {{x}} [0], axis=0)", "lib.np.atleast_2d({x} )",
    ]  # fmt: skip
    if x.kind == "f":
        texts += [
            f"{{x}} .at[{index}].max(0.3)", f"{{x}} .at[{index}].min({{x}} [{other}])",
            f"{{x}} .at[{index}].add({{x}} [{other}])", f"{{x}} .at[{index}].multiply(0.3)",
            f"{{x}} .at[{index}].get(mode='fill', fill_value=0.5)",
            f"lib.np.where(lib.np.arange({x.shape[-1]}) % 3 == 0, {{x}} , 0.25)",
            f"lib.grad(lambda b: lib.np.sum(lib.np.sin(b.at[{index}].add(b[{other}]))))({{x}} )",
            f"lib.grad(lambda b: lib.np.sum(lib.np.sin(b[{index}]) * 0.5))({{x}} )",
        ]  # fmt: skip
    if len(x.shape) > 1 and x.shape[0] <= x.shape[1]:
        texts += [f"{{x}} [{index}, {other}]", f"{{x}} [:, {index}]", f"{{x}} [None, {index}, 0]"]
    return random.choice(texts).format(x=x.name)


def ranked(random: Random, program: Program) -> str | None:
    """What depends on order, of inputs alone."""
    x = random.choice(program.values[: len(program.inputs)])
    if x.kind != "f" or not x.shape or not x.value.size:
        return None
    a, k = random.randrange(len(x.shape)), random.randint(1, x.shape[-1])
    texts = [
        "lib.lax.top_k({x} , {k})[0]", "lib.lax.top_k({x} , {k})[1]",
        "lib.np.quantile({x} , 0.3, axis={a})", "lib.np.partition({x} , 0)[..., :1]",
        "lib.np.argmin({x} , axis={a})", "lib.np.sort({x} , axis={a}, descending=True)",
        "lib.lax.sort_key_val({x} , {x} * 2)[1]",
        "lib.np.searchsorted(lib.np.sort({x} .ravel()), 0.3)",
        "lib.grad(lambda b: lib.np.sum(lib.np.sort(b, axis={a}) ** 2))({x} )",
        "lib.grad(lambda b: lib.np.sum(lib.np.max(b, axis={a}) * 0.7))({x} )",
        "lib.grad(lambda b: lib.np.sum(lib.np.cos(lib.lax.cummin(b, {a}))))({x} )",
        "lib.np.percentile({x} , 70, axis={a})", "lib.np.argsort(-{x} , axis={a})",
        "lib.np.digitize({x} , lib.np.array([-1.0, 0.003, 1.0], 'float64'))",
        "lib.np.histogram({x} , bins=4, range=(-2.0, 2.0))[0]",
    ]  # fmt: skip
    return random.choice(texts).format(x=x.name, a=a, k=k)


def drawn(random: Random, program: Program) -> str | None:
    """Random numbers, which are the same in both libraries."""
    x = real(random, program)
    if x is None or x.value.dtype.name != "float64":
        return None
    key = f"lib.random.fold_in(lib.random.key({random.randrange(99)}), 3)"
    key = random.choice([key, f"lib.random.split(lib.random.key({random.randrange(99)}))[1]"])
    texts = [
        f"lib.random.normal({key}, {{x}} .shape, 'float64') * 0.5 + {{x}} ",
        f"lib.random.uniform({key}, {{x}} .shape, 'float64') * {{x}} ",
        f"lib.random.permutation({key}, {{x}} )",
        f"lib.random.randint({key}, (3,), 0, 9, 'int32')",
        f"lib.random.exponential({key}, {{x}} .shape, 'float64') * {{x}} ",
        f"lib.random.bits({key}, (5,), 'uint32') >> 27",
        f"lib.random.truncated_normal({key}, -1.0, 1.0, {{x}} .shape, 'float64')",
        f"lib.random.gumbel({key}, {{x}} .shape, 'float64') * 0.1",
        f"lib.vmap(lambda k: lib.random.normal(k, (2,), 'float64'))(lib.random.split({key}, 3))",
        f"lib.grad(lambda b: lib.np.sum(b * lib.random.normal({key}, b.shape, 'float64')))({{x}} )",
    ]
    return random.choice(texts).format(x=x.name)


def derived(random: Random, program: Program) -> str | None:
    """Derivatives of bodies with control flow, batches of them, and rules of the user's."""
    x = real(random, program, 0)
    if x is None or x.value.dtype.name != "float64":
        return None
    texts = [*DERIVED, *(DERIVED_ROWS if x.shape else [])]
    if len(x.shape) == 1 and x.shape[0] < 18:
        texts += DERIVED_LINES
    text = random.choice(texts)
    if text.endswith("({x} .T)") and len(x.shape) < 2:
        return None
    for hole, shape in (("STEP", x.shape), ("ROW", x.shape[1:])):
        while hole in text:
            # a rule of the user's sees nothing but its argument
            body = step(random, STEPS, "b", shape, "b", random.choice([1, 2]))
            text = text.replace(hole, body, 1)
    return text.format(x=x.name)


SMOOTH_FAMILIES = [transformed, solved, convolved, placed, drawn]
FAMILIES = [of("f", SPECIAL), of("i", BITS), of("f", NUMBERS), of("c", COMPLEX), transformed]
FAMILIES += [solved, convolved, windowed, placed, ranked, drawn, derived]
