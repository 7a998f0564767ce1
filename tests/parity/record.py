"""JAX's answers to the cases of the sample: `python -m tests.parity.record` asks for what is new.

Compiling them takes JAX a minute; reading them lets the sample run in seconds. `whole.py` asks JAX
itself; to ask everything anew here, remove `sample.npz` first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    before = recorded() if PAGE.exists() else {}
    arrays: dict[str, np.ndarray] = {}
    index: dict[str, list[Any] | None] = {}
    for case, laws in sample():
        for law in laws:
            for name, run, moved in LAW[law](case, inputs(case)):
                key = f"{case.module}: {case.text} [{name}]"
                leaves = before[key] if key in before else _asked(run, moved)
                index[key] = None if leaves is None else [_kept(arrays, x) for x in leaves]
    text = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez_compressed(PAGE, index=text, **arrays)


def _asked(run: Any, moved: list[np.ndarray]) -> list[Any] | None:
    """The leaves of JAX's answer; None if it has none."""
    found = attempt(run, JAX, moved)
    if isinstance(found, (Exception, Impossible)):
        return None
    return [as_numpy(leaf) for leaf in leaves_of(found)]


def _kept(arrays: dict[str, np.ndarray], leaf: Any) -> list[Any]:
    """How a leaf is found again: [place, dtype], or [None, its text]."""
    if not isinstance(leaf, np.ndarray):
        return [None, str(leaf)]
    place = f"a{len(arrays)}"
    is_known = leaf.dtype.kind in "biufc"
    arrays[place] = leaf if is_known else leaf.view(f"u{leaf.dtype.itemsize}")
    return [place, leaf.dtype.name]


def recorded() -> dict[str, list[Any] | None]:
    """The leaves of JAX's answers, by case and law; None where a law says nothing."""
    with np.load(PAGE) as data:
        arrays = dict(data)
    index = json.loads(arrays.pop("index").tobytes())
    return {
        key: None if leaves is None else [_found(arrays, *leaf) for leaf in leaves]
        for key, leaves in index.items()
    }


def _found(arrays: dict[str, np.ndarray], place: str | None, name: str) -> Any:
    if place is None:
        return name
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    return arrays[place] if arrays[place].dtype == dtype else arrays[place].view(dtype)


if __name__ == "__main__":
    record()
