"""Matrix products of the cpu backend against NumPy, for every shape of register tile."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from audit import COMPLETE
from machine_code import load

from rlx.backends.cpu.llvm.host import Host, host
from rlx.backends.cpu.llvm.text import Function, Module, Vector
from rlx.backends.cpu.products.choice import GemmPlan
from rlx.backends.cpu.products.emit import Places, emit_gemm
from rlx.backends.cpu.products.problem import PANELS_AT_ONCE, Operand, Problem

GUARD = 64  # elements around C, and bytes around the scratch memory, that nobody may touch
HAS = {"bfloat16": "+avx512bf16", "int8": "+avx512vnni", "uint8": "+avx512vnni"}
GROUPED = tuple(dtype for dtype, name in HAS.items() if name in host().features)
NARROW = {
    "native": {},
    "avx2": {"vector_bytes": 32, "vector_registers": 16, "has_tiles": False, "grouped": ()},
    "sse": {"vector_bytes": 16, "vector_registers": 16},
    "neon": {"vector_bytes": 16, "vector_registers": 30},
    "groups": {"has_tiles": False, "grouped": GROUPED},
    "no groups": {"has_tiles": False, "grouped": ()},
    "small caches": {"l1": 2 << 10, "l2": 16 << 10, "l3": 64 << 10},
}


@dataclass(frozen=True)
class Layout:
    """How the operands lie: each of A and B row by row, transposed, or with gaps."""

    a: str = "rows"
    b: str = "rows"
    gap: int = 0


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def stored(shape: tuple[int, int], how: str, dtype: str, seed: int) -> np.ndarray:
    """A random matrix in the layout `how`."""
    random, (rows, columns) = np.random.default_rng(seed), shape
    place = {
        "rows": lambda x: x[:rows, :columns],
        "columns": lambda x: x.T[:rows, :columns],
        "gaps": lambda x: x[::2, ::3][:rows, :columns],
        "one row": lambda x: np.broadcast_to(x[:1, :columns], shape),
        "one column": lambda x: np.broadcast_to(x[:rows, :1], shape),
    }[how]
    size = {"columns": (columns, rows), "gaps": (2 * rows, 3 * columns)}.get(how, shape)
    size = tuple(max(x, 1) for x in size)
    if "int" in dtype:
        return place(random.integers(0 if dtype == "uint8" else -9, 9, size).astype(dtype))
    return place(random.standard_normal(size).astype(numpy_dtype(dtype)))


def problem_of(a: np.ndarray, b: np.ndarray, gap: int, dtype: str, out: str) -> Problem:
    left, right = (Operand(x.strides[0] // x.itemsize, x.strides[1] // x.itemsize) for x in (a, b))
    (m, k), n = a.shape, b.shape[1]
    return Problem(m, n, k, left, right, n + gap, dtype, out)


class Product:
    """A compiled product, called part by part."""

    def __init__(self, problem: Problem, device: Host, parts=1, epilogue=None, extra=()) -> None:
        module = Module()
        self.problem, self.parts = problem, parts
        self.plan = GemmPlan.of(problem, device, parts)
        names = ("%a", "%b", "%c", "%scratch")
        parameters = [*(("ptr", name) for name in names), ("i64", "%part"), *extra]
        f = module.function("product", parameters)
        places = Places(*names, "%part" if parts > 1 else "0")
        passed = [(kind, name, name) for kind, name in extra]
        emit_gemm(module, f, self.plan, places, epilogue=epilogue, extra=passed)
        f.do("ret void")
        self.library = load(module.text)
        kinds = [ctypes.c_void_p] * 4 + [ctypes.c_int64] + [ctypes.c_void_p] * len(extra)
        self.call = ctypes.CFUNCTYPE(None, *kinds)(self.library.address("product"))

    def __call__(
        self, a: np.ndarray, b: np.ndarray, extra: Sequence[np.ndarray] = ()
    ) -> np.ndarray:
        problem = self.problem
        out = numpy_dtype("uint8" if problem.out_dtype == "bool" else problem.out_dtype)
        size = (problem.m - 1) * problem.c_row + problem.n if problem.m else 0
        memory = np.full(size + 2 * GUARD, 77, out)
        needed = self.plan.scratch_bytes
        room = np.full(needed + 2 * GUARD + 64, 0xFF, np.uint8)  # NaN: reading it would show
        start = -(room.ctypes.data + GUARD) % 64 + GUARD
        c = memory.ctypes.data + GUARD * out.itemsize
        for part in reversed(range(self.parts)):
            pointers = [a.ctypes.data, b.ctypes.data, c, room.ctypes.data + start]
            self.call(*pointers, part, *(x.ctypes.data for x in extra))
        assert np.all(room[:start] == 0xFF) and np.all(room[start + needed :] == 0xFF)
        assert np.all(memory[:GUARD] == 77) and np.all(memory[GUARD + size :] == 77)
        window = memory[GUARD:][: problem.m * problem.c_row]
        inside = np.full(problem.m * problem.c_row, 77, out)
        inside[: window.size] = window
        inside = inside.reshape(problem.m, problem.c_row)
        last = inside[:-1, problem.n :] if problem.m else inside
        assert np.all(last == 77), "a gap between the rows of C was written"
        return inside[:, : problem.n]


def kind_of(plan: GemmPlan) -> str:
    """The name of a plan's algorithm."""
    return plan.blocking.kind if plan.blocking else "empty"


def check(
    m: int,
    n: int,
    k: int,
    dtype: str = "float32",
    layout: Layout = Layout(),
    parts: int = 1,
    device: str = "native",
    out: str | None = None,
) -> str:
    """Compare one product with NumPy's in float64; gives the kind of the plan."""
    a, b = stored((m, k), layout.a, dtype, 1), stored((k, n), layout.b, dtype, 2)
    problem = problem_of(a, b, layout.gap, dtype, out or dtype)
    product = Product(problem, replace(host(), **NARROW[device]), parts)
    got = product(a, b)
    wide = np.int64 if "int" in dtype else np.float64
    want = a.astype(wide) @ b.astype(wide)
    if wide is np.int64:
        np.testing.assert_array_equal(got, want.astype(out or dtype))
        return kind_of(product.plan)
    size = np.abs(a.astype(wide)) @ np.abs(b.astype(wide))
    sums = np.finfo(np.float32 if problem.accumulator == "float32" else np.float64).eps
    stored_as = ml_dtypes.finfo(numpy_dtype(problem.out_dtype))
    final, least = float(stored_as.eps), float(stored_as.smallest_subnormal)
    error = np.abs(got.astype(wide) - want)
    assert np.all(error <= (k + 2) * sums * size + final * np.abs(want) + least)
    return kind_of(product.plan)


SIZES = [
    (1, 1, 1), (1, 7, 5), (7, 1, 5), (4, 4, 4), (5, 3, 2), (8, 8, 8), (13, 17, 19), (16, 16, 16),
    (31, 29, 37), (33, 40, 24), (64, 64, 64), (2, 100, 3), (100, 2, 70), (97, 101, 103),
    (150, 131, 301), (1, 300, 200), (300, 1, 200), (3, 500, 33), (128, 128, 128),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_product_is_that_of_numpy(size: tuple[int, int, int]) -> None:
    check(*size)
    check(*size, layout=Layout("columns", "columns", gap=3))


@pytest.mark.parametrize("device", NARROW)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_product_fits_any_vector_width(device: str, dtype: str) -> None:
    for size in [(13, 17, 19), (33, 40, 24), (97, 101, 103), (1, 50, 60), (50, 1, 60), (70, 6, 90)]:
        for a, b in (("rows", "rows"), ("columns", "columns")):
            check(*size, dtype=dtype, layout=Layout(a, b), device=device)


@pytest.mark.parametrize("a", ["rows", "columns", "gaps", "one row", "one column"])
@pytest.mark.parametrize("b", ["rows", "columns", "gaps", "one row", "one column"])
def test_product_reads_any_strides(a: str, b: str) -> None:
    for size in [(67, 83, 71), (5, 6, 7), (1, 90, 40), (90, 1, 40)]:
        check(*size, layout=Layout(a, b, gap=1), device="small caches")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64"])
def test_product_of_other_dtypes(dtype: str) -> None:
    for size in [(4, 4, 4), (50, 61, 70), (1, 64, 100), (64, 1, 100), (128, 64, 300)]:
        check(*size, dtype=dtype)
        check(*size, dtype=dtype, layout=Layout("columns", "columns"), device="small caches")
    if dtype in ("float16", "bfloat16"):
        check(30, 40, 50, dtype=dtype, out="float32")


@pytest.mark.parametrize("device", ["native", "groups", "no groups", "avx2"])
@pytest.mark.parametrize(
    ("dtype", "out"),
    [("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("int8", "int32"), ("uint8", "int32")],
)
def test_products_that_tile_registers_may_do(dtype: str, out: str, device: str) -> None:
    sizes = [(32, 32, 32), (33, 65, 64), (64, 40, 131), (97, 101, 303), (128, 64, 256)]
    layouts = [("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("gaps", "gaps")]
    for i, size in enumerate(sizes):
        for a, b in layouts if COMPLETE else (layouts[i % 4], layouts[(i + 2) % 4]):
            kind = check(*size, dtype=dtype, out=out, layout=Layout(a, b), device=device, parts=2)
            tiled = host().has_tiles and device == "native"
            assert (kind == "tiles") == tiled
            grouped = {"native": host().grouped, "groups": GROUPED}.get(device, ())
            assert (kind == "groups") == (dtype in grouped and not tiled)
    check(7, 50, 64, dtype=dtype, out=out, device=device)


@pytest.mark.parametrize("parts", [2, 3, 4, 40])
def test_parts_make_up_the_whole(parts: int) -> None:
    for size in [
        (97, 101, 64),
        (200, 16, 80),
        (16, 200, 80),
        (1, 400, 50),
        (400, 1, 50),
        (4, 4, 4),
    ]:
        check(*size, parts=parts)
        check(*size, layout=Layout("columns", "columns", 2), parts=parts, device="small caches")


@pytest.mark.parametrize(
    "size", [(128, 128, 128), (203, 301, 8), (97, 260, 40), (65, 500, 300), (40, 1000, 70)]
)
@pytest.mark.parametrize("device", ["native", "small caches"])
def test_threads_change_no_bit(size: tuple[int, int, int], device: str) -> None:
    m, n, k = size
    a, b = stored((m, k), "rows", "float32", 1), stored((k, n), "rows", "float32", 2)
    problem = problem_of(a, b, 0, "float32", "float32")
    narrow = replace(host(), **NARROW[device])
    one, two, five = (Product(problem, narrow, parts)(a, b) for parts in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


@pytest.mark.parametrize("b", ["rows", "columns"])
def test_one_block_of_a_against_many_of_b(b: str) -> None:
    """A is packed once, with pieces of k and edges; B some panels at a time."""
    caches = replace(host(), l1=4 << 10, l2=256 << 10, has_tiles=False)
    x, y = stored((100, 400), "columns", "float32", 1), stored((400, 333), b, "float32", 2)
    for gap, parts in ((0, 1), (3, 2)):
        product = Product(problem_of(x, y, gap, "float32", "float32"), caches, parts)
        blocking = product.plan.blocking
        assert blocking is not None and blocking.pieces > 1
        assert blocking.column_panels == PANELS_AT_ONCE < blocking.tile.column_panels
        assert blocking.pack_a and blocking.row_panels == blocking.tile.row_panels
        np.testing.assert_allclose(product(x, y), x @ y, rtol=0, atol=400 * 2**-20)


@pytest.mark.parametrize("size", [(400, 300, 8), (399, 301, 9), (131, 70, 3)])
def test_result_written_row_by_row(size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = stored((m, k), "rows", "float32", 1), stored((k, n), "rows", "float32", 2)
    blocking = GemmPlan.of(problem_of(a, b, 5, "float32", "float32"), host(), 2).blocking
    assert blocking is not None and blocking.along_rows
    check(*size, layout=Layout(gap=5), parts=2)
    check(*size, layout=Layout("columns", "columns"), parts=3, dtype="float64")


def test_rows_that_crowd_in_the_cache_are_read_by_low_tiles() -> None:
    square = np.ones((512, 512))
    given = problem_of(square, square, 0, "float64", "float64")
    caches = replace(host(), l1=48 << 10, vector_bytes=64, vector_registers=32)
    blocking = GemmPlan.of(given, caches, 2).blocking
    assert blocking is not None and not blocking.pack_a and blocking.tile.rows <= 8
    wide = replace(given, a=replace(given.a, row=513))
    blocking = GemmPlan.of(wide, caches, 2).blocking
    assert blocking is not None and not blocking.pack_a and blocking.tile.rows > 8


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tiles_ask_for_all_of_the_next_panel_that_was_packed_early(dtype: str) -> None:
    a, b = stored((128, 384), "rows", dtype, 1), stored((384, 200), "rows", dtype, 2)
    given = problem_of(a, b, 0, dtype, "float32")
    blocking = GemmPlan.of(given, host(), 2).blocking
    assert blocking is not None and not blocking.fetches
    given = replace(given, b=replace(given.b, is_packed=True))
    blocking = GemmPlan.of(given, host(), 2).blocking
    assert blocking is not None and blocking.fetches and not blocking.along_rows
    asked = blocking.tile.row_panels * blocking.steps * blocking.fetched_bytes
    assert asked >= blocking.b_panel * given.itemsize


def test_no_depth_gives_zeros() -> None:
    for size in [(3, 5, 0), (1, 5, 0), (5, 1, 0), (40, 70, 0)]:
        check(*size)


def test_nothing_to_compute() -> None:
    for size in [(0, 4, 3), (4, 0, 3), (0, 0, 0)]:
        assert check(*size) == "empty"


def bias_and_relu(f: Function, vector: Vector, sums: str, i: str, j: str) -> str:
    """max(C[i, j] + bias[j], 0), counting how often each element is finished."""
    count = f.emit(f"mul i64 {i}, {WIDE}")
    place = f.offset("%counts", "float", f.emit(f"add i64 {count}, {j}"))
    seen = f.emit(f"load {vector.text}, ptr {place}, align 4")
    more = f.emit(f"fadd {vector.text} {seen}, {f.constant(vector, 1)}")
    f.do(f"store {vector.text} {more}, ptr {place}, align 4")
    bias = f.emit(f"load {vector.text}, ptr {f.offset('%bias', 'float', j)}, align 4")
    total = f.emit(f"fadd {vector.text} {sums}, {bias}")
    return f.intrinsic("maximum", vector, total, f.constant(vector, 0))


WIDE = 512


@pytest.mark.parametrize("device", ["native", "avx2", "small caches"])
@pytest.mark.parametrize(
    "size",
    [(4, 4, 4), (1, 99, 30), (99, 1, 30), (20, 40, 0), (97, 101, 103), (65, 130, 300), (3, 10, 8)],
)
def test_epilogue_is_applied_once(size: tuple[int, int, int], device: str) -> None:
    m, n, k = size
    for how in ("rows", "columns"):
        a, b = stored((m, k), how, "float32", 1), stored((k, n), how, "float32", 2)
        bias = stored((1, n), "rows", "float32", 3)[0]
        extra = [("ptr", "%bias"), ("ptr noalias", "%counts")]
        problem = problem_of(a, b, 0, "float32", "float32")
        for parts in (1, 3):
            narrow = replace(host(), **NARROW[device])
            product = Product(problem, narrow, parts, bias_and_relu, extra)
            counts = np.zeros((m, WIDE), np.float32)
            got = product(a, b, [bias, counts])
            want = np.maximum(a.astype(np.float64) @ b + bias, 0)
            np.testing.assert_allclose(got, want, atol=1e-4 * max(k, 1) ** 0.5)
            assert np.all(counts[:, :n] == 1) and np.all(counts[:, n:] == 0)


def test_epilogue_gives_another_dtype() -> None:
    def positive(f: Function, vector: Vector, sums: str, i: str, j: str) -> str:
        return f.emit(f"fcmp ogt {vector.text} {sums}, {f.constant(vector, 0)}")

    a, b = stored((30, 20), "rows", "float32", 1), stored((20, 45), "rows", "float32", 2)
    product = Product(problem_of(a, b, 0, "float32", "bool"), host(), 1, positive)
    np.testing.assert_array_equal(product(a, b), a @ b > 0)


def test_nan_and_infinity_are_not_skipped() -> None:
    a, b = np.zeros((40, 50), np.float32), np.ones((50, 60), np.float32)
    a[3, 7], b[9, 11], b[10, 12] = np.inf, np.inf, np.nan
    got = Product(problem_of(a, b, 0, "float32", "float32"), host())(a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, a @ b)


def test_scratch_grows_with_the_parts_that_have_work() -> None:
    def plan(size: int, parts: int) -> GemmPlan:
        a, b = (
            stored((size, size), "rows", "float32", 1),
            stored((size, size), "rows", "float32", 2),
        )
        problem = problem_of(a, b, 0, "float32", "float32")
        return GemmPlan.of(problem, host(), parts)

    one, two = plan(512, 1), plan(512, 2)
    assert kind_of(one) == "packed"
    assert two.scratch_bytes == 2 * one.scratch_bytes
    assert one.scratch_bytes % 64 == 0
    assert plan(3, 40).scratch_bytes == plan(3, 1).scratch_bytes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_kind_of_product(dtype: str) -> None:
    """Each way of going through the operands, edges and partial sums included."""
    turned, few = Layout("rows", "columns"), "small caches"
    assert check(17, 13, 19, dtype=dtype, layout=turned, device=few) == "packed"
    assert check(2, 301, 90, dtype=dtype, layout=turned, parts=3, device=few) == "dots"
    assert check(301, 2, 90, dtype=dtype, parts=3, device=few) == "dots"
    kind = "columns" if host().vector_bytes == 64 else "dots"
    assert check(7, 301, 90, dtype=dtype, layout=turned, parts=3, device=few) == kind
    kind = "columns" if host().vector_bytes == 64 else "packed"
    assert check(11, 301, 90, dtype=dtype, layout=turned, parts=3, device=few) == kind
    assert check(3, 301, 90, dtype=dtype, parts=3, device=few) == "streamed"
    assert check(301, 3, 90, dtype=dtype, layout=Layout("columns"), device=few) == "streamed"
    assert check(5, 13, 17, dtype=dtype) == "small"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("m", [1, 8, 11])
def test_rows_that_meet_turned_columns_are_widened_once(m: int, dtype: str) -> None:
    device = replace(host(), **NARROW["no groups"], batch_invariant=True)
    a, b = stored((m, 90), "rows", dtype, 1), stored((90, 301), "columns", dtype, 2)
    plan = GemmPlan.of(problem_of(a, b, 0, dtype, "float32"), device)
    assert plan.blocking is not None and plan.blocking.copies_a
    assert kind_of(plan) == ("columns" if m <= 8 or host().vector_bytes == 64 else "packed")


def test_rows_in_the_first_cache_meet_columns_that_crowd_in_dot_products() -> None:
    """Each pair of columns reads all rows again: that is dear where they are not at hand."""
    device = replace(host(), vector_bytes=64, vector_registers=32, l1=48 << 10)
    for k, kind in ((1024, "dots"), (2048, "columns")):
        a, b = stored((8, k), "rows", "float32", 1), stored((k, 64), "columns", "float32", 2)
        assert kind_of(GemmPlan.of(problem_of(a, b, 0, "float32", "float32"), device)) == kind


@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        ((1, 41, 1024), "float32"), ((8, 24, 2048), "bfloat16"), ((3, 9, 512), "float64"),
        ((1, 70, 33), "bfloat16"), ((5, 19, 7), "bfloat16"), ((13, 33, 70), "float32"),
        ((16, 33, 71), "bfloat16"), ((2, 1025, 8192), "float32"),
        ((3, 19, 45), "float16"), ((8, 70, 128), "float16"), ((13, 33, 71), "float16"),
        ((1, 41, 1024), "float16"), ((1, 1, 61), "float16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("device", ["native", "avx2", "no groups", "small caches"])
def test_turned_columns_are_added_in_the_order_of_rows(
    size: tuple[int, int, int], dtype: str, device: str
) -> None:
    (m, n, k), invariant = size, replace(host(), **{**NARROW[device], "batch_invariant": True})
    a, turned = stored((m, k), "rows", dtype, 1), stored((k, n), "columns", dtype, 2)
    out = "float32" if dtype == "bfloat16" else dtype
    rows = np.ascontiguousarray(turned)
    here, other = (Product(problem_of(a, b, 0, dtype, out), invariant) for b in (turned, rows))
    is_turned = m <= 8 or (device != "avx2" and host().vector_bytes == 64)
    assert kind_of(here.plan) == ("columns" if is_turned else "packed")
    assert here(a, turned).tobytes() == other(a, rows).tobytes()
