"""Bound arguments in files that processes share."""

import math
import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import disk as sources
from rlx.backends.mapped import MAGIC, map_arrays, write_arrays


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test, whatever was just edited."""
    monkeypatch.setattr(sources, "IMPORTED", math.inf)
    with rlx.config.using(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def layer(x, w, b):
    return rnp.tanh(x @ (w * 2).T + b.sum()) + w[0, 0]


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(9, 70)).astype(np.float32)
W, B = RANDOM.normal(size=(40, 70)).astype(np.float32), np.ones(3, np.float32)


def files(cache):
    return [p for p in cache.glob("*.rlx") if p.read_bytes()[:8] == MAGIC]


def shared(w, b, **options):
    compiled = rlx.jit(layer, **options).lower(X, W, B).compile()
    compiled.bind_shared(w=w, b=b)
    return compiled


@pytest.mark.parametrize("options", [{}, {"deterministic": "batch"}, {"precision": "mixed_bf16"}])
def test_shared_arrays_give_the_same_numbers(options, cache):
    wanted = rlx.jit(layer, **options).lower(X, W, B).compile()
    wanted.bind(w=W, b=B)
    first, second = (np.asarray(shared(W, B, **options)(X)) for _ in range(2))
    assert first.tobytes() == second.tobytes() == np.asarray(wanted(X)).tobytes()
    assert len(files(cache)) == 1
    other = np.asarray(shared(W + 1, B, **options)(X))
    assert len(files(cache)) == 2 and not np.array_equal(other, first)


def test_shared_arrays_are_mapped_and_follow_no_change(cache):
    w = W.copy()
    compiled = shared(w, B)
    before = np.asarray(compiled(X)).copy()
    w[...] = 0
    assert np.array_equal(np.asarray(compiled(X)), before)
    held = compiled._binding.code.executable.held
    assert held and all(not x.flags.writeable and x.ctypes.data % 64 == 0 for x in held)


def test_other_processes_map_the_file(cache):
    shared(W, B)
    (file,) = files(cache)
    stamp = file.stat().st_ino
    code = f"""
        import pathlib, sys; sys.path.insert(0, "tests")
        import rlx, test_bind_shared as t
        from rlx.backends import disk, mapped
        disk.IMPORTED = float("inf")
        mapped.write_arrays = None  # it writes nothing
        with rlx.config.using(cache=pathlib.Path({str(cache)!r})):
            print(abs(t.shared(t.W, t.B)(t.X) - t.layer(t.X, t.W, t.B)).max() < 1e-5)
    """
    made = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert made.stdout.strip() == "True", made.stdout + made.stderr
    assert [f.stat().st_ino for f in files(cache)] == [stamp]


@pytest.mark.parametrize("has_links", [True, False])
def test_of_processes_that_write_a_file_at_once_all_map_the_first(has_links, cache, monkeypatch):
    if not has_links:

        def link(*paths):
            raise PermissionError

        monkeypatch.setattr(os, "link", link)
    disk = sources.disk_cache()
    stamps = []
    for _ in range(2):
        assert write_arrays(disk, "some", [X])
        (file,) = files(cache)
        assert np.array_equal(map_arrays(disk, "some")[0], X)
        stamps.append(file.stat().st_ino)
    assert (stamps[0] == stamps[1]) == has_links


@pytest.mark.parametrize("damage", ["cut", "line", "empty", "magic", "longer", "bit"])
def test_damaged_files_are_made_anew(damage, cache):
    wanted = np.asarray(shared(W, B)(X))
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[:-64],
            "line": whole[:40] + b"x" + whole[41:],
            "empty": b"",
            "magic": b"rlxcode\n" + whole[8:],
            "longer": whole + bytes(64),
            "bit": whole[:512] + bytes([whole[512] ^ 1]) + whole[513:],
        }[damage]
    )
    assert np.array_equal(np.asarray(shared(W, B)(X)), wanted)
    assert file.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed here")
def test_a_link_is_replaced(cache):
    shared(W, B)
    (file,) = files(cache)
    file.symlink_to(file.rename(cache / "elsewhere"))
    shared(W, B)
    assert not file.is_symlink()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes here")
def test_a_file_that_others_may_write_to_is_made_anew(cache):
    shared(W, B)
    (file,) = files(cache)
    file.chmod(0o666)
    shared(W, B)
    (file,) = files(cache)
    assert file.stat().st_mode & 0o777 == 0o600


def test_arrays_of_all_kinds_come_back(cache):
    disk = sources.disk_cache()
    arrays = [np.float32(3)[None][0].reshape(()), np.zeros((0, 3), np.int8), X, X.astype(bool)]
    arrays += [X.astype(ml_dtypes.bfloat16)]
    assert write_arrays(disk, "some", arrays)
    for found, wanted in zip(map_arrays(disk, "some"), arrays, strict=True):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert np.array_equal(found, wanted)


def test_what_does_not_fit_is_bound_without_a_file(cache):
    with rlx.config.using(cache_disk_bytes=1000):
        assert np.allclose(shared(W, B)(X), np.asarray(layer(X, W, B)), atol=1e-4)
    assert not files(cache)
    with rlx.config.using(cache=False):
        assert np.allclose(shared(W, B)(X), np.asarray(layer(X, W, B)), atol=1e-4)
