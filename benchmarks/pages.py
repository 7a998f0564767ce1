"""The pages that are written: everything, for docs, and a chart with a sentence for the README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .report import (
    as_markdown,
    as_text,
    head_of,
    left_out,
    machine,
    problems,
    row_of,
    tables,
)
from .result import OURS, SLOW, Result, geometric_mean, slower, speedups

MOST_OF_NUMPY, MOST_OF_JAX = 2.5, 0.5  # times of small operations that are fast enough
FULL = "docs/benchmarks.md"
EXPLAINED = """\
Every library computes the same from the same numbers on all cores, each in a process of its own,
and they take turns: a slow minute hits all. Times are medians of rounds; a speed-up is the median
over rounds of the peer's time divided by that of rlx, so that above 1 rlx is faster. The best peer
is the fastest that gives the right result, which is that of JAX or NumPy in float64. The floor is
the time that the arithmetic of a case takes at the speed of the best product of matrices of this
run, or that copying as many bytes takes on all cores, whichever is longer.

JAX and rlx compile whole programs (`jit`). PyTorch runs eagerly and under `torch.compile`
(inductor), trains with its fused Adam, and has its own LSTM and RNN; MLX runs under `mx.compile`.
Loops in time are Python's in PyTorch and MLX, around a compiled body. Images and weights are laid
as each library likes them best before the clock starts. The weights of models in use are constants
of ONNX Runtime's graphs; rlx binds them (`compiled.bind`). The group `eager` calls
operations one by one, as they are written, without any compiler."""
STARTS_EXPLAINED = """\
The first call of a function in a fresh process less a later call; then the same in a second
process, which finds what the first left on disk where the library keeps compiled code. Memory is
what the process takes on top of one in which the library was loaded, at the peak of later calls."""

SLOWER_EXPLAINED = """\
What is known of such cases. On an AMD EPYC the three cases of the run that were below
(transposition, 8-bit integers, depthwise convolution) were measured again, nine rounds of these
alone: 1.60, 0.97, 0.99. Products: in turns in one process on a quiet Intel machine rlx and MKL took
the same time (milliseconds of 256: 0.11 and 0.11, of 512: 0.83 and 0.83, of 2048: 56 and 55). In
the rounds of this page each library begins after a rest, on processors that neighbors slow down
unequally, and rlx, which gives each thread one part of a product, waits for the slower. Twice as
many parts were tried: up to 1.5 times as fast on unequal processors, 2 to 5 % slower in models on
equal ones, 15 % for products of few rows. A matrix times one row or column is limited by reading
the matrix, which takes the time of the floor. Convolution 3x3 and ResNet-18 on one image: oneDNN
and ONNX Runtime lay blocks of channels side by side first, rlx takes arrays as they are."""


def conclusion(results: Sequence[Result]) -> str:
    """The mean and how many are slower, in a sentence."""
    found, slow = speedups(results), slower(results)
    names = f": {', '.join(r.case.title for r in slow)}" if 0 < len(slow) <= 5 else ""
    return (
        f"Against the best peer of each case rlx is {geometric_mean(found):.2f} times as fast "
        f"(geometric mean of {len(found)} cases); {len(slow)} cases are below {SLOW}x{names}."
    )


def eager_conclusion(results: Sequence[Result]) -> str:
    """Single operations against the better of JAX and PyTorch, small ones against NumPy and JAX.

    NumPy has neither derivatives nor devices, so that it is a measure of its own.
    """
    given = [r for r in results if r.case.kind == "eager"]
    found = [ratio for r in given if (ratio := r.rival_speedup) is not None]
    small = [r for r in given if r.case.is_small]
    near = sum(ratio >= 1 / MOST_OF_NUMPY for ratio in speedups(small, "numpy"))
    ahead = sum(ratio >= 1 / MOST_OF_JAX for ratio in speedups(small, "jax"))
    return (
        f"Operations one by one: {geometric_mean(found):.2f} times as fast as the better of JAX "
        f"and PyTorch (geometric mean of {len(found)} cases). Of {len(small)} small elementwise "
        f"ones {near} take at most {MOST_OF_NUMPY} times the time of NumPy, {ahead} at most "
        f"{MOST_OF_JAX} times that of JAX."
    )


def floors_told(peaks: dict[str, float]) -> str:
    """The peaks, in a sentence."""
    each = [f"{dtype} {flops / 1e9:.0f} GFLOP/s" for dtype, flops in peaks.items()]
    return f"Best products of matrices: {', '.join(each)}."


def terminal_page(results: Sequence[Result], peaks: dict[str, float]) -> str:
    """All tables, what went wrong, and the conclusion."""
    made = tables(results)
    summary = made.pop("Summary")
    parts = [f"{title}\n{as_text(*table)}" for title, table in made.items()]
    parts += ["\n".join(problems(results))] if problems(results) else []
    parts += [floors_told(peaks), as_text(*summary), conclusion(results)]
    parts += [eager_conclusion(results)] if any(r.case.kind == "eager" for r in results) else []
    return "\n\n".join(parts)


def starts_told(results: Sequence[Result], told: dict[str, Any]) -> list[str]:
    """Where compile times were measured, in a sentence, if not in the run of the other times."""
    starts = [found for result in results for found in result.starts.values()]
    found = sorted({start.get("measured_on", machine(told)) for start in starts})
    return [f"Measured on {'; some on '.join(found)}."] if found != [machine(told)] else []


def full_page(
    results: Sequence[Result], peaks: dict[str, float], chart: str | None, told: dict[str, Any]
) -> str:
    """Everything, in Markdown; `told` is the environment of the run."""
    parts = ["# Benchmarks", "`make bench` rewrites this page.", EXPLAINED]
    parts += [f"Measured on {machine(told)}. {floors_told(peaks)}", conclusion(results)]
    parts += [eager_conclusion(results)] if any(r.case.kind == "eager" for r in results) else []
    parts += [f"![speed-up against the best peer]({chart})"] if chart else []
    for title, table in tables(results).items():
        parts.append(f"## {title}")
        if title.startswith("Compiling"):
            parts += [STARTS_EXPLAINED, *starts_told(results, told)]
        parts.append(as_markdown(*table))
    if behind := slower(results):
        table = as_markdown(head_of([OURS]), [row_of(r, [OURS]) for r in behind])
        parts += [f"## Below {SLOW}x", SLOWER_EXPLAINED, table]
    for title, lines in (("Wrong or failed", problems(results)), ("Left out", left_out(results))):
        if lines:
            parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def readme_part(results: Sequence[Result], told: dict[str, Any], drawn: str | None) -> str:
    """The chart of the cases that stand for others, and the mean of all."""
    parts = [f"![how many times as fast as the best peer]({drawn})"] if drawn else []
    parts.append(
        f"{conclusion(results)} On {machine(told)}. All cases, spreads, floors, compile "
        f"times and how this is measured: [{FULL}]({FULL})."
    )
    return "\n\n".join(parts)


def standing_for_others(results: Sequence[Result]) -> list[Result]:
    """The cases of the README's chart."""
    return [r for r in results if r.case.in_readme] or list(results)
