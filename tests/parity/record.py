"""JAX's answers to the cases of the sample: `python -m tests.parity.record` writes them anew.

Compiling them takes JAX a minute; reading them lets the sample run in seconds. `whole.py` asks JAX
itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np

from .compare import as_numpy, leaves_of
from .engine import JAX, LAW, LAWS, Case, Impossible, attempt, inputs
from .tables import cases

PAGE = Path(__file__).parent / "sample.npz"
EVERY = 10


def sample() -> list[tuple[Case, tuple[str, ...]]]:
    """One case in ten, each with two laws: the value, and another in turn."""
    chosen = cases()[::EVERY]
    others = len(LAWS) - 1
    return [(case, ("value", LAWS[1 + i % others])) for i, case in enumerate(chosen)]


def record() -> None:
    """Ask JAX, and write what it says."""
    arrays: dict[str, np.ndarray] = {}
    index: dict[str, list[Any]] = {}
    for case, laws in sample():
        for law in laws:
            for name, run, moved in LAW[law](case, inputs(case)):
                found = attempt(run, JAX, moved)
                if isinstance(found, (Exception, Impossible)):
                    continue
                key = f"{case.module}: {case.text} [{name}]"
                index[key] = [_kept(arrays, as_numpy(leaf)) for leaf in leaves_of(found)]
    text = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez_compressed(PAGE, index=text, **arrays)


def _kept(arrays: dict[str, np.ndarray], leaf: Any) -> list[Any]:
    """How a leaf is found again: [place, dtype], or [None, its text]."""
    if not isinstance(leaf, np.ndarray):
        return [None, str(leaf)]
    place = f"a{len(arrays)}"
    is_known = leaf.dtype.kind in "biufc"
    arrays[place] = leaf if is_known else leaf.view(f"u{leaf.dtype.itemsize}")
    return [place, leaf.dtype.name]


def recorded() -> dict[str, list[Any]]:
    """The leaves of JAX's answers, by case and law."""
    with np.load(PAGE) as data:
        arrays = dict(data)
    index = json.loads(arrays.pop("index").tobytes())
    return {key: [_found(arrays, *leaf) for leaf in leaves] for key, leaves in index.items()}


def _found(arrays: dict[str, np.ndarray], place: str | None, name: str) -> Any:
    if place is None:
        return name
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    return arrays[place] if arrays[place].dtype == dtype else arrays[place].view(dtype)


if __name__ == "__main__":
    jax.config.update("jax_disable_most_optimizations", True)
    record()
