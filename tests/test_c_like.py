"""The renderer of kernels in C-like languages: golden texts, and what holds for all dialects."""

from __future__ import annotations

import re
from textwrap import dedent

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.c_like.dialect import Dialect, Limits
from rlx.backends.c_like.opencl_c import OpenClC
from rlx.backends.c_like.plan import Plan, plan
from rlx.ir.errors import UnsupportedOp
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

TARGET = Target("device", most_ranked=64, has_sort=True, has_symbolic_sizes=False)
F32 = np.ones((6, 40), np.float32)
SQUARE = np.ones((64, 64), np.float32)


def planned(fn, *args, dialect: Dialect | None = None) -> Plan:
    graph = rlx.make_graph(fn)(*args)
    return plan(lower(graph, TARGET).program, dialect or OpenClC())


def test_elementwise_kernel_in_opencl():
    made = planned(lambda x, y: rnp.exp(x) * 2.0 + y, F32, F32)
    (kernel,) = made.kernels
    assert kernel.text == dedent("""\
        __kernel __attribute__((reqd_work_group_size(240, 1, 1)))
        void kernel_0(__global const float *b0, __global const float *b1, __global float *b2) {
            const int i0 = (int)get_global_id(0);
            b2[i0] = ((exp(b0[i0]) * 2.0f) + b1[i0]);
        }""")


def test_reduction_in_opencl():
    made = planned(lambda x: rnp.max(x, axis=1), F32)
    assert made.text == dedent("""\
        #pragma OPENCL FP_CONTRACT OFF

        static inline float max_f32(float x, float y) {
            return (((x > y) || (x != x)) ? x : y);
        }

        __kernel __attribute__((reqd_work_group_size(6, 1, 1)))
        void kernel_0(__global const float *b0, __global float *b1) {
            const int i0 = (int)get_global_id(0);
            float r0 = (-INFINITY);
            for (int k0 = 0; k0 < 40; k0 += 1) {
                r0 = max_f32(r0, b0[i0 * 40 + k0]);
            }
            b1[i0] = r0;
        }
        """)


ROWS = np.ones((10, 40), np.float32)


def test_rows_shared_by_a_group():
    made = planned(lambda x: x / x.sum(axis=1, keepdims=True), ROWS, dialect=OpenClC(Limits(32)))
    (kernel,) = made.kernels
    assert kernel.text.endswith("""
    {
        float r0 = (-0.0f);
        for (int n0 = thread; n0 < 40; n0 += 32) {
            r0 = (r0 + b0[row * 40 + n0]);
        }
        part_f32[thread] = r0;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread < 16) {
            part_f32[thread] = (part_f32[thread] + part_f32[thread + 16]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread < 8) {
            part_f32[thread] = (part_f32[thread] + part_f32[thread + 8]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread < 4) {
            part_f32[thread] = (part_f32[thread] + part_f32[thread + 4]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread < 2) {
            part_f32[thread] = (part_f32[thread] + part_f32[thread + 2]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread < 1) {
            part_f32[thread] = (part_f32[thread] + part_f32[thread + 1]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const float r1 = (0.0f + part_f32[0]);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (thread == 0) {
            b2[row] = r1;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    {
        for (int n1 = thread; n1 < 40; n1 += 32) {
            b1[row * 40 + n1] = (b0[row * 40 + n1] / b2[row]);
        }
    }
}""")


def test_rows_of_a_thread():
    dialect = OpenClC(Limits(serial=True))
    made = planned(lambda x: x / x.sum(axis=1, keepdims=True), ROWS, dialect=dialect)
    assert len(made.kernels) == 1 and "barrier" not in made.text


def test_products_are_tiled():
    made = planned(lambda x, y: rnp.tanh(x @ y.T), F32, F32)
    (kernel,) = made.kernels
    arrays = {a.name: a.count for a in kernel.signature.locals}
    assert arrays == {"left": 16 * 8, "right": 16 * 8}
    assert kernel.signature.threads == (64, 1, 1)
    assert "sum0_0 = fma(left0, right0, sum0_0);" in kernel.text
    assert "b2[row * 6 + column] = tanh(sums[r * 1 + c]);" in kernel.text


def test_products_without_shared_memory():
    x = np.ones((20, 40), np.float32)
    dialect = OpenClC(Limits(shares=False))
    (kernel,) = planned(lambda x, y: x @ y.T, F32, x, dialect=dialect).kernels
    assert not kernel.signature.locals and "barrier" not in kernel.text
    assert "const int column2 = min_i32(" in kernel.text and "sum5_2 = fma(" in kernel.text


@pytest.mark.parametrize("limits", [Limits(), Limits(serial=True, lanes=8)])
def test_what_is_made_of_a_sum_stays_where_the_sum_is(limits: Limits):
    """An epilogue that uses the sum twice, of a product that fills its tiles."""
    made = planned(lambda x, y: (x @ y.T) * (x @ y.T), SQUARE, SQUARE, dialect=OpenClC(limits))
    shared = next(line for line in made.text.splitlines() if re.search(r"b2\[.*= \(", line))
    assert re.search(r"b2\[row .* = \(sums\[(.*)\] \* sums\[\1\]\);", shared), shared
    made = planned(lambda x, y: rnp.square(1 + x @ y.T), SQUARE, SQUARE, dialect=OpenClC(limits))
    lines = [line.strip() for line in made.text.splitlines()]
    at = next(n for n, line in enumerate(lines) if re.match(r"const float t\d+ = .*sums", line))
    assert lines[at - 1] in ("{", "const int column = first_column + c;"), lines[at - 1]


def test_products_on_a_processor_are_in_vectors():
    dialect = OpenClC(Limits(serial=True, lanes=8))
    made = planned(lambda x, y: x @ y.T, F32, np.ones((20, 40), np.float32), dialect=dialect)
    (kernel,) = made.kernels
    assert kernel.signature.threads == (1, 1, 1)
    assert "s5_1 = mad(f5, v1, s5_1);" in kernel.text


def test_what_is_outside_is_not_read():
    made = planned(lambda x: rnp.pad(x, ((0, 0), (3, 3))), F32)
    (kernel,) = made.kernels
    text = kernel.text
    assert re.search(r"if \(\((i\d) - 3\) >= 0 && \(\1 - 3\) < 40\) \{\n +g0 = b0\[", text), text


def test_equal_kernels_are_written_once():
    def f(x):
        for _ in range(3):
            x = rnp.cumsum(x, axis=1)
        return x

    made = planned(f, F32)
    assert sum(map(len, made.launches.values())) == 3
    first, *others = made.kernels
    assert len(others) <= 2  # the first reads an input, the last writes an output
    assert first.name == "kernel_0"


def test_bodies_of_loops_take_offsets():
    def f(xs):
        return rlx.scan(lambda c, x: (c + x, c * x), rnp.zeros(40, np.float32), xs)

    made = planned(f, F32)
    assert any(p.has_offset for k in made.kernels for p in k.signature.parameters)


@pytest.mark.parametrize("groups", [(4, 4, 65535), (100, 65535, 65535)])
def test_many_groups_go_along_several_axes(groups):
    dialect = OpenClC(Limits(threads=16, groups=groups))
    made = planned(lambda x: x + 1.0, np.ones((300, 7), np.float32), dialect=dialect)
    for launches in made.launches.values():
        for launch in launches:
            assert all(n <= most for n, most in zip(launch.groups, groups, strict=True))


def test_long_sorts_count_places_in_64_bits():
    """Where a run ends, and two places added, may be twice as far as the row is long."""
    for length, kind in ((1 << 20, "int"), ((1 << 30) + 1, "long")):
        made = planned(rnp.sort, np.broadcast_to(np.int8(0), (length,)))
        assert all(f"const {kind} other = " in kernel.text for kernel in made.kernels)


@pytest.mark.parametrize("threads", [16, 100, 256])
def test_groups_are_no_larger_than_they_may_be(threads: int):
    def f(x):
        return x @ x.T, x / x.sum(1, keepdims=True), rnp.cumsum(x, axis=1), rnp.exp(x), x.sum()

    made = planned(f, np.ones((70, 300), np.float32), dialect=OpenClC(Limits(threads)))
    for kernel in made.kernels:
        assert np.prod(kernel.signature.threads) <= threads, kernel.text


def test_instructions_that_a_language_lacks_are_named():
    class Poor(OpenClC):
        def template(self, name, dtype, result):
            return None if name == "tanh" else super().template(name, dtype, result)

    with pytest.raises(UnsupportedOp, match=r"tanh.*no such instruction for float32"):
        planned(rnp.tanh, F32, dialect=Poor())


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "float64"])
def test_literals_read_back_as_the_same_number(dtype):
    dialect = OpenClC()
    info = rnp.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    for number in (info.min, info.max, 0, 1):
        text = dialect.literal(np.dtype(dtype), np.dtype(dtype).type(number))
        plain = re.sub(r"\((?:char|uchar)\)|u?L|u", "", text)
        assert eval(plain) == number
