"""Options that are texts: what is none of them is refused, and those that are there act."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax, nn
from rlx.ir.errors import RlxError

V, M = np.arange(1.0, 5.0, dtype=np.float32), np.eye(3, dtype=np.float32) + 1
IMAGE, KERNEL = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 2, 2), np.float32)
PAIRED = (((1,), (0,)), ((), ()))
PRODUCTS = {
    "matmul": lambda **k: rnp.matmul(M, M, **k),
    "dot": lambda **k: rnp.dot(M, M, **k),
    "inner": lambda **k: rnp.inner(M, M, **k),
    "vdot": lambda **k: rnp.vdot(V, V, **k),
    "vecdot": lambda **k: rnp.vecdot(V, V, **k),
    "tensordot": lambda **k: rnp.tensordot(M, M, **k),
    "einsum": lambda **k: rnp.einsum("ij,jk", M, M, **k),
    "convolve": lambda **k: rnp.convolve(V, V, **k),
    "correlate": lambda **k: rnp.correlate(V, V, **k),
    "linalg.matmul": lambda **k: rnp.linalg.matmul(M, M, **k),
    "linalg.vecdot": lambda **k: rnp.linalg.vecdot(V, V, **k),
    "linalg.tensordot": lambda **k: rnp.linalg.tensordot(M, M, **k),
    "linalg.multi_dot": lambda **k: rnp.linalg.multi_dot([M, M, M], **k),
    "dot_general": lambda **k: lax.dot_general(M, M, PAIRED, **k),
    "lax.dot": lambda **k: lax.dot(M, M, **k),
    "batch_matmul": lambda **k: lax.batch_matmul(M[None], M[None], **k),
    "conv": lambda **k: lax.conv(IMAGE, KERNEL, (1, 1), "VALID", **k),
    "conv_general": lambda **k: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", **k),
    "conv_transpose": lambda **k: lax.conv_transpose(
        IMAGE.reshape(1, 4, 4, 1), KERNEL.reshape(2, 2, 1, 1), (1, 1), "SAME", **k
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_precision_is_one_of_jaxs_and_changes_nothing(name):
    product = PRODUCTS[name]
    plain = np.asarray(product())
    for known in ("highest", "tensorfloat32", lax.Precision.HIGH, ("default", None)):
        np.testing.assert_array_equal(product(precision=known), plain)
    for junk in ("zz", 3, ("high", "zz"), ["high"], object()):
        with pytest.raises(RlxError, match="precision"):
            product(precision=junk)


def test_every_public_product_with_a_precision_is_here():
    tested = {name.rpartition(".")[2] for name in PRODUCTS}
    tested |= {"conv_general_dilated", "conv_general_dilated_local", "conv_with_general_padding"}
    tested |= {"array_repr", "array_str", "array2string", "conv_general_dilated_patches"}
    tested |= {"ragged_dot", "set_printoptions"}
    found = set()
    for module in (rnp, rnp.linalg, lax, nn):
        for name in dir(module):
            function = getattr(module, name)
            if (
                inspect.isfunction(function)
                and "precision" in inspect.signature(function).parameters
            ):
                found.add(name)
    assert found <= tested


def test_products_give_the_dtype_that_is_asked_for():
    for name, product in PRODUCTS.items():
        if name in ("linalg.multi_dot", "batch_matmul", "conv"):
            continue  # these take none
        assert product(preferred_element_type="float64").dtype == "float64", name


OPTIONS = {
    "take": lambda junk: rnp.take(V, [0], mode=junk),
    "take_along_axis": lambda junk: rnp.take_along_axis(V, np.array([0]), 0, mode=junk),
    "put": lambda junk: rnp.put(V, [0], 1.0, mode=junk),
    "put_along_axis": lambda junk: rnp.put_along_axis(V, np.array([0]), 1.0, 0, mode=junk),
    "choose": lambda junk: rnp.choose([0], [V], mode=junk),
    "ravel_multi_index": lambda junk: rnp.ravel_multi_index([[0]], [2], mode=junk),
    "ravel_multi_index order": lambda junk: rnp.ravel_multi_index([[0]], [2], order=junk),
    "at get": lambda junk: rlx.array(V).at[0].get(mode=junk),
    "at set": lambda junk: rlx.array(V).at[0].set(1.0, mode=junk),
    "pad": lambda junk: rnp.pad(V, 1, mode=junk),
    "searchsorted side": lambda junk: rnp.searchsorted(V, V, side=junk),
    "searchsorted method": lambda junk: rnp.searchsorted(V, V, method=junk),
    "quantile": lambda junk: rnp.quantile(V, 0.5, method=junk),
    "percentile": lambda junk: rnp.percentile(V, 50.0, method=junk),
    "reshape": lambda junk: rnp.reshape(M, -1, order=junk),
    "ravel": lambda junk: rnp.ravel(M, order=junk),
    "convolve": lambda junk: rnp.convolve(V, V, mode=junk),
    "meshgrid": lambda junk: rnp.meshgrid(V, V, indexing=junk),
    "qr": lambda junk: rnp.linalg.qr(M, mode=junk),
    "eigh": lambda junk: rnp.linalg.eigh(M, UPLO=junk),
    "norm": lambda junk: rnp.linalg.norm(M, ord=junk),
    "fft": lambda junk: rnp.fft.fft(V, norm=junk),
    "conv padding": lambda junk: lax.conv(IMAGE, KERNEL, (1, 1), junk),
    "interp": lambda junk: rnp.interp(V, V, V, left=junk),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_junk_is_refused(name):
    for junk in ("zz", ""):
        with pytest.raises((RlxError, TypeError, ValueError)):
            OPTIONS[name](junk)


def test_windows_of_attention_show_keys():
    q = np.ones((1, 4, 1, 2), np.float32)
    for junk in (-1, (1, -2), "x", 1.5, (1, 2, 3)):
        with pytest.raises(
            RlxError, match=r"local_window_size is .*, (not an? (integer|pair)|which)"
        ):
            nn.dot_product_attention(q, q, q, local_window_size=junk)
    assert nn.dot_product_attention(q, q, q, local_window_size=0).shape == q.shape
