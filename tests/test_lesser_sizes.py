"""Sizes that are the lesser of two open ones: kept in files, in text, compiled for known sizes."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import parse

MATRICES = {
    "svd": lambda x: rnp.linalg.svd(x, full_matrices=False)[1],
    "qr": lambda x: abs(rnp.linalg.qr(x)[1]),
    "pinv": rnp.linalg.pinv,
    "diagonal": rnp.diagonal,
    "diagonal above": lambda x: rnp.diagonal(x, 1) * 2,
}
OPEN = {"x": {0: "m", 1: "n"}}


@pytest.mark.parametrize("name", MATRICES)
def test_lesser_sizes_last(name):
    """In exports, in text, and where each size is compiled alone."""
    matrix = MATRICES[name]

    def run(x):
        return matrix(x)

    spec = rlx.spec(("m", "n"))
    loaded = rlx.load_exported(rlx.export(run, spec).serialize())
    known = rlx.jit(run, dynamic=OPEN, specialize=True)
    text = str(rlx.jit(run, dynamic=OPEN).lower(np.ones((2, 5), "float32")).graph)
    assert "minimum(" in text
    assert str(parse(text)) == text
    for shape in ((2, 5), (5, 2), (3, 3)):
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        wanted = matrix(x)
        for way in (loaded, rlx.jit(loaded), known):
            np.testing.assert_allclose(way(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["svd", "qr", "pinv"])
def test_what_cannot_be_padded_says_so(name):
    padded = rlx.jit(lambda x: MATRICES[name](x), dynamic=OPEN, buckets={"m": (4, 8), "n": (4, 8)})
    with pytest.raises(rlx.errors.RlxError, match="padd") as caught:
        padded(np.ones((4, 3), "float32"))
    assert "specialize=True" in caught.value.fix
