"""Run the programs and print a table: python -m tests.jax_libraries.table [word ...]."""

from __future__ import annotations

import sys
import warnings

import jax

warnings.simplefilter("ignore")  # those of the libraries

from . import models, optimizers, samplers, searches, solvers  # noqa: E402, F401  (enter programs)
from .program import PROGRAMS, Program, run  # noqa: E402

LINE = "{:36} {:>6} {:>10} {:>12} {:>11}"


def main(words: list[str]) -> int:
    """Print a row for each program whose name has one of the words; give how many fail."""
    chosen = [p for p in PROGRAMS if not words or any(w in _title(p) for w in words)]
    print(LINE.format("program", "ok", "roundings", "first / jax", "call / jax"))
    failed = []
    for one in chosen:
        said = _row(one)
        if said:
            failed.append(f"{_title(one)}: {said}")
        jax.clear_caches()
    print(f"\n{len(chosen) - len(failed)} of {len(chosen)} programs give the numbers of JAX")
    print(*failed, sep="\n")
    return len(failed)


def _title(one: Program) -> str:
    return f"{one.library}: {one.name}"


def _row(one: Program) -> str:
    """Print the row of a program; what went wrong, or nothing."""
    try:
        found = run(one)
    except Exception as error:  # whatever it is, the other programs are run
        print(LINE.format(_title(one), "no", "", "", ""), flush=True)
        return f"{type(error).__name__}: {error}"[:1000]
    numbers = f"{found.error:.1f}", f"{found.first:.2f}", f"{found.each:.2f}"
    print(LINE.format(_title(one), "yes", *numbers), flush=True)
    return ""


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
