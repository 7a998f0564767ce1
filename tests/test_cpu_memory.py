"""Memory for results and copies: aligned, distinct, reused, and bounded while it waits."""

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from machine_code import load

import rlx
from rlx.backends.cpu.llvm import machine
from rlx.backends.cpu.llvm.text import Module
from rlx.backends.cpu.runtime import memory

LIMIT = 10_000_000


@pytest.fixture(scope="module", params=[False, True], ids=["with the GIL", "locked"])
def library(request) -> machine.Library:
    module = Module()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "kept_bytes", lambda: LIMIT)
        memory.emit_memory(module, locked=request.param)
    return load(module.text)


def function(library: machine.Library, name: str, *types: type, result: type | None = None):
    return ctypes.CFUNCTYPE(result, *types)(library.address(name))


@pytest.fixture
def allocate(library) -> Callable[[int], int]:
    return function(library, "allocate", ctypes.c_int64, result=ctypes.c_void_p)


@pytest.fixture
def release(library) -> Callable[[int, int], None]:
    return function(library, "release", ctypes.c_void_p, ctypes.c_int64)


def waiting(library: machine.Library) -> int:
    return ctypes.c_int64.from_address(library.address("kept")).value


def test_blocks_of_all_sizes_are_distinct(allocate, release):
    sizes = [*range(0, 1100, 13), 4095, 4096, 4097, 65537, (4 << 20) - 1, 4 << 20]
    for _ in range(3):
        blocks = [allocate(size) for size in sizes]
        for i, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
            assert block % 64 == 0
            ctypes.memset(block, i % 251, size)
        for i, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
            assert ctypes.string_at(block, size) == bytes([i % 251]) * size
            release(block, size)


def test_the_youngest_block_of_a_size_is_given_again(allocate, release):
    first, second = allocate(5000), allocate(5000)
    release(first, 5000)
    release(second, 5000)
    assert [allocate(5000), allocate(4990)] == [second, first]
    release(first, 5000)
    release(second, 5000)


def test_memory_that_waits_is_bounded(library, allocate, release):
    for size in (1 << 20, 3_000_000, 20_000_000, 100):
        blocks = [allocate(size) for _ in range(20)]
        assert len(set(blocks)) == 20
        for block in blocks:
            release(block, size)
            assert 0 <= waiting(library) <= LIMIT
    assert waiting(library) > LIMIT // 2


def test_memory_that_cannot_be_had_is_null(allocate):
    assert allocate(1 << 50) is None


@pytest.mark.parametrize("library", [True], indirect=True, ids=["locked"])
def test_threads_never_get_the_same_block(library, allocate, release):
    """Calls through ctypes run without the GIL, so the lock is needed in every Python."""
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(3000):
            block = allocate(640)
            ctypes.memset(block, number, 640)
            if ctypes.string_at(block, 640) != bytes([number]) * 640:
                wrong.append(block)
            release(block, 640)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("count", [1024, 1025, 40_000, 3_000_000])
def test_arrays_that_are_copied_lie_as_results_do(count: int):
    given = np.arange(count + 1, dtype="float32")[1:]
    made = rlx.array(given)
    copies = [made, made.at[0].set(7.0), rlx.array(given.astype("float64"), "float32")]
    copies += [rlx.array(given.reshape(1, -1)), rlx.array(given.repeat(2))[::2]]
    for x in copies:
        assert x._data.ctypes.data % memory.ALIGNMENT == 0
        assert x._data.flags.owndata and not x._data.flags.writeable
    np.testing.assert_array_equal(made, given)
    place = made._data.ctypes.data
    assert rlx.jit(lambda x: x + 1, donate_argnums=0)(made)._data.ctypes.data == place


def test_copies_of_many_threads_are_apart():
    given = [np.full(50_000, i, "float32") for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(rlx.array, given * 20))
    for i, x in enumerate(made):
        assert (x.host() == i % 8).all() and x._data.ctypes.data % memory.ALIGNMENT == 0
