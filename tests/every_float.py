"""The functions of one float32 at every float32 there is: the greatest error of each.

    python tests/every_float.py               all functions; under an hour on two cores
    python tests/every_float.py exp tanh      these; a minute or two each
    python tests/every_float.py --step 17     every 17th number

An error above the one that is stated (`UNITS`), a NaN where there is a number, and a wrong sign end
it with status 1.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from scipy import special
from test_vector_math import REFERENCES, TWO

import rlx
from rlx.backends.cpu.formulas.functions import UNITS
from rlx.trace.apply import apply, as_tensor

CHUNK = 1 << 18  # its arrays stay in the processor's cache
FAST = {"erf": special.erf, "erfc": special.erfc}  # those of the test go number by number


@functools.cache
def compiled(name: str) -> Callable[[np.ndarray], Any]:
    """The function as a program of its own."""
    return rlx.jit(lambda x: apply(name, as_tensor(x)))


def greatest(name: str, first: int, step: int) -> tuple[float, float, int]:
    """The greatest error in a chunk, where it is, and how many results are of a wrong kind."""
    x = np.arange(first, min(first + CHUNK * step, 1 << 32), step).astype(np.uint32)
    x = x.view(np.float32)
    found = np.asarray(compiled(name)(x))
    reference = FAST.get(name, REFERENCES[name][0])
    with np.errstate(all="ignore"):
        wide = reference(x.astype(np.float64))
        rounded = wide.astype(np.float32)
    # where the bits are those of the nearest float32, the error is half a unit at most
    differs = found.view(np.int32) != rounded.view(np.int32)
    if differs.any():
        differs &= ~(np.isnan(found) & np.isnan(rounded))
    other = np.flatnonzero(differs)
    if not other.size:
        return 0.5, float(x[0]), 0
    x, found, wide, rounded = x[other], found[other], wide[other], rounded[other]
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(found.astype(np.float64) - wide) / unit
    error = np.where(np.isnan(error), np.inf, error)
    odd = np.isnan(found) | np.isnan(rounded) | (np.signbit(found) != np.signbit(rounded))
    worst = int(np.argmax(error))
    return float(error[worst]), float(x[worst]), int(odd.sum())


def parts(name: str, step: int) -> Iterator[tuple[str, int, int]]:
    """What `greatest` is called with, for all numbers."""
    return ((name, first, step) for first in range(0, 1 << 32, CHUNK * step))


def main() -> None:
    single = [name for name in REFERENCES if name not in TWO]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=single)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    wrong = 0
    with ProcessPoolExecutor(options.workers) as pool:
        for name in options.names:
            began = time.monotonic()
            found = list(
                pool.map(greatest, *zip(*parts(name, options.step), strict=True), chunksize=16)
            )
            error, place, _ = max(found)
            odd = sum(count for *_, count in found)
            is_fine = error <= UNITS[name][0] and not odd
            wrong += not is_fine
            print(
                f"{name}: at most {error:.3f} units ({UNITS[name][0]} stated), at {place!r}; "
                f"{odd} of a wrong kind; {time.monotonic() - began:.0f} s",
                flush=True,
            )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
