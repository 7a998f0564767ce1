"""Products whose way is found by measuring: `jit(tier="max")`."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx.backends import disk, disk as sources
from rlx.backends.cpu import tune
from rlx.backends.cpu.llvm import machine
from rlx.backends.cpu.llvm.host import Host
from rlx.backends.cpu.products import choice as gemm_alternatives
from rlx.backends.cpu.products.problem import Blocking, Problem
from rlx.backends.cpu.tune import Tuned, Ways
from rlx.backends.disk import disk_cache
from rlx.lower.lir.program import Program

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test; small products count, too."""
    monkeypatch.setattr(sources, "IMPORTED", math.inf)
    monkeypatch.setattr(disk, "_told", set())
    monkeypatch.setattr(tune, "LEAST", 0)
    monkeypatch.setattr(tune, "SECONDS", 0.05)
    monkeypatch.setitem(machine._LEVELS, "max", machine._LEVELS["auto"])  # sooner there
    with rlx.config.using(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    return normal(*shape).astype(ml_dtypes.bfloat16)


def layer(x, w, b):
    return rlx.nn.gelu(x @ w + b)


def images(x, w):
    return rlx.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


LAYER = (normal(60, 70), normal(70, 90), normal(90))


def compiled(fn, *args, **options) -> rlx.CompiledGraph:
    """A function compiled by a session that knows nothing yet."""
    return rlx.Session("cpu").compile(fn, *args, options=rlx.CompileOptions(tier="max", **options))


def told(program: rlx.CompiledGraph) -> list[str]:
    """What the report says of products."""
    return [line for line in program.report().splitlines() if line.startswith("product of")]


def measured_before(cache: Path) -> list[Path]:
    """The entries of products."""
    return [file for file in cache.glob("*.rlx") if b" tiles, packs " in file.read_bytes()]


def prefer(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let measurements find that one of the ways is twice as fast, without taking any."""

    def measured(program: Program, host: Host, ways: Ways, known: Ways) -> dict[Problem, Tuned]:
        return {p: Tuned(every[number], 2.0) for p, every in ways.items()}

    monkeypatch.setattr(tune, "_measured", measured)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (layer, LAYER),
        (lambda x, w: x.T @ w, (normal(700, 40), normal(700, 50))),
        (lambda x, w: x @ w.T, (normal(40, 6000), normal(50, 6000))),
        (lambda x, w: x @ w, (half(40, 64), half(64, 50))),
        (images, (normal(2, 9, 12, 8), normal(3, 3, 8, 24))),
    ],
    ids=["layer", "columns", "deep", "bfloat16", "images"],
)  # fmt: skip
def test_every_way_gives_the_same_bits(fn, args, monkeypatch):
    every: list[Blocking] = []

    def noted(*given):
        every[:] = gemm_alternatives.alternatives(*given)
        return every

    monkeypatch.setattr(tune, "alternatives", noted)
    expected = np.asarray(rlx.jit(fn)(*args)).tobytes()
    with rlx.config.using(cache=False):
        prefer(monkeypatch, 0)
        compiled(fn, *args)
        assert len(every) > 1
        for number in range(1, len(every)):
            prefer(monkeypatch, number)
            program = compiled(fn, *args)
            assert f"tuned, {tune.described(every[number])}; 2.00x" in "".join(told(program))
            assert np.asarray(program(*args)).tobytes() == expected


def test_what_was_measured_is_kept_for_other_programs(cache, monkeypatch):
    x, w, b = LAYER
    program = compiled(layer, x, w, b)
    (line,) = told(program)
    assert line.startswith("product of 60 x 70 by 70 x 90 (float32): ")
    assert np.asarray(program(x, w, b)).tobytes() == np.asarray(rlx.jit(layer)(x, w, b)).tobytes()
    assert len(measured_before(cache)) == 1
    monkeypatch.setattr(tune, "_measured", None)  # nothing may be measured from now on
    again = compiled(layer, x, w, b)
    assert told(again) == [line] and again.report().endswith("read from the cache on disk")
    other = compiled(lambda x, w, b: layer(x, w, b) + 1, x, w, b)
    assert told(other) == [line] and other.report().endswith("written to the cache on disk")
    with rlx.config.using(tune=False):
        assert not told(compiled(layer, x, w, b))


def test_products_that_are_shared_otherwise_are_kept_apart(monkeypatch):
    """Threads that share the batch compute each product alone: there are other ways then."""
    batch = normal(64, 60, 70), normal(64, 70, 90)
    prefer(monkeypatch, -1)
    first = [told(compiled(lambda x, w: x @ w, *args)) for args in (LAYER[:2], batch)]
    monkeypatch.setattr(tune, "_measured", None)  # nothing may be measured from now on
    again = [told(compiled(lambda x, w: x @ w + 1, *args)) for args in (LAYER[:2], batch)]
    assert again == first


def test_products_with_packed_weights_are_measured():
    x, w, _ = LAYER
    program = compiled(lambda x, w: rlx.nn.gelu(x @ w), x, w, fixed=1)
    assert len(told(program)) == 1
    held = program.unprepared.prepare([w])
    expected = rlx.jit(lambda x, w: rlx.nn.gelu(x @ w))(x, w)
    np.testing.assert_array_equal(program.unprepared.entry(x, *held), expected)


def test_every_way_reads_panels_of_both_operands(monkeypatch):
    args = normal(90, 90), normal(90, 8), normal(8, 90)
    options = rlx.CompileOptions(tier="max", fixed=2)
    for number in range(4):
        prefer(monkeypatch, number)
        with rlx.config.using(cache=False):
            program = rlx.Session("cpu").compile(lambda x, a, b: x + a @ b, *args, options=options)
        assert told(program)
        inner = program.unprepared
        result = inner.entry(args[0], *inner.prepare(list(args[1:])))
        np.testing.assert_allclose(result, args[0] + args[1] @ args[2], rtol=1e-4, atol=1e-4)


def test_an_entry_that_makes_no_sense_is_removed(cache, monkeypatch):
    prefer(monkeypatch, 1)
    first = told(compiled(layer, *LAYER))
    (entry,) = measured_before(cache)
    for content in (b"", b"2.0 no such way", b"much 14 x 2 tiles", b"\xff"):
        for file in cache.glob("*.rlx"):
            file.unlink()
        disk_cache().put(entry.stem, content)
        assert told(compiled(layer, *LAYER)) == first
        assert measured_before(cache) == [entry], "it was measured and written anew"


def test_nothing_is_kept_without_a_cache(cache, monkeypatch):
    prefer(monkeypatch, 1)
    with rlx.config.using(cache=False):
        assert told(compiled(layer, *LAYER))
    assert not list(cache.glob("*.rlx"))


def test_other_tiers_measure_nothing(monkeypatch):
    monkeypatch.setattr(tune, "_measured", None)
    for tier in ("auto", "fast"):
        program = rlx.Session("cpu").compile(layer, *LAYER, options=rlx.CompileOptions(tier=tier))
        assert not told(program)
