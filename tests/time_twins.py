"""Examples beside the same programs in JAX, Flax and Optax: `make twins` prints a table.

Whole processes take turns, so both have the same load of the machine and nothing is compiled in
advance: what is measured is what a user waits for.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from test_examples import ROOT, TWINS, lines_of

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "RLX_CACHE": "0"}


def seconds(script: Path) -> float:
    """How long a script runs, with its imports and its picture."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [sys.executable, str(script), "--out", folder]
        subprocess.run(command, env=ENVIRONMENT, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turn")
    asked = parser.parse_args()
    print("| example | lines | in JAX | seconds | in JAX | ratio |")
    print("| --- | --: | --: | --: | --: | --: |")
    for twin in TWINS:
        example = ROOT / "examples" / twin.name
        pairs = [(seconds(example), seconds(twin)) for _ in range(asked.rounds)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        lines = f"{lines_of(example)} | {lines_of(twin)}"
        print(f"| {twin.stem} | {lines} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
