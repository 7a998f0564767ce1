"""Products with packed weights of SmolLM2-135M: `python -m benchmarks.block_products q4_1`.

For some numbers of rows it prints the CPU time of one thread for all products of the 30 layers and
of the head, in each way to compute, and the tokens a second that this allows.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("RLX_NUM_THREADS", "1")

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.ops.blocks import COMPUTES, FORMATS

SIZE, HIDDEN, KEYS, VOCABULARY, LAYERS = 576, 1536, 192, 49152, 30
ROWS = (1, 4, 8, 16, 256)
HEADS = 32  # rows up to which each has logits, else the last one
RANDOM = np.random.default_rng(0)


def blocks(lines: int, depth: int, format: str) -> nn.BlockArray:
    """Lines of random blocks with small scales."""
    layout = FORMATS[format if depth % FORMATS[format].size == 0 else "q8_0"]
    count = depth // layout.size
    found = RANDOM.integers(0, 256, (lines, count, layout.nbytes), dtype=np.uint8)
    if layout.is_power:
        found[..., layout.scale] = 118
    places = [None if layout.is_power else layout.scale, layout.minimum]
    for place in (place for place in places if place is not None):
        halves = RANDOM.normal(size=(lines, count, 1)).astype("<f2") * np.float16(0.003)
        found[..., place : place + 2] = halves.view(np.uint8)
    name = next(name for name, each in FORMATS.items() if each is layout)
    return nn.BlockArray(rnp.asarray(found.reshape(lines, -1)), name)


def layers(x: Any, weights: Any, head: Any, compute: str) -> Any:
    """All products of the model, each of what one before gave."""
    for q, k, v, o, gate, up, down in weights:
        few = sum(nn.linear(x, w, compute=compute).sum(-1, keepdims=True) for w in (k, v))
        x = nn.linear(nn.linear(x, q, compute=compute) + few * 1e-6, o, compute=compute)
        wide = nn.linear(x, gate, compute=compute) * nn.linear(x, up, compute=compute)
        x = nn.linear(wide * 1e-3, down, compute=compute) * 1e-2
    return nn.linear(x if len(x) <= HEADS else x[-1:], head, compute=compute)


def main(format: str) -> None:
    """Print a line for each way to compute and number of rows."""
    sizes = [(SIZE, SIZE), (KEYS, SIZE), (KEYS, SIZE), (SIZE, SIZE)]
    sizes += [(HIDDEN, SIZE), (HIDDEN, SIZE), (SIZE, HIDDEN)]
    weights = [[blocks(*size, format) for size in sizes] for _ in range(LAYERS)]
    head = blocks(VOCABULARY, SIZE, "q8_0")
    for compute in COMPUTES:
        for rows in ROWS:
            x = RANDOM.normal(size=(rows, SIZE)).astype(np.float32)
            call = rlx.jit(lambda x, compute=compute: layers(x, weights, head, compute))
            call(x)
            taken = []
            for _ in range(4 if rows > HEADS else 12):
                began = time.process_time()
                call(x)
                taken.append(time.process_time() - began)
            best = min(taken)
            print(
                f"{format} {compute} {rows} rows: {best * 1e3:.2f} ms, {rows / best:.0f} tokens/s"
            )


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "q4_1")
