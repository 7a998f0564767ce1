"""Helpers for training loops: batches, running means, early stopping, progress."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.train import EarlyStopping, Mean, batches, progress

ROWS = np.arange(10)
KEY = rlx.random.key(7)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("rlx.train")]


def rows_of(*args, **options) -> list[list[int]]:
    return [batch.tolist() for batch in batches(ROWS, *args, **options)]


# -- batches ---------------------------------------------------------------------------------------


def test_batches_hold_all_rows_of_all_leaves():
    data = {"x": np.arange(20.0).reshape(10, 2), "y": (rnp.arange(10), ROWS[::-1])}
    found = list(batches(data, 4, key=KEY))
    assert [len(b["x"]) for b in found] == [4, 4, 2]
    for b in found:
        rows = np.asarray(b["y"][0])
        assert isinstance(b["x"], np.ndarray) and isinstance(b["y"][0], rlx.Array)
        np.testing.assert_array_equal(b["x"], data["x"][rows])
        np.testing.assert_array_equal(b["y"][1], 9 - rows)
    order = np.concatenate([b["y"][0] for b in found])
    assert sorted(order) == [*range(10)] and list(order) != [*range(10)]
    np.testing.assert_array_equal(order, rlx.random.permutation(rlx.random.fold_in(KEY, 0), 10))


def test_the_last_batch_of_each_epoch():
    assert rows_of(4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rows_of(4, drop_last=True, epochs=2) == 2 * [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert rows_of(4, epochs=0) == [] and rows_of(10) == [[*range(10)]] == rows_of(99)
    with pytest.raises(rlx.AttributeValueError, match="10 rows are less than a batch of 11"):
        batches(ROWS, 11, drop_last=True)


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_a_key_gives_the_same_batches_from_any_step(prefetch):
    whole = rows_of(3, key=KEY, epochs=3, prefetch=prefetch)
    assert len(whole) == 12 and whole[:4] != whole[4:8] != whole[8:]
    made = batches(ROWS, 3, key=KEY, epochs=3, prefetch=prefetch)
    assert [b.tolist() for b in made] == whole == [b.tolist() for b in made]
    for start in (0, 3, 4, 7, 12):
        rest = batches(ROWS, 3, key=KEY, epochs=3, start=start, prefetch=prefetch)
        assert len(rest) == 12 - start and [b.tolist() for b in rest] == whole[start:]
    endless = batches(ROWS, 3, key=KEY, epochs=None, start=5, prefetch=prefetch)
    assert [b.tolist() for b in itertools.islice(endless, 7)] == whole[5:]
    with pytest.raises(TypeError, match="no length"):
        len(endless)
    for start in (0, 5, 7):
        some = batches(ROWS, 3, key=KEY, steps=7, start=start, prefetch=prefetch)
        assert len(some) == 7 - start and [b.tolist() for b in some] == whole[start:7]
    assert rows_of(3, key=rlx.random.key(8), epochs=3) != whole


def test_the_thread_prepares_as_many_as_asked_and_ends():
    made = []
    loop = iter(batches(ROWS, 1, prefetch=3, map=lambda b: made.append(int(b[0])) or b))
    assert next(loop)[0] == 0
    loop.close()  # waits for what it had begun
    assert made == [*range(len(made))] and len(made) <= 4 and not threads()


@pytest.mark.parametrize("way", ["end", "break", "error"])
def test_no_thread_is_left(way):
    seen = []
    try:
        for batch in batches(ROWS, 2, epochs=3, map=lambda b: seen.append(threads()) or b):
            if batch[0] == 4 and way == "break":
                break
            if batch[0] == 4 and way == "error":
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert seen[0] == ["rlx.train.batches_0"] and not threads()


def test_a_loop_that_is_left_open_does_not_keep_the_process():
    code = "from rlx.train import batches; import numpy as np\n"
    code += "it = iter(batches(np.arange(9), 2, epochs=None)); print(next(it))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ})
    assert (done.stdout, done.stderr, done.returncode) == ("[0 1]\n", "", 0)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_of_the_map_come_where_their_batch_would(prefetch):
    def wrong(batch):
        return 1 // (batch[0] - 4)

    found = []
    with pytest.raises(ZeroDivisionError) as caught:
        for value in batches(ROWS, 2, map=lambda b: wrong(b.tolist()), prefetch=prefetch):
            found.append(value)
    assert found == [-1, -1] and not threads()
    assert caught.traceback[-1].name == "wrong"


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_map_that_runs_dry_does_not_end_the_loop(prefetch):
    few = iter([1, 2])
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(batches(ROWS, 2, map=lambda b: next(few), prefetch=prefetch))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_thread_is_in_the_context_of_the_loop(prefetch):
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(batches(ROWS, 2, map=lambda b: 1 / b, prefetch=prefetch))


def test_mapped_files_are_read_row_by_row(tmp_path):
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", "f4", (10, 3))[:] = np.arange(30.0).reshape(10, 3)
    data, read = np.load(path, mmap_mode="r"), []

    class Watched(np.memmap):
        def __getitem__(self, rows):
            found = super().__getitem__(rows)
            read.append(found.shape)
            return found

    watched = data.view(Watched)
    for key in (None, KEY):
        found = list(batches(watched, 4, key=key))
        assert all(type(b) is np.ndarray and b.base is None for b in found)
        assert {tuple(row) for b in found for row in b.tolist()} == {*map(tuple, data.tolist())}
    assert read == [(4, 3), (4, 3), (2, 3)] * 2


def test_a_batch_is_memory_of_its_own():
    data = np.arange(4)
    for batch in batches(data, 2):
        batch += 1
    assert data.tolist() == [0, 1, 2, 3]


def test_arrays_of_other_libraries_become_those_of_rlx():
    jnp = pytest.importorskip("jax.numpy")
    (batch,) = batches(jnp.arange(3), 3)
    assert isinstance(batch, rlx.Array) and batch.tolist() == [0, 1, 2]


WRONG = {
    "the data are {}, without an array": lambda: batches({}, 2),
    r"data\['y'\]\[1\] has 9 rows, data\['x'\] 10": lambda: batches(
        {"x": ROWS, "y": [ROWS, ROWS[1:]]}, 2
    ),
    r"data\[0\] is 1, without rows": lambda: batches([1, 2, 3], 2),
    r"data\['n'\] is a ndarray of the shape \(\), without rows": lambda: batches(
        {"n": np.array(3)}, 2
    ),
    "the data have no rows": lambda: batches(np.zeros((0, 3)), 2),
    "size is 0": lambda: batches(ROWS, 0),
    "size is 2.0, not an integer": lambda: batches(ROWS, 2.0),
    "start is 6": lambda: batches(ROWS, 2, start=6),
    "epochs is -1": lambda: batches(ROWS, 2, epochs=-1),
    "steps is -1": lambda: batches(ROWS, 2, steps=-1),
    "drop_last is 'x'": lambda: batches(ROWS, 2, drop_last="x"),
    "map is 3, not a function": lambda: batches(ROWS, 2, map=3),
    "a key is uint32": lambda: batches(ROWS, 2, key=0),
    r"data is f32\[10\], which has no numbers": lambda: rlx.jit(lambda x: batches(x, 2) and x)(
        np.ones(10, "f4")
    ),
    r"key is u32\[2\], which has no numbers": lambda: rlx.jit(
        lambda k: batches(ROWS, 2, key=k) and k
    )(KEY),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_arguments_are_named(text):
    with pytest.raises(rlx.RlxError, match=text) as caught:
        WRONG[text]()
    assert caught.value.fix and "test_train.py" in caught.value.where


# -- a running mean --------------------------------------------------------------------------------


def test_the_mean_of_numbers_weights_and_masks():
    values, weights = np.random.default_rng(0).uniform(size=(2, 5, 7))
    mean = Mean()
    for x, w in zip(values, weights, strict=True):
        mean = mean.add(x, w)
    np.testing.assert_allclose(mean.value, np.average(values, weights=weights), rtol=5e-7)
    assert Mean().add([1.0, np.nan, 5.0], [True, False, True]).value == 3.0
    assert Mean().add(np.inf).add(1.0).value == np.inf and np.isnan(Mean().value)
    assert Mean().add([1, 2, 6]).value == 3.0 and Mean().add([True, False]).value == 0.5
    assert Mean().add(rnp.ones(3, "bfloat16")).value.dtype == "float32"


def test_the_mean_of_many_loses_nothing():
    """A plain sum in float32 of so many tenths is off by 1 percent."""
    count = 1_000_000
    run = rlx.jit(lambda x: rlx.fori_loop(0, count, lambda i, mean: mean.add(x), Mean()))
    assert run(np.float32(0.1)).value == np.float32(0.1)


def test_the_mean_of_more_than_a_float_counts():
    """Plain sums in float32 of ones end at 2^24."""
    mean = Mean().add(1.0, 2.0**24)
    for _ in range(10):
        mean = mean.add(0.0)
    assert mean.value == np.float32(2**24 / (2**24 + 10)) < 1


def test_the_mean_is_a_tree(tmp_path):
    first = Mean().add(2.0)
    rlx.save(tmp_path / "mean.npz", first)
    again = rlx.load(tmp_path / "mean.npz", like=Mean())
    assert again.add(4.0).value == 3.0 and first.value == 2.0
    found, _ = rlx.scan(lambda mean, x: (mean.add(x), None), Mean(), rnp.arange(5.0))
    assert found.value == 2.0


# -- early stopping --------------------------------------------------------------------------------


def stops(metrics, *args, **options) -> list[bool]:
    stopping, found = EarlyStopping(*args, **options), []
    for metric in metrics:
        stopping = stopping.update(metric)
        found.append(stopping.should_stop)
    return found


def test_it_stops_when_patience_is_over():
    assert stops([3, 2, 2, 2], 2) == [False, False, False, True]
    assert stops([3, 2, 2.5, 1, 1.5, 1.0, 0.5], 2) == [False] * 5 + [True, False]
    assert stops([1, 2, 3, 2.5], 1, mode="max") == [False, False, False, True]
    assert stops([1.0, 0.95, 0.91, 0.89], 2, min_delta=0.1) == [False, False, True, False]
    assert stops([np.nan, np.nan], 2) == [False, True]
    assert stops([rnp.array(1.0), np.float32(1.0)], 1) == [False, True]


def test_early_stopping_is_saved_and_immutable(tmp_path):
    stopping = EarlyStopping(3).update(2.0).update(3.0)
    rlx.save(tmp_path / "x.npz", stopping)
    again = rlx.load(tmp_path / "x.npz", like=EarlyStopping(3))
    assert (again.best, again.waited) == (2.0, 1) == (stopping.best, stopping.waited)
    with pytest.raises(rlx.ImmutableError):
        stopping.best = 1.0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: EarlyStopping(0), "patience is 0"),
        (lambda: EarlyStopping(1, -1.0), "min_delta is -1"),
        (lambda: EarlyStopping(1, mode="least"), "there is no mode 'least'"),
        (lambda: EarlyStopping(1).update("x"), "metric"),
        (lambda: rlx.jit(lambda x: EarlyStopping(1).update(x).best)(1.0), "no number while"),
    ],
)
def test_early_stopping_names_what_is_wrong(call, text):
    with pytest.raises(rlx.RlxError, match=text) as caught:
        call()
    assert caught.value.fix


# -- progress --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_where_nobody_looks():
    out = io.StringIO()
    assert list(progress([1, 2], file=out)) == [1, 2] and out.getvalue() == ""
    out = Terminal()
    assert list(progress([1, 2], file=out, enabled=False)) == [1, 2] and out.getvalue() == ""


def test_progress_without_rich_writes_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.modules["rlx.train.progress"], "SECONDS", 0.0)
    out = Terminal()
    assert list(progress(range(3), description="epoch", file=out)) == [0, 1, 2]
    assert out.getvalue().splitlines() == [
        "epoch 1/3, 0.0 s, 0 s left",
        "epoch 2/3, 0.0 s, 0 s left",
        "epoch 3/3, 0.0 s",
    ]
    out = io.StringIO()
    assert list(progress((i for i in range(2)), enabled=True, file=out)) == [0, 1]
    assert out.getvalue().splitlines() == ["1, 0.0 s", "2, 0.0 s", "2, 0.0 s"]


def test_progress_is_a_bar_of_rich_on_a_terminal():
    out = Terminal()
    for item in progress(iter("abc"), total=3, description="training", file=out):
        if item == "b":
            break
    assert "training" in out.getvalue() and "%" in out.getvalue()
    out = Terminal()
    assert list(progress([1], description="[bold] 1/[/x]", file=out)) == [1]
    assert "[bold] 1/[/x]" in out.getvalue()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"iterable": 3}, "iterable is 3, not an iterable"),
        ({"total": -1}, "total is -1"),
        ({"file": 3}, "file is 3"),
        ({"description": 3}, "description is 3, not a text"),
        ({"enabled": "yes"}, "enabled is 'yes'"),
    ],
)
def test_progress_names_what_is_wrong(options, text):
    with pytest.raises(rlx.RlxError, match=text):
        progress(**{"iterable": [1], **options})


def test_rlx_does_not_load_it():
    code = "import sys, rlx; print('rlx.train' in sys.modules, rlx.train.Mean().add(1).value)\n"
    code += "print('rich' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.split() == ["False", "1.0", "False"]
