"""Options that are texts: what is none of them is refused, and those that are there act."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from fuzz_signatures import Call, calls, extended, scope

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


# -- every text option of every public function -------------------------------------------------

# texts of the user's own: names, messages, files, formulas; and what is read where it is used
WORDS = (
    "name names message reason text string subscripts source file path directory sep separator "
    "axes description tenant cache of"
)
OWN = {*WORDS.split(), "axis_name", "device", "policy"}
CONTAINERS = ("interop.Keys",)  # they hold what JAX gives


def options() -> Iterator[tuple[str, str, str, Callable[[], Any]]]:
    """The function, the option, a word that is right, and a call with one that is wrong."""
    scopes: dict[str, dict[str, Any]] = {}
    for name, known in calls().items():
        for module, call in known:
            if module not in scopes:
                scopes[module] = scope(module)
            space = scopes[module]
            function = eval(call.function, space)
            for place, label, right in words_of(call, function):
                if label not in OWN and name not in CONTAINERS:
                    yield name, label, right, partial(with_wrong, call, function, place, space)


def words_of(call: Call, function: Any) -> Iterator[tuple[int, str, str]]:
    """The place, the name and the word of each argument that is a text."""
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        names = []
    for i, (key, text) in enumerate(extended(call, function).arguments):
        with contextlib.suppress(ValueError, SyntaxError):  # no literal
            right = ast.literal_eval(text)
            if isinstance(right, str):
                yield i, key or (names[i] if i < len(names) else str(i)), right


def with_wrong(call: Call, function: Any, place: int, space: dict[str, Any]) -> Any:
    """Call a function with a word that is none."""
    args, keywords = [], {}
    for i, (key, text) in enumerate(extended(call, function).arguments):
        if i != place and i >= len(call.arguments):
            continue  # defaults stay
        value = "zz" if i == place else eval(text, space)
        if key:
            keywords[key] = value
        else:
            args.append(value)
    return function(*args, **keywords)


def test_a_wrong_word_lists_the_right_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    silent, count = [], 0
    for name, label, right, call in options():
        count += 1
        try:
            call()
            silent.append(f"{name}({label}='zz'): no error")
        except RlxError as error:
            said = f"{error.what} {error.fix}"
            if right not in said or "zz" not in said:
                silent.append(f"{name}({label}='zz'), where {right!r} is right: {said}")
    assert not silent, "\n".join(silent)
    assert count > 150


def test_windows_of_attention_show_keys():
    q = np.ones((1, 4, 1, 2), np.float32)
    for junk in (-1, (1, -2), "x", 1.5, (1, 2, 3)):
        with pytest.raises(
            RlxError, match=r"local_window_size is .*, (not an? (integer|pair)|which)"
        ):
            nn.dot_product_attention(q, q, q, local_window_size=junk)
    assert nn.dot_product_attention(q, q, q, local_window_size=0).shape == q.shape
