"""Arrays to and from PyTorch, JAX and MLX: which share memory, as docs/interop.md says."""

from __future__ import annotations

import numpy as np
import pytest

import rlx

LIBRARIES = {
    "torch": ("torch", "ones", "bfloat16"),
    "jax": ("jax.numpy", "ones", "bfloat16"),
    "mlx": ("mlx.core", "ones", "bfloat16"),
}


def address(array):
    return np.asarray(array).__array_interface__["data"][0]


@pytest.mark.parametrize("name", LIBRARIES)
def test_arguments_of_other_libraries(name):
    module, make, short = LIBRARIES[name]
    library = pytest.importorskip(module)
    x = getattr(library, make)((3, 2))
    assert rlx.jit(lambda x: x.sum())(x) == 6
    assert rlx.jit(lambda tree: tree["x"].sum() + tree["s"])({"x": x, "s": x[0, 0]}) == 7
    half = getattr(library, make)((3,), dtype=getattr(library, short))
    assert rlx.jit(lambda x: x * 2)(half).dtype.name == "bfloat16"
    mine = rlx.asarray(x)
    assert isinstance(mine, rlx.Array)
    assert mine.tolist() == [[1.0, 1.0]] * 3


def test_what_is_an_array_of_rlx_does_not_change():
    torch = pytest.importorskip("torch")
    theirs = torch.ones(3)
    mine = rlx.asarray(theirs)
    theirs[0] = 5
    assert mine.tolist() == [1, 1, 1]


def test_results_share_their_memory():
    torch = pytest.importorskip("torch")
    found = rlx.jit(lambda x: x * 2)(np.ones(100, np.float32))
    assert torch.from_dlpack(found).data_ptr() == address(found)
    assert torch.asarray(found).data_ptr() == address(found)
    assert np.from_dlpack(found).__array_interface__["data"][0] == address(found)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "bool"])
def test_torch_and_rlx_share_arrays_of_all_dtypes(dtype):
    torch = pytest.importorskip("torch")
    mine = rlx.jit(lambda x: x.astype(dtype))(np.arange(6, dtype=np.float32).reshape(2, 3))
    theirs = torch.from_dlpack(mine)
    assert str(theirs.dtype) == f"torch.{dtype}"
    assert theirs.data_ptr() == address(mine)
    back = rlx.numpy.from_dlpack(theirs, copy=False)
    assert back.dtype == mine.dtype and address(back) == theirs.data_ptr()
    assert rlx.asarray(theirs.T).tolist() == mine.T.tolist()
    for empty in (mine[0, 0], mine[:0]):
        assert rlx.asarray(torch.from_dlpack(empty)).tolist() == empty.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("options", [{}, {"copy": False}], ids=str)
def test_capsules_of_floats_that_numpy_does_not_know(dtype, options):
    mine = rlx.numpy.arange(4).astype(dtype)
    jax = pytest.importorskip("jax")

    class Given:
        def __dlpack__(self, **_):
            return mine.__dlpack__(**options)

        def __dlpack_device__(self):
            return mine.__dlpack_device__()

    found = jax.dlpack.from_dlpack(Given())
    assert found.dtype.name == dtype and found.tolist() == [0, 1, 2, 3]


def test_half_precision_arrays_of_mlx():
    mx = pytest.importorskip("mlx.core")
    for x in (mx.ones((2, 3)).T, mx.ones(()), mx.ones((0, 3))):
        assert rlx.asarray(x.astype(mx.bfloat16)).tolist() == x.tolist()


def test_what_torch_does_not_give_says_so():
    torch = pytest.importorskip("torch")
    for x in (torch.ones(2, requires_grad=True), torch.ones(2, device="meta")):
        for take in (rlx.asarray, rlx.jit(lambda x: x * 2), rlx.numpy.from_dlpack):
            with pytest.raises(rlx.ArgumentError, match="does not give its memory") as caught:
                take(x)
            assert "x.detach() of one with a gradient" in caught.value.fix


def test_views_that_negate_are_not_read_without_their_sign():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1j]).conj().imag
    assert x.is_neg() and rlx.asarray(x.resolve_neg()).tolist() == [-1]
    for take in (rlx.asarray, rlx.jit(lambda x: x * 2), rlx.numpy.from_dlpack):
        with pytest.raises(rlx.ArgumentError, match="negates what lies there") as caught:
            take(x)
        assert "x.resolve_neg()" in caught.value.fix


@pytest.mark.parametrize("x", [3, None, [1.0], np.float32(3)])
def test_what_does_not_speak_dlpack_is_no_array_of_a_library(x):
    for copy in (None, False):
        with pytest.raises(rlx.ArgumentError, match="it has no `__dlpack__`"):
            rlx.numpy.from_dlpack(x, copy=copy)


def test_keys_of_jax_are_no_arrays():
    jax = pytest.importorskip("jax")
    with pytest.raises(rlx.DtypeError, match=r"a PRNGKeyArray does not make an array.*key_data"):
        rlx.asarray(jax.random.key(0))


def test_jax_and_mlx_read_results():
    found = rlx.jit(lambda x: x * 2)(np.ones(3, np.float32))
    for module in ("jax.numpy", "mlx.core"):
        library = pytest.importorskip(module)
        assert library.array(found).tolist() == [2, 2, 2]


TAKERS = """
torch.as_tensor torch.tensor torch.asarray torch.from_dlpack numpy.asarray numpy.array
numpy.from_dlpack jax.numpy.asarray jax.numpy.array
""".split()
WAYS = {
    "jit": rlx.jit,
    "vmap": lambda f: rlx.jit(rlx.vmap(f)),
    "grad": lambda f: rlx.jit(rlx.grad(f)),
    "scan": lambda f: rlx.jit(lambda xs: rlx.scan(lambda carry, x: (carry, f(x)), 0.0, xs)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TAKERS)
def test_other_libraries_get_no_numbers_of_a_traced_tensor(name, way):
    module, _, function = name.rpartition(".")
    take = getattr(pytest.importorskip(module), function)

    def of_user(x):
        return take(x)

    for shape in ((2,), (2, 3)) if way != "grad" else ((),):
        with pytest.raises(rlx.ConcretizationError, match="needs the numbers") as caught:
            WAYS[way](of_user)(np.ones(shape, "float32"))
        assert caught.value.fix.startswith("use rlx.numpy instead of")
        assert "test_interop_arrays.py" in str(caught.value)
        assert "in of_user      return take(x)" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "text",
    [
        "torch.stack([x, x])",
        "torch.from_numpy(x)",
        "torch.sin(x)",
        "torch.ones(2) + x",
        "memoryview(x)",
        "numpy.fromiter(x, float)",
        "numpy.frombuffer(x)",
    ],
)
def test_libraries_that_know_no_tensors_get_no_numbers(text, way):
    known = {"torch": pytest.importorskip("torch"), "numpy": np}
    by_library = eval(f"lambda x: {text}", known)

    def of_user(x):
        return by_library(x if x.shape else x[None])

    with pytest.raises(rlx.ConcretizationError, match=r"numbers.* while `.*` is traced") as caught:
        WAYS[way](of_user)(np.ones((2, 2) if way in ("vmap", "scan") else (), "float32"))
    assert caught.value.fix and caught.value.where.split()[0].startswith("<string>:1")


def test_errors_of_the_user_stay_as_they_are():
    def of_user(x):
        raise TypeError(f"{type(x).__name__} is not what I wanted")

    with pytest.raises(TypeError, match=r"^TracedTensor is not what I wanted$") as caught:
        rlx.jit(of_user)(1.0)
    assert type(caught.value) is TypeError
