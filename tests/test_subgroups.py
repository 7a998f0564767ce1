"""Long reductions where threads of a subgroup pass numbers to each other."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_texts import DTYPES, numbers, reductions, rows_of

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.backends.c_like.cuda_c import CudaC
from rlx.backends.c_like.dialect import Dialect, Limits
from rlx.backends.c_like.executable import kernel_target
from rlx.backends.c_like.opencl_c import OpenClC
from rlx.backends.c_like.plan import plan
from rlx.backends.webgpu import adapters
from rlx.backends.webgpu.backend import WebgpuBackend
from rlx.backends.webgpu.wgsl import Wgsl
from rlx.ir.interpret import interpret
from rlx.lower.pipeline import lower

LONG = numbers(10, 400)


def text_of(dialect: Dialect, x: np.ndarray = LONG) -> str:
    """The kernel for the sums of rows."""
    graph = rlx.make_graph(lambda x: x.sum(1))(x)
    return plan(lower(graph, kernel_target("device")).program, dialect).text


# -- texts ----------------------------------------------------------------------------------------


def test_one_number_of_each_warp_goes_to_shared_memory():
    assert text_of(CudaC(Limits(64, subgroup=32))) == dedent("""\
        extern "C" __global__ void __launch_bounds__(64)
        kernel_0(const float *b0, float *b1) {
            __shared__ float part_f32[2];
            const int row = (int)blockIdx.x;
            const int thread = (int)threadIdx.x;
            {
                float r0 = (-0.0f);
                for (int n0 = thread; n0 < 400; n0 += 64) {
                    r0 = (r0 + b0[row * 400 + n0]);
                }
                const float r1 = (float)__shfl_xor_sync(0xffffffffu, r0, 16);
                r0 = (r0 + r1);
                const float r2 = (float)__shfl_xor_sync(0xffffffffu, r0, 8);
                r0 = (r0 + r2);
                const float r3 = (float)__shfl_xor_sync(0xffffffffu, r0, 4);
                r0 = (r0 + r3);
                const float r4 = (float)__shfl_xor_sync(0xffffffffu, r0, 2);
                r0 = (r0 + r4);
                const float r5 = (float)__shfl_xor_sync(0xffffffffu, r0, 1);
                r0 = (r0 + r5);
                if (((int)threadIdx.x % 32) == 0) {
                    part_f32[((int)threadIdx.x / 32)] = r0;
                }
                __syncthreads();
                float r6 = 0.0f;
                for (int s = 0; s < 2; s += 1) {
                    r6 = (r6 + part_f32[s]);
                }
                __syncthreads();
                if (thread == 0) {
                    b1[row] = r6;
                }
            }
        }
        """)


def test_warps_of_amd():
    text = text_of(CudaC(Limits(256, subgroup=64), "rocm"))
    assert text.count("(float)__shfl_xor(r0, ") == 6 and "part_f32[4];" in text
    # a group that is smaller than a subgroup
    text = text_of(CudaC(Limits(32, subgroup=64), "rocm"))
    assert "__shfl" not in text and "part_f32[32];" in text


def test_all_lanes_pass_a_truth_whatever_is_known_already():
    graph = rlx.make_graph(lambda x: (x > 1).any(1))(LONG)
    text = plan(lower(graph, kernel_target("device")).program, CudaC(Limits(subgroup=32))).text
    assert text.count("= (bool)__shfl") == text.count("__shfl") == 5


@pytest.mark.parametrize("dialect", [CudaC(), Wgsl(), OpenClC(), OpenClC(Limits(subgroup=32))])
def test_where_nothing_is_passed_there_is_a_tree(dialect: Dialect):
    text = text_of(dialect)
    assert "huffle" not in text and "__shfl" not in text and "lane_id" not in text
    assert text.count(dialect.barrier()) == 10


def test_lanes_in_wgsl():
    text = text_of(Wgsl(Limits(64, subgroup=32)))
    assert "@builtin(subgroup_id) subgroup_id: u32," in text
    assert "let r5: f32 = subgroupShuffleXor(r0, 1u);" in text
    assert "if (i32(lane_id) == 0i) {" in text and "part_f32[i32(subgroup_id)] = r0;" in text
    assert text.count("workgroupBarrier();") == 2
    for dtype in ("float64", "int64"):
        assert "huffle" not in text_of(Wgsl(Limits(64, subgroup=32)), LONG.astype(dtype))


# -- WebGPU ---------------------------------------------------------------------------------------


def test_subgroups_whose_size_is_known():
    def width(device: str, vendor: int = 0, features: tuple[str, ...] = ("subgroup",)) -> int:
        info = {"device": device, "vendor_id": vendor}
        return adapters.subgroup(SimpleNamespace(info=info, features=features))

    assert width("NVIDIA H200", 0x10DE) == 32
    assert width("NVIDIA H200", 0x10DE, ()) == 1
    assert width("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005) == 8
    assert width("Intel(R) UHD Graphics 770", 0x8086) == 1


@pytest.mark.skipif(not rlx.Device("vulkan").is_available(), reason=rlx.Device("vulkan").reason)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_on_vulkan(dtype: str, monkeypatch: pytest.MonkeyPatch):
    """With subgroups, as far as the adapter has them, and without."""
    backend = registry.get("vulkan")
    assert isinstance(backend, WebgpuBackend)
    limits, x = backend.limits, rows_of(dtype)
    graph = rlx.make_graph(reductions)(x)
    for width in {limits.subgroup, 1}:
        monkeypatch.setitem(vars(backend), "limits", replace(limits, subgroup=width))
        made = backend.compile(graph, rlx.Array)
        assert ("subgroupShuffleXor" in made.stages["wgsl"]) == (width > 1)
        found = [np.asarray(y) for y in rlx.tree.leaves(made.entry(x))]
        again = [np.asarray(y) for y in rlx.tree.leaves(made.entry(x))]
        assert [y.tobytes() for y in found] == [y.tobytes() for y in again]
        for y, wanted in zip(found, interpret(graph, [x]), strict=True):
            check(y, wanted)


def check(found: np.ndarray, wanted: Any) -> None:
    """Whether numbers are the same but for a few roundings of their dtype."""
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype
    tolerance = 0.0 if wanted.dtype.kind in "biu" else 64 * float(rnp.finfo(wanted.dtype).eps)
    x, y = (n.astype(np.float64) if tolerance else n for n in (found, wanted))
    np.testing.assert_allclose(x, y, tolerance, tolerance)
