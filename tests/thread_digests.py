"""What programs give, as digests: to compare runs with different numbers of threads.

    python tests/thread_digests.py --programs 40 --cases matmul,resnet

prints a line for each model, random program, its gradient and benchmark case. Threads share every
loop that has two rounds, however short it is. With `--families` so many convolutions of few
channels, products and reductions, drawn by chance, have lines too. Without a number of threads
(RLX_NUM_THREADS) it runs itself with 1 and 3, or with `--many` more, and compares.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.trace.apply import apply

ROOT = Path(__file__).parent.parent
THREADS = (1, 3)
MANY = (1, 2, 3, 5, 8, 16)
random = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


WEIGHTS = {"w": normal(50, 70), "b": normal(70), "out": normal(70, 11)}
KERNEL, IMAGES = normal(8, 3, 3, 3), normal(5, 3, 13, 17)


def perceptron(weights: Any, x: Any) -> Any:
    hidden = rnp.tanh(x @ weights["w"] + weights["b"])
    return rlx.nn.softmax(hidden @ weights["out"])


def loss(weights: Any, x: Any) -> Any:
    return -rnp.log(perceptron(weights, x)[:, 0]).mean()


def convolution(kernel: Any, images: Any) -> Any:
    y = rlx.lax.conv_general_dilated(images, kernel, (1, 1), "SAME")
    return (rnp.maximum(y, 0) ** 2).mean((2, 3)).sum()


def attention(x: Any) -> Any:
    q = x.reshape(3, 21, 4, 8)
    return rlx.nn.dot_product_attention(q, q, q, is_causal=True)


def in_blocks(x: Any) -> Any:
    keys, values = x[:, :, 0], x[:, :, 1]
    made, total = apply("attention", x, keys, values, scale=0.5, is_causal=True, blocks=(8, 16))
    return (made**2).sum() + total.sum()


def in_pages(x: Any) -> Any:
    """Queries at the same positions of two sequences, whose pages lie among each other."""
    keys, values = x[:16].reshape(6, 8, 2, 16), x[16:].reshape(6, 8, 2, 16)
    tables, line = np.array([[4, 0, 2], [1, 5, 3]], "int32"), np.arange(48, dtype="int32")
    where = rnp.asarray(tables), rnp.asarray(line % 2), rnp.asarray(line // 2)
    q = x.reshape(-1)[: 48 * 64].reshape(48, 4, 16)
    return apply("paged_attention", q, keys, values, *where, scale=0.25)


def in_long_pages(x: Any) -> Any:
    """A token far on, some of a shorter text, a short one: threads share the first one."""
    pages = x.reshape(400, 16, 1, 16)
    tables = np.random.default_rng(0).permutation(960).reshape(3, 320).astype("int32") % 400
    sequence = np.repeat(np.arange(3, dtype="int32"), (1, 5, 2))
    positions = np.array([5003, *range(690, 695), 7, 8], "int32")
    q = x[:8].reshape(8, 1, 16) * np.ones((1, 3, 1), "float32")
    where = rnp.asarray(tables), rnp.asarray(sequence), rnp.asarray(positions)
    return apply("paged_attention", q, pages, -pages, *where, scale=0.25)


def rows(x: Any) -> Any:
    centered = x - x.mean(1, keepdims=True)
    y = centered / rnp.sqrt((centered**2).mean(1, keepdims=True) + 1e-5)
    return y, rnp.cumsum(x, 0), rnp.sort(x, 1), x.sum(0), x.std(), x.T @ x


def recurrence(state: Any, w: Any) -> Any:
    return rlx.scan(lambda s, _: (rnp.tanh(rnp.einsum("bi,oi->bo", s, w)), s), state, None, 9)


MODELS = {
    "perceptron": (rlx.value_and_grad(loss), WEIGHTS, normal(37, 50)),
    "convolution": (rlx.grad(convolution, (0, 1)), KERNEL, IMAGES),
    "attention": (attention, normal(3, 21, 32)),
    "gradient": (rlx.grad(lambda x: (attention(x) ** 2).sum()), normal(3, 21, 32)),
    "attention in blocks": (rlx.value_and_grad(in_blocks), normal(6, 1, 2, 37, 8)),
    "attention in pages": (in_pages, normal(32, 96)),
    "attention in long pages": (in_long_pages, normal(6400, 16)),
    "recurrence": (recurrence, normal(24, 64), normal(64, 64) / 8),
    "rows": (rows, normal(301, 203)),
    "long sums": (lambda x: (x.sum(), x.sum(0), x.T.mean(0)), normal(1100, 1003)),
}


def digest(tree: Any) -> str:
    """A digest of all bits."""
    arrays = [np.asarray(leaf) for leaf in rlx.tree.leaves(tree)]
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16]


def tell_models() -> None:
    for name, (function, *arguments) in MODELS.items():
        print(name, digest(rlx.jit(function)(*arguments)))
    x = normal(37, 50)
    program = rlx.jit(perceptron).lower(WEIGHTS, x).compile()
    program.bind(weights=WEIGHTS)
    print("bound perceptron", digest(program(x)))


def tell_families(count: int) -> None:
    """Convolutions in both layouts with their gradients, products, reductions."""
    drawn = np.random.default_rng(7)

    def one_of(*choices: int) -> int:
        return int(drawn.choice(choices))

    for _ in range(count):
        inside, outside, images = one_of(*range(1, 18)), one_of(*range(1, 18)), one_of(1, 5, 64)
        size, width, step = one_of(5, 8, 13), one_of(1, 3, 5), one_of(1, 2)
        for layout, kernel in (("NHWC", "HWIO"), ("NCHW", "OIHW")):
            sizes = {"N": images, "C": inside, "O": outside, "I": inside}
            x = normal(*(sizes.get(c, size) for c in layout))
            w = normal(*(sizes.get(c, width) for c in kernel))

            def convolved(w: Any, x: Any, step: int = step, spec: Any = None) -> Any:
                return rlx.lax.conv_general_dilated(
                    x, w, (step, step), "SAME", dimension_numbers=spec
                )

            f = functools.partial(convolved, spec=(layout, kernel, layout))
            both = rlx.grad(lambda w, x, f=f: (f(w, x) ** 2).sum(), (0, 1))
            text = f"{layout} {inside} {outside} {images} {size} {width} {step}"
            print("convolution", text, digest((rlx.jit(f)(w, x), rlx.jit(both)(w, x))))
        many, k = one_of(1, 2, 5, 12), one_of(1, 8, 33, 64) * one_of(1, 13)
        m, n = one_of(1, 7, 9, 33, 130), one_of(1, 2, 16, 64, 200)
        a, b = normal(many, m, k), normal(many, k, n)
        chained = rlx.jit(lambda a, b: (rlx.nn.softmax(a @ b / 9) @ b.swapaxes(1, 2), a @ b))
        print("products", many, m, k, n, digest(chained(a, b)))
        shape = [one_of(1, 3, 17, 64, 300) for _ in range(3)]
        axis, x = one_of(0, 1, 2), normal(*shape)
        sums = rlx.jit(lambda x, i=axis: (x.sum(i), x.std(i), rnp.cumsum(x, i), x.mean()))
        print("sums", shape, axis, digest(sums(x)))


def tell_programs(count: int) -> None:
    """Random programs, and the gradients of those that have one."""
    from libraries import OURS
    from programs import any_program

    for seed in range(count):
        made = any_program(seed)

        def run(*xs: Any, made: Any = made) -> Any:
            return made.on(OURS)(*xs)

        print(f"program {seed}", digest(rlx.jit(run)(*made.inputs)))
        if made.kind == "derivatives":

            def total(*xs: Any, run: Any = run) -> Any:
                return sum(rnp.sum(rnp.abs(y)) for y in rlx.tree.leaves(run(*xs)))

            places = tuple(range(len(made.inputs)))
            gradient = rlx.jit(rlx.grad(total, places))
            print(f"gradient {seed}", digest(gradient(*made.inputs)))


def tell_cases(names: list[str]) -> None:
    """Cases of the benchmarks, with what they train after some steps; `all` are all."""
    from benchmarks.cases import CASES
    from benchmarks.worker import Worker

    worker = Worker("rlx", False)
    for name in CASES if names == ["all"] else names:
        print(name, digest(worker.prepare(name)), flush=True)
        worker.drop()


def run(threads: int, arguments: list[str]) -> list[str]:
    """The lines that a process with so many threads prints."""
    environment = os.environ | {"RLX_NUM_THREADS": str(threads), "RLX_CACHE": "0"}
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def share_everything() -> None:
    """Let threads share what is too little for them, too."""
    from rlx.backends.cpu.loops import costs

    costs.NANOSECONDS_PER_PART = costs.PRODUCT_NANOSECONDS = 1
    dividing = importlib.import_module("rlx.lower.schedule.divide_loops")
    dividing.LEAST_WORK = 1  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--cases", default="")
    parser.add_argument("--families", type=int, default=0)
    parser.add_argument("--many", action="store_true", help="threads: 1, 2, 3, 5, 8, 16")
    options = parser.parse_args()
    if "RLX_NUM_THREADS" in os.environ:
        share_everything()
        tell_models()
        tell_families(options.families)
        tell_programs(options.programs)
        tell_cases(options.cases.split(",") if options.cases else [])
        return
    every = MANY if options.many else THREADS
    first, *others = (run(threads, sys.argv[1:]) for threads in every)
    pairs = [pair for each in others for pair in zip(first, each, strict=True)]
    wrong = [line for line, other in pairs if line != other]
    print(f"{len(first)} results with {every} threads, {len(wrong)} differ", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
