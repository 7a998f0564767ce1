"""A sample of `make junk`: junk in the place of each argument, and no raw error comes out."""

from __future__ import annotations

import pytest
from fuzz_signatures import fuzz, summary

SAMPLE = """
numpy.sum numpy.reshape numpy.concatenate numpy.convolve numpy.polyadd numpy.linspace numpy.diag
numpy.eye numpy.unique numpy.bincount numpy.histogram numpy.tril_indices numpy.take numpy.roll
numpy.diff numpy.searchsorted numpy.trim_zeros numpy.linalg.lstsq numpy.fft.rfft numpy.lexsort
lax.dynamic_slice lax.conv_shape_tuple lax.cumsum nn.elu nn.losses.huber optim.sgd
optim.schedules.cosine ops.segment_sum scipy.linalg.hilbert scipy.linalg.cho_solve tree.leaves
tree_util.treedef_children random.normal image.resize
""".split()


@pytest.mark.parametrize("name", SAMPLE)
def test_junk_is_explained(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found: list[dict] = []
    fuzz([name], lambda row: found.append(row) if "kind" in row else None, 8, len(name))
    assert not found, summary(found)
