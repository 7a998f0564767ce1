"""A sample of `make junk`: junk in the place of each argument, and no raw error comes out."""

from __future__ import annotations

import itertools
import warnings

import pytest
from fuzz_signatures import Call, _is_callers_own, fuzz, summary, verdict

import rlx
from rlx.numpy import padding

SAMPLE = """
numpy.sum numpy.reshape numpy.concatenate numpy.convolve numpy.polyadd numpy.linspace numpy.diag
numpy.eye numpy.unique numpy.bincount numpy.histogram numpy.tril_indices numpy.take numpy.roll
numpy.diff numpy.searchsorted numpy.trim_zeros numpy.linalg.lstsq numpy.fft.rfft numpy.lexsort
lax.dynamic_slice lax.conv_shape_tuple lax.cumsum nn.elu nn.losses.huber optim.sgd
optim.schedules.cosine ops.segment_sum scipy.linalg.hilbert scipy.linalg.cho_solve tree.leaves
tree_util.treedef_children random.normal image.resize models.load_adapter serve.Adapters
serve.Engine sequence WorkerPool
""".split()


@pytest.mark.parametrize("name", SAMPLE)
def test_junk_is_explained(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found: list[dict] = []
    fuzz([name], lambda row: found.append(row) if "kind" in row else None, 8, len(name))
    assert not found, summary(found)


def refused():
    raise rlx.ShapeError("what is wrong", fix="")


WRONG = {
    "KeyError": lambda: {}["x"],
    "TypeError": lambda: len(3),  # that of another function
    "no fix": refused,
    "RuntimeWarning": lambda: warnings.warn("invalid value", RuntimeWarning, stacklevel=1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_the_fuzz_finds_what_is_wrong(kind):
    found = verdict(Call("numpy.sum", "sum", ()), rlx.numpy.sum, WRONG[kind])
    assert found and found["kind"] == kind


def test_the_fuzz_finds_calls_that_do_not_end(monkeypatch):
    monkeypatch.setattr(padding, "as_tensor", lambda x: sum(1 for _ in itertools.count()))
    call = Call("numpy.pad", "pad", ())
    found = verdict(call, rlx.numpy.pad, lambda: rlx.numpy.pad([1], 1), seconds=0.05)
    assert found and found["kind"] == "no end" and not _is_callers_own("pad_width=7", found)
