"""Block products as an older x86 would compute them: `python tests/other_block_products.py avx2`.

It prints for each format by how many units of the largest number the exact products differ from
NumPy's, by how much of it the others do, and a checksum of the bits of these.
"""

import json
import sys
import zlib

import numpy as np
from other_processors import pretend

FORMATS = ("q4_1", "q5_0", "iq4_nl", "q3_k", "q6_k")


def products() -> dict[str, list[float]]:
    """Of each format the error of exact products, and a checksum of those in bytes."""
    import rlx
    from rlx import nn

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(91, 512)).astype(np.float32)
    x = rng.normal(size=(71, 512)).astype(np.float32)  # enough for several threads
    weights = {format: nn.quantize_blocks(numbers, format) for format in FORMATS}

    def every(x, weights):
        return {
            name: [nn.linear(x, w, compute=c) for c in ("exact", "int16", "int8")]
            for name, w in weights.items()
        }

    found, told = rlx.jit(every)(x, weights), {}
    for name, (exact, near, rounded) in found.items():
        wanted = x.astype(float) @ np.asarray(weights[name].dequantize()).astype(float).T
        error = np.abs(np.asarray(exact) - wanted).max() / np.abs(wanted).max()
        error = max(error, np.abs(np.asarray(near) - wanted).max() / np.abs(wanted).max() / 128)
        off = np.abs(np.asarray(rounded) - wanted).max() / np.abs(wanted).max()
        bits = zlib.crc32(np.asarray(rounded).tobytes())
        told[name] = [float(error / np.finfo(np.float32).eps), float(off), bits]
    return told


if __name__ == "__main__":
    pretend(sys.argv[1])
    print(json.dumps(products()))
