"""The cache on disk: what it saves, and that nothing in it can do harm."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import disk, disk as sources
from rlx.backends.cpu import disk_code
from rlx.backends.cpu.llvm import machine
from rlx.backends.disk import DiskCache, disk_cache
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.config import from_environment
from rlx.ir.errors import ConfigError, NanError
from rlx.ir.graph import Graph
from rlx.ir.types import Type, type_of

X = np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6)
WRITTEN, READ = "written to the cache on disk", "read from the cache on disk"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test, whatever was just edited."""
    monkeypatch.setattr(sources, "IMPORTED", math.inf)
    monkeypatch.setattr(disk, "_told", set())
    with rlx.config.using(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def compiled(fn, *specs, **options) -> rlx.CompiledGraph:
    """A function compiled by a session that knows nothing yet."""
    return rlx.Session("cpu").compile(fn, *specs, options=rlx.CompileOptions(**options))


def told(program: rlx.CompiledGraph) -> str:
    """What became of a program on disk."""
    return program.report().splitlines()[-1]


def programs(cache: Path) -> list[Path]:
    """The files of the cache."""
    return list(cache.glob("*.rlx"))


def test_programs_with_fixed_arrays_are_read():
    w = np.linspace(-1, 1, 6 * 40, dtype=np.float32).reshape(6, 40)
    plain = compiled(lambda x, w: x @ w, X, w)
    for expected in (WRITTEN, READ):
        program = compiled(lambda x, w: x @ w, X, w, fixed=1)
        assert told(program) == expected
        inner = program.unprepared
        held = inner.prepare([w])
        assert all(x is not w for x in held), "only the panels are passed"
        np.testing.assert_array_equal(inner.entry(X, *held), plain(X, w))


# -- hits -----------------------------------------------------------------------------------------

LATER = """
import json, sys
import numpy as np
import rlx, rlx.numpy as rnp
from rlx.backends import disk as sources
sources.IMPORTED = float("inf")
x = np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6)
spd = x @ x.T + 4 * np.eye(4, dtype=np.float32)
weights = np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)
def called(x):
    return np.asarray(x) + np.float32(len(sys.argv))
CASES = {
    "plain": (lambda x: x * 2 + 1, x),
    "gradient": (rlx.grad(lambda x: rnp.tanh(x @ x.T).sum()), x),
    "constants": (lambda x: rnp.sin(x) * weights + weights[::-1].sum(), x),
    "calls": (lambda x: (rnp.sort(x, 0), rnp.linalg.cholesky(x[:, :4] @ x[:, :4].T + 9.0)), x),
    "loops": (lambda x: rlx.scan(lambda c, row: (c + row, c.sum()), x[0], x), x),
    "callback": (lambda x: rlx.pure_callback(called, rlx.spec(x.shape), x) * 2, x),
}
made = {}
for name, (fn, *args) in CASES.items():
    program = rlx.jit(fn).lower(*args).compile()
    made[name] = [rlx.tree.leaves(program(*args)), program.report()]
total = rlx.jit(lambda x: (rnp.sort(x) @ x, x[::-1] * 2), dynamic={"x": {0: "n"}})
made["sizes"] = [[y for n in (3, 7) for y in total(x.ravel()[:n])], total.lower(x[0]).compile()]
made["sizes"][1] = made["sizes"][1].report()
step = rlx.jit(lambda p, g: p - 0.1 * g, donate_argnums=0).lower(x, x).compile()
made["donated"] = [[step(rlx.array(x + 0), x)], step.report()]
print(json.dumps({k: [[np.asarray(y).tobytes().hex() for y in ys], r]
                  for k, (ys, r) in made.items()}))
"""


def test_a_second_process_reads_what_the_first_one_wrote(cache):
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LATER],
            capture_output=True,
            text=True,
            env=os.environ | {"RLX_CACHE": str(cache)},
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    first, second = found
    assert {name: bits for name, (bits, _) in first.items()} == {
        name: bits for name, (bits, _) in second.items()
    }
    for name, (_, report) in second.items():
        assert READ in report, f"{name}: {report}"
        assert report.replace(READ, WRITTEN) == first[name][1].replace(READ, WRITTEN)
    assert "result 0 takes its memory" in second["donated"][1]


def test_what_looks_inside_is_the_same_after_a_hit():
    def fn(x):
        return rnp.sort(x * 2, 0), rnp.exp(x @ x.T)

    first, second = compiled(fn, X), compiled(fn, X)
    assert told(first) == WRITTEN and told(second) == READ
    assert second.stages == first.stages and second.cost() == first.cost()
    assert second.executable.held_bytes == first.executable.held_bytes
    assert second.executable.objects == first.executable.objects
    out = np.empty_like(X), np.empty((4, 4), np.float32)
    second.run_into(X, out=out)
    for one, other in zip(out, first(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_debug_says_what_was_read(capfd):
    for how in ("compiled", "read from disk"):
        with rlx.debug(2):
            program = compiled(lambda x: rnp.sort(x * 2), X)
        lines = capfd.readouterr().err.splitlines()
        assert f"ops: {how} for cpu in " in lines[0]
        assert ("read " in lines[1]) == (how != "compiled")
    assert READ in program.report()


def test_errors_in_calls_are_raised_after_a_hit():
    def refuse(x):
        raise ZeroDivisionError("not this one")

    def of(fn):
        return lambda x: rlx.pure_callback(fn, rlx.spec((4, 6)), x) + 1

    np.testing.assert_array_equal(compiled(of(np.negative), X)(X), 1 - X)
    again = compiled(of(refuse), X)
    assert told(again) == READ
    with pytest.raises(Exception, match="not this one"):
        again(X)
    np.testing.assert_array_equal(compiled(of(np.square), X)(X), np.square(X) + 1)


def adding(array: np.ndarray) -> Graph:
    """A graph that adds an array."""
    return build(lambda x: x + ops.constant(value=array), [type_of(array)], "adding")


def test_arrays_of_the_graph_are_not_written(cache):
    array = np.linspace(0, 1, 20_000, dtype=np.float32)
    assert told(compiled(adding(array))) == WRITTEN
    assert max(path.stat().st_size for path in programs(cache)) < array.nbytes / 2
    again = compiled(adding(array))
    assert told(again) == READ
    np.testing.assert_array_equal(again(array), array + array)
    assert told(compiled(adding(array + 1))) == WRITTEN


def test_arrays_that_compiling_computed_are_written():
    array = np.array([1.0, 4.0, 9.0], np.float32)

    def add(x):
        return x + ops.cholesky(ops.reshape(ops.constant(value=array), shape=(3, 1, 1)))

    graphs = [build(add, [Type(array.dtype, (3, 1, 1))], "add") for _ in range(2)]
    first, again = map(compiled, graphs)
    assert told(again) == READ and "b2: f32[3, 1, 1] constant" in first.stages["lir"]
    np.testing.assert_array_equal(again(array[:, None, None]).ravel(), [2, 6, 12])


def test_derivatives_that_are_not_taken_do_not_count():
    def made():
        @rlx.custom_jvp
        def double(x):
            return x * 2

        double.defjvp(lambda primals, tangents: (double(*primals), tangents[0] * 2))
        return lambda x: double(x) + 1

    assert told(compiled(made(), X)) == WRITTEN
    assert told(compiled(made(), X)) == READ


def test_ops_of_users_are_not_kept(cache):
    @rlx.custom_op(elementwise=True)
    def disk_cache_twice(x):
        return x * 2

    program = compiled(lambda x: disk_cache_twice(x) + 1, X)
    assert "not in the cache on disk: the op disk_cache_twice is" in told(program)
    assert not [p for p in programs(cache) if p.stat().st_size > 20_000]


def test_settings_that_are_compiled_in_do_not_mix():
    def fn(x):
        return rnp.log(x)

    assert told(compiled(fn, X)) == WRITTEN
    for _ in range(2):
        with rlx.config.using(debug_nans=True):
            checked = compiled(fn, X)
        with pytest.raises(NanError, match="log"):
            checked(X)
    assert told(checked) == READ and told(compiled(fn, X)) == READ


def test_a_verified_compile_is_a_compile():
    assert told(compiled(lambda x: x * 3, X)) == WRITTEN
    assert "lower" in compiled(lambda x: x * 3, X, check=True).executable.seconds


# -- keys -----------------------------------------------------------------------------------------


def test_another_processor_or_version_compiles_anew(monkeypatch):
    assert told(compiled(lambda x: x - 3, X)) == WRITTEN
    here = machine.host()
    for other in (
        replace(here, cpu="another"),
        replace(here, features=here.features + ",+more"),
        replace(here, cores=here.cores + 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(machine, "host", lambda other=other: other)
            assert told(compiled(lambda x: x - 3, X)) == WRITTEN
    for library, name in (
        (machine.llvmlite, "__version__"),
        (sources.np, "__version__"),
        (sys, "version"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(library, name, "0.0")
            assert told(compiled(lambda x: x - 3, X)) == WRITTEN
    assert told(compiled(lambda x: x - 3, X)) == READ


def test_files_of_rlx_that_were_changed_turn_it_off(cache, monkeypatch, capfd):
    monkeypatch.setattr(sources, "IMPORTED", 0.0)
    with rlx.config.using(debug=1):
        program = compiled(lambda x: x - 4, X)
        compiled(lambda x: x - 5, X)
    assert "read" not in program.executable.seconds and not programs(cache)
    assert capfd.readouterr().err.count("files of rlx were changed") == 1


def test_other_contents_of_files_are_another_key(tmp_path, monkeypatch):
    cache = disk_cache()
    monkeypatch.setattr(sources, "_ROOT", tmp_path)
    for room in sources.ROOMS:
        (tmp_path / room).mkdir()
    file = tmp_path / "ir" / "op.py"
    found = []
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        file.write_text(text)
        found.append(sources.sources(cache))
    assert found[0] == found[2] != found[1]


# -- damage ---------------------------------------------------------------------------------------


def test_damaged_entries_are_made_anew(cache):
    def fn(x):
        return x * 5 - 1

    compiled(fn, X)
    entry = next(p for p in programs(cache) if b"lifetimes" in p.read_bytes())
    whole = entry.read_bytes()
    generator = np.random.default_rng(0)
    damaged = [whole[:n] for n in (0, 5, 24, 40, len(whole) // 2, len(whole) - 1)]
    for place in generator.integers(0, len(whole), 12):
        damaged.append(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
    damaged.append(whole + b"x")
    for content in damaged:
        entry.write_bytes(content)
        program = compiled(fn, X)
        assert told(program) == WRITTEN
        np.testing.assert_array_equal(program(X), X * 5 - 1)
        assert entry.read_bytes() == whole


def test_what_is_whole_but_makes_no_sense_is_made_anew(cache):
    def fn(x):
        return x * 6

    compiled(fn, X)
    entry = next(p for p in programs(cache) if b"lifetimes" in p.read_bytes())
    disk_cache().put(entry.stem, b"no pickle")
    assert told(compiled(fn, X)) == WRITTEN
    assert told(compiled(fn, X)) == READ


def test_code_that_does_not_fit_the_process_is_made_anew():
    def fn(x):
        return rnp.linalg.svd(x.reshape(1, -1), compute_uv=False) * 6

    compiled(fn, X)
    entry = disk_code.DiskEntry.of(rlx.make_graph(fn)(X), rlx.Session("cpu").backend.target)
    code = entry.read()
    assert code is not None
    entry.write(replace(code, calls=[]))  # the linker does not find them
    again = compiled(fn, X)
    assert told(again) == WRITTEN
    np.testing.assert_allclose(again(X), [np.linalg.norm(X) * 6], rtol=1e-6)
    assert told(compiled(fn, X)) == READ


def test_an_entry_is_of_its_key_only(tmp_path):
    cache = DiskCache(tmp_path, 1 << 20)
    assert cache.put("a", b"1")
    (tmp_path / "a.rlx").rename(tmp_path / "b.rlx")
    assert cache.get("b") is None and not list(tmp_path.iterdir())


def test_threads_that_write_and_read_at_once_see_whole_entries(tmp_path):
    cache = DiskCache(tmp_path, 40 * disk.BLOCK)
    wrong = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(60):
            key = str(generator.integers(8))
            size = int(generator.integers(1, 20_000))
            cache.put(key, bytes([int(key)]) * size)
            found = cache.get(str((int(key) + 1) % 8))
            if found is not None and len(set(found)) != 1:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not list(tmp_path.glob("*.part"))


# -- bounds and files -----------------------------------------------------------------------------


def test_the_least_recently_used_entries_go(tmp_path):
    cache = DiskCache(tmp_path, 10 * disk.BLOCK)
    (tmp_path / "notes.txt").write_text("x" * 100_000)
    (tmp_path / "old.rlx.part").write_text("of a process that died")
    (tmp_path / "new.rlx.part").write_text("of one that lives")
    os.utime(tmp_path / "old.rlx.part", (0, 0))
    for i in range(10):
        assert cache.put(str(i), b"x")
        os.utime(tmp_path / f"{i}.rlx", (i, i))
    assert cache.get("0") == b"x"
    assert cache.put("10", b"x")
    kept = {path.stem for path in tmp_path.glob("*.rlx")}
    assert kept == {"0", *map(str, range(3, 11))}
    assert not (tmp_path / "old.rlx.part").exists()
    assert (tmp_path / "new.rlx.part").exists() and (tmp_path / "notes.txt").exists()
    assert not cache.put("large", bytes(cache.limit // 2))


def test_a_bound_of_nothing_keeps_nothing(cache):
    with rlx.config.using(cache_disk_bytes=0):
        np.testing.assert_array_equal(compiled(lambda x: x * 7, X)(X), X * 7)
        assert not programs(cache)


def test_directories_and_files_of_others_are_not_used(cache, tmp_path, capfd):
    cache.mkdir(mode=0o700)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with rlx.config.using(cache=open_to_all, debug=1):
        assert disk_cache() is None and disk_cache() is None
        compiled(lambda x: x * 8, X)
    assert capfd.readouterr().err.count("others may write to it") == 1
    assert not list(open_to_all.iterdir())
    mine = disk_cache()
    mine.put("key", b"content")
    assert (cache / "key.rlx").stat().st_mode & 0o777 == 0o600
    (cache / "key.rlx").chmod(0o666)
    assert mine.get("key") is None
    (cache / "key.rlx").chmod(0o600)
    assert mine.get("key") == b"content"
    (cache / "link.rlx").symlink_to(cache / "key.rlx")
    assert mine.get("link") is None
    status = os.stat_result((0o600, 0, 0, 1, os.geteuid() + 1, 0, 0, 0, 0, 0))
    assert "another user" in disk.strangers(status)


def test_a_new_directory_is_private_and_may_be_removed(cache):
    for number in (2.0, 3.0):
        assert told(compiled(lambda x, number=number: x - number, X)) == WRITTEN
        assert cache.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(cache)


def test_where_nothing_can_be_written_it_is_silent(tmp_path, cache, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    with rlx.config.using(cache=tmp_path / "file" / "cache"):
        np.testing.assert_array_equal(compiled(lambda x: x * 9, X)(X), X * 9)
    assert not capfd.readouterr().err
    assert disk_cache() is not None

    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.os, "replace", full)
    np.testing.assert_array_equal(compiled(lambda x: x * 9, X)(X), X * 9)
    assert not capfd.readouterr().err
    with rlx.config.using(debug=1):
        for number in (10.0, 11.0):
            compiled(lambda x, number=number: x * number, X)
    assert capfd.readouterr().err.count("No space left on device") == 1
    assert not list(cache.iterdir())


def test_the_user_s_directory_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    with rlx.config.using(cache=True):
        assert disk_cache().root == tmp_path / "xdg" / "rlx"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert disk_cache().root == tmp_path / ".cache" / "rlx"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert disk_cache().root == tmp_path / "Library" / "Caches" / "rlx"
    with rlx.config.using(cache=False):
        assert disk_cache() is None


def test_settings_say_where_it_is():
    settings = from_environment({"RLX_CACHE": "0", "RLX_CACHE_DISK_BYTES": "12"})
    assert settings.cache is False and settings.cache_disk_bytes == 12
    assert from_environment({}).cache is True
    assert from_environment({"RLX_CACHE": "1"}).cache is True
    assert from_environment({"RLX_CACHE": "there"}).cache == Path.cwd() / "there"
    assert from_environment({"RLX_CACHE": "~/there"}).cache == Path.home() / "there"
    assert from_environment({"RLX_CACHE": "~nobody at all/there"}).cache is not True
    with rlx.config.using(cache=None):
        assert rlx.config.cache is False
    with pytest.raises(ConfigError, match="RLX_CACHE_DISK_BYTES is 'much'"):
        from_environment({"RLX_CACHE_DISK_BYTES": "much"})


def test_entries_in_use_are_touched(tmp_path):
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put("key", b"1")
    os.utime(tmp_path / "key.rlx", (0, 0))
    began = time.time() - 10
    assert cache.get("key") == b"1"
    assert (tmp_path / "key.rlx").stat().st_mtime > began
