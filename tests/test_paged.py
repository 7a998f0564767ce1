"""Attention to keys in pages: the numbers of plain attention, the same bits whoever is beside."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx
from rlx import nn
from rlx.backends.cpu.backend import target_of
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.program import ProgramWriter
from rlx.ir.errors import RlxError
from rlx.ir.record import replace
from rlx.lower.pipeline import lower

DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8}


class Requests:
    """Sequences with queries, keys and values for each of their tokens, and a pool of pages."""

    def __init__(self, seed: int, heads: int, groups: int, width: int, size: int, dtype: str):
        self.random = np.random.default_rng(seed)
        self.size, self.shape = size, (groups, width)
        self.lengths = self.random.integers(1, 90, 3)
        pages = -(-90 // size)
        self.count = 3 * pages + 2
        numbers = self.random.permutation(self.count)[: 3 * pages]
        self.tables = numbers.reshape(3, pages).astype("int32")
        tokens = int(self.lengths.sum())
        self.q = self.normal(tokens, heads, width)
        self.k, self.v = self.normal(tokens, *self.shape), self.normal(tokens, *self.shape)
        self.sequence = np.repeat(np.arange(3, dtype="int32"), self.lengths)
        self.positions = np.concatenate([np.arange(n, dtype="int32") for n in self.lengths])
        self.dtype = dtype

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=shape).astype("float32")

    def pool(self, poison: float = np.nan) -> nn.KVPages:
        """A pool in which nobody has written."""
        empty = nn.empty_pages(self.count, self.size, *self.shape, self.dtype)
        filled = [
            np.full(x.shape, poison if x.dtype.kind != "i" else 99, x.dtype)
            for x in empty
            if x is not None
        ]
        return nn.KVPages(*filled)

    def served(self, parts: list[np.ndarray], tables: np.ndarray, **options: Any) -> np.ndarray:
        """The results of all tokens, computed in parts: these tokens at a time."""
        made = np.zeros_like(self.q)
        pages = self.pool()
        for part in parts:
            where = tables, self.sequence[part], self.positions[part]
            y, pages = STEP(self.q[part], self.k[part], self.v[part], pages, *where, **options)
            made[part] = y
        return made

    def plain(self, window: int | None, soft_cap: float | None) -> np.ndarray:
        """Plain attention of each sequence, in float64 by NumPy, of the numbers in the pages."""
        made = np.zeros(self.q.shape)
        for s in range(3):
            own = self.sequence == s
            n = int(own.sum())
            q, k, v = (x[own].astype("float64") for x in (self.q, self.k, self.v))
            k, v = stored(k, self.dtype), stored(v, self.dtype)
            k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
            scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[2])
            scores = scores if soft_cap is None else soft_cap * np.tanh(scores / soft_cap)
            i, j = np.ogrid[:n, :n]
            seen = (j <= i) & (j >= (0 if window is None else i - window))
            powers = np.exp(np.where(seen, scores, -np.inf))
            weights = powers / powers.sum(-1, keepdims=True)
            made[own] = np.einsum("hts,shd->thd", weights, v)
        return made


def stored(x: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as pages of a dtype hold them."""
    if dtype != "int8":
        return x.astype(DTYPES[dtype]).astype("float64")
    step = np.abs(x.astype("float32")).max(-1, keepdims=True) / np.float32(127)
    return np.round(x.astype("float32") / step) * step.astype("float64")


@rlx.jit(
    static_argnames=("window", "soft_cap"),
    dynamic={
        **{name: {0: "T"} for name in ("q", "k", "v", "sequence", "positions")},
        "tables": {0: "S", 1: "P"},
    },
)
def STEP(q, k, v, pages, tables, sequence, positions, window=None, soft_cap=None):
    where = tables, sequence, positions
    pages = nn.paged_write(pages, k, v, *where)
    options = {"window": window, "soft_cap": soft_cap}
    return nn.paged_attention(q, pages, *where, **options), pages


LONG = rlx.jit(
    nn.paged_attention,
    static_argnames=("window",),
    dynamic={name: {0: "T"} for name in ("query", "sequence", "positions")},
)


def schedules(requests: Requests, random: np.random.Generator) -> list[list[np.ndarray]]:
    """Ways to serve them: each alone at once, token by token, in chunks that mix sequences."""
    every = np.arange(len(requests.sequence))
    alone = [every[requests.sequence == s] for s in random.permutation(3)]
    left, mixed = [list(each) for each in alone], []
    while any(left):
        step = []
        for each in left:
            for _ in range(min(len(each), int(random.integers(0, 40)))):
                step.append(each.pop(0))
        if step:
            mixed.append(np.array(step)[random.permutation(len(step))])
    last = alone[0]
    slowly = [*alone[1:], last[:-3], *(last[i : i + 1] for i in range(len(last) - 3, len(last)))]
    return [alone, mixed, [each for each in slowly if len(each)]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(9, 3, 64, 16), (4, 4, 5, 1), (6, 1, 40, 24), (4, 2, 128, 64)], ids=str
)
def test_numbers_are_those_of_plain_attention_and_bits_of_all_schedules_equal(
    shape: tuple[int, int, int, int], dtype: str
) -> None:
    """Alone, mixed, in chunks, with other pages, among poisoned pages: one result to the bit."""
    requests = Requests(0, *shape, dtype)
    for options in ({}, {"window": 13, "soft_cap": 2.0}):
        made = [
            requests.served(parts, tables, **options)
            for parts in schedules(requests, requests.random)
            for tables in (requests.tables, requests.random.permutation(requests.tables))
        ]
        for other in made[1:]:
            np.testing.assert_array_equal(made[0], other)
        wanted = requests.plain(options.get("window"), options.get("soft_cap"))
        np.testing.assert_allclose(made[0], wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    heads=st.sampled_from([(3, 1), (2, 2), (5, 1), (6, 3)]),
    width=st.sampled_from([1, 7, 16, 33]),
    size=st.sampled_from([1, 2, 5, 16, 40]),
    window=st.sampled_from([None, 0, 5, 64]),
)
def test_random_requests(
    seed: int, heads: tuple[int, int], width: int, size: int, window: int | None
) -> None:
    requests = Requests(seed, *heads, width, size, "float32")
    one, two, _ = schedules(requests, requests.random)
    made = requests.served(one, requests.tables, window=window)
    np.testing.assert_array_equal(made, requests.served(two, requests.tables, window=window))
    np.testing.assert_allclose(made, requests.plain(window, None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_long_texts_beside_short_ones(dtype: str) -> None:
    """Of one far token threads share the positions; a part of a prompt reads keys together."""
    random = np.random.default_rng(0)
    lengths, counts, (heads, groups, width, size) = (
        (9000, 1100, 257, 5),
        (1, 70, 1, 5),
        (6, 2, 20, 8),
    )
    tables = random.permutation(4 * 1125).reshape(4, 1125).astype("int32")
    k, v = (random.normal(size=(4 * 1125, size, groups, width)).astype("float32") for _ in "kv")
    scales = [None, None]
    if dtype == "int8":
        scales = [random.uniform(0.01, 0.02, k.shape[:3]).astype("float32") for _ in "kv"]
        k, v = (np.clip(np.round(x * 50), -127, 127) for x in (k, v))
    pages = nn.KVPages(k.astype(dtype), v.astype(dtype), *scales)
    sequence = np.repeat(np.arange(4, dtype="int32"), counts)
    ends = zip(lengths, counts, strict=True)
    positions = np.concatenate([np.arange(n - count, n, dtype="int32") for n, count in ends])
    q = random.normal(size=(len(positions), heads, width)).astype("float32")
    order = random.permutation(len(positions))
    for options in ({}, {"window": 700}):
        whole = np.asarray(LONG(q, pages, tables, sequence, positions, **options))
        some = LONG(q[order], pages, tables, sequence[order], positions[order], **options)
        np.testing.assert_array_equal(whole[order], some)
        for i in (0, 1, 69, 70, 71, 72):
            one = slice(i, i + 1)
            alone = LONG(q[one], pages, tables, sequence[one], positions[one], **options)
            np.testing.assert_array_equal(whole[one], alone)
            first = max(0, positions[i] - options.get("window", 9000))
            seen = np.arange(first, positions[i] + 1)
            places = tables[sequence[i], seen // size], seen % size
            k, v = (
                x[places].astype("float64") * (1 if s is None else s[places][..., None])
                for x, s in ((pages.key, pages.key_scale), (pages.value, pages.value_scale))
            )
            scores = np.einsum("gnd,pgd->gnp", q[i].reshape(groups, -1, width), k) / np.sqrt(width)
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            weights = powers / powers.sum(-1, keepdims=True)
            wanted = np.einsum("gnp,pgd->gnd", weights, v).reshape(heads, width)
            np.testing.assert_allclose(whole[i], wanted, rtol=1e-5, atol=1e-5)


def test_odd_values_of_bfloat16_stay_in_their_rows() -> None:
    """One number is left after whole vectors: no store goes beyond it."""
    random = np.random.default_rng(0)
    k, v = (random.normal(size=(3, 4, 3, 17)).astype("float32") for _ in "kv")
    q = random.normal(size=(4, 3, 17)).astype(ml_dtypes.bfloat16)
    where = np.arange(3, dtype="int32")[None], np.zeros(4, "int32"), np.arange(8, 12, dtype="int32")
    made, wanted = (
        rlx.jit(nn.paged_attention, device=device)(q, nn.KVPages(k, v), *where)
        for device in ("cpu", "reference")
    )
    made, wanted = (np.asarray(x).astype("float32") for x in (made, wanted))
    np.testing.assert_allclose(made, wanted, rtol=2**-7, atol=2**-9)


def test_a_token_that_sees_nothing_beside_others_has_zeros() -> None:
    """Each of its parts begins with it, or none would write its result."""
    pages = nn.KVPages(*(np.ones((900, 8, 2, 32), "float32") for _ in "kv"))
    tables, q = np.arange(900, dtype="int32")[None], np.ones((3, 4, 32), "float32")
    where = tables, np.zeros(3, "int32"), np.array([-1, -1, 7000], "int32")
    for count in (1, 3):
        made = np.full((count, 4, 32), np.nan, "float32")
        compiled = rlx.jit(nn.paged_attention)
        compiled.run_into(q[:count], pages, tables, *(x[:count] for x in where[1:]), out=made)
        np.testing.assert_array_equal(made[:2], np.zeros_like(made[:2]))


@pytest.mark.parametrize("hidden", [1, 63, 64, 130, 199, 200])
def test_keys_without_weight_are_passed_by(hidden: int) -> None:
    """Blocks of scores that are all -inf weigh nothing; if all scores are, the result is NaN."""
    pages, q = (13, 16, 1, 8), np.ones((2, 2, 8), "float32")
    k, v = np.ones(pages, "float32"), np.random.default_rng(0).normal(size=pages).astype("float32")
    k.reshape(-1, 8)[:hidden] = -np.inf
    where = np.arange(13, dtype="int32")[None], np.zeros(2, "int32"), np.array([199, -1], "int32")
    made = np.asarray(rlx.jit(nn.paged_attention, device="cpu")(q, nn.KVPages(k, v), *where))
    seen = v.reshape(-1, 8)[hidden:200].astype("float64")
    wanted = seen.mean(0) if len(seen) else np.full(8, np.nan)
    bound = 256 * np.finfo("float32").eps * np.abs(v).max()
    np.testing.assert_allclose(made[0], np.stack([wanted] * 2), rtol=0, atol=bound)
    np.testing.assert_array_equal(made[1], np.zeros((2, 8)))


def test_tokens_together_multiply_keys_without_shuffles() -> None:
    """Their keys are turned once for all: what follows are multiply-adds, and sums of lanes."""
    fast = replace(host(), vector_bytes=64, vector_registers=32)
    q, k = np.ones((8, 9, 64), "float32"), np.ones((5, 16, 3, 64), "float16")
    where = np.arange(4, dtype="int32")[None], np.zeros(8, "int32"), np.arange(8, dtype="int32")
    jitted = rlx.jit(nn.paged_attention, device="reference")
    writer = ProgramWriter(fast)
    writer.write(lower(jitted.lower(q, nn.KVPages(k, k), *where).graph, target_of(fast)).program)
    blocks = re.split(r"^\w+:$", writer.module.text, flags=re.MULTILINE)
    tile = 3 * 2 * 4 * 3  # heads, vectors of positions, lanes; of 4 vectors of a key the later 3
    products = [x for x in blocks if x.count("call <16 x float> @llvm.fma") == tile]
    shuffles = [re.findall("shufflevector .*", x) for x in products]
    assert [
        x for x in shuffles if all("zeroinitializer" in line for line in x)
    ]  # one for all lanes


def test_one_program_serves_all_sizes() -> None:
    requests = Requests(3, 4, 2, 8, 4, "float32")
    one, two, _ = schedules(requests, requests.random)
    requests.served(one, requests.tables)
    with rlx.no_recompile():
        requests.served(two, requests.tables[:, :])


def test_shared_prefix_has_the_bits_of_an_own_one() -> None:
    """Two sequences whose tables begin with the same page."""
    requests = Requests(4, 4, 2, 16, 8, "float32")
    q, k, v = (requests.normal(16, n, 16) for n in (4, 2, 2))
    line, zeros = np.arange(16, dtype="int32"), np.zeros(16, "int32")
    whole, _ = STEP(q, k, v, requests.pool(), np.array([[5, 2]], "int32"), zeros, line)
    tables = np.array([[9, 3], [9, 7]], "int32")
    _, pages = STEP(q[:8], k[:8], v[:8], requests.pool(), tables, zeros[:8], line[:8])
    rest, _ = STEP(q[8:], k[8:], v[8:], pages, tables, zeros[8:] + 1, line[8:])
    np.testing.assert_array_equal(np.asarray(whole)[8:], rest)


def test_pages_are_written_in_place() -> None:
    """Of a donated pool only the new rows are written: its memory stays, other pages too."""
    pages = rlx.jit(lambda: nn.empty_pages(50, 16, 2, 8))()
    before = [np.asarray(x).__array_interface__["data"][0] for x in pages[:2]]
    write = rlx.jit(nn.paged_write, donate_argnames="pages")
    one, where = np.ones((3, 2, 8), "float32"), ([[7, 9]], [0, 0, 0], [15, 16, -1])
    after = write(pages, one, 2 * one, *(np.array(x, "int32") for x in where))
    assert [np.asarray(x).__array_interface__["data"][0] for x in after[:2]] == before
    wanted = np.zeros((50, 16, 2, 8), "float32")
    wanted[7, 15] = wanted[9, 0] = 1
    np.testing.assert_array_equal(after.key, wanted)
    np.testing.assert_array_equal(after.value, 2 * wanted)


def test_gradients_are_those_of_jax() -> None:
    """By queries, and by keys and values through the pages."""
    requests = Requests(5, 4, 2, 8, 4, "float32")
    xs = [x.astype("float64") for x in (requests.q, requests.k, requests.v)]
    where = requests.tables, requests.sequence, requests.positions

    def ours(q: Any, k: Any, v: Any) -> Any:
        pages = nn.empty_pages(requests.count, 4, 2, 8, "float64")
        pages = nn.paged_write(pages, k, v, *where)
        y = nn.paged_attention(q, pages, *where, window=20, soft_cap=3.0)
        return (y * np.arange(8.0)).sum()

    def theirs(q: Any, k: Any, v: Any) -> Any:
        k, v = (jnp.repeat(x, 2, axis=1) for x in (k, v))
        scores = 3.0 * jnp.tanh(jnp.einsum("thd,shd->hts", q, k) / np.sqrt(8) / 3.0)
        s, p = requests.sequence, requests.positions
        far = p[:, None] - p
        seen = (s[:, None] == s) & (far >= 0) & (far <= 20)
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30))
        return (jnp.einsum("hts,shd->thd", weights, v) * np.arange(8.0)).sum()

    with jax.enable_x64(True):
        wanted = jax.grad(theirs, (0, 1, 2))(*xs)
    for one, two in zip(rlx.jit(rlx.grad(ours, (0, 1, 2)))(*xs), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)


def test_tables_of_junk_are_read_within_the_pool() -> None:
    """Pages, sequences and positions that do not exist: numbers, and no crash."""
    pages = nn.empty_pages(3, 4, 1, 8)
    tables = np.array([[-5, 99, 2**31 - 1]], "int32")
    sequence = np.array([-9, 9, 0, 0, 0], "int32")
    positions = np.array([3, 5, 2**31 - 1, -(2**31), 11], "int32")
    q = np.ones((5, 2, 8), "float32")
    made = rlx.jit(nn.paged_attention)(q, pages, tables, sequence, positions)
    assert (np.asarray(made) == 0).all()
    ones = np.ones((5, 1, 8), "float32")
    after = rlx.jit(nn.paged_write)(pages, ones, ones, tables, sequence, positions)
    assert (np.asarray(after.key) == 0).all()
    for empty in (nn.empty_pages(0, 4, 1, 8), pages):
        none = np.zeros((1, 0 if empty is pages else 2), "int32")
        made = rlx.jit(nn.paged_attention)(q, empty, none, sequence * 0, positions)
        assert (np.asarray(made) == 0).all()
        after = rlx.jit(nn.paged_write)(empty, ones, ones, none, sequence * 0, positions)
        assert (np.asarray(after.key) == 0).all()


P = nn.empty_pages(3, 4, 2, 8)
W = (np.zeros((1, 2), "int32"), np.zeros(5, "int32"), np.zeros(5, "int32"))
QUERY, ROWS = np.ones((5, 4, 8), "float32"), np.ones((5, 2, 8), "float32")
SCALES = dict.fromkeys(("key_scale", "value_scale"), np.ones((3, 4, 2), "float32"))
WRONG = {
    "heads": lambda: nn.paged_attention(QUERY[:, :3], P, *W),
    "size": lambda: nn.paged_attention(QUERY[..., :4], P, *W),
    "axes": lambda: nn.paged_attention(QUERY[0], P, *W),
    "tokens": lambda: nn.paged_attention(QUERY[:4], P, *W),
    "tables": lambda: nn.paged_attention(QUERY, P, W[0][0], *W[1:]),
    "float positions": lambda: nn.paged_attention(QUERY, P, *W[:2], np.zeros(5)),
    "no pages": lambda: nn.paged_attention(QUERY, P.key, *W),
    "one scale": lambda: nn.paged_attention(QUERY, P._replace(key_scale=np.ones((3, 4, 2))), *W),
    "scales of floats": lambda: nn.paged_attention(
        QUERY, P._replace(key_scale=P.key[..., 0], value_scale=P.key[..., 0]), *W
    ),
    "window": lambda: nn.paged_attention(QUERY, P, *W, window=-1),
    "cap": lambda: nn.paged_attention(QUERY, P, *W, soft_cap=0.0),
    "rows": lambda: nn.paged_write(P, ROWS[..., :3], ROWS, *W),
    "as many": lambda: nn.paged_write(P, ROWS, ROWS[:4], *W),
    "dtype": lambda: nn.empty_pages(3, 4, 2, 8, "int16"),
    "no places": lambda: nn.empty_pages(3, 0, 2, 8),
    "whole queries": lambda: nn.paged_attention(QUERY.astype("int32"), P, *W),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(RlxError) as caught:
        WRONG[name]()
    assert caught.value.fix
