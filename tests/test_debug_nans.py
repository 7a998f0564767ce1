"""The setting `debug_nans`: compiled code names the first operation that makes a NaN."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import time

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ConfigError, NanError

X = np.array([[1.0, 4.0], [-1.0, 9.0]], np.float32)
ZERO = np.zeros(3, np.float32)
DEVICES = ["cpu", "reference"]
FIX = (
    "  fix    keep the operands where {} is defined; choose them by `where` before it, not the "
    "result after it"
)


@pytest.fixture
def nans():
    with rlx.config.using(debug_nans=True):
        yield


def told(fn, *args) -> str:
    """The text of the error; the line numbers of this file become N."""
    with pytest.raises(NanError) as caught:
        fn(*args)
    return re.sub(r"(test_debug_nans\.py):\d+", r"\1:N", str(caught.value))


def logs(x):
    y = x * 2.0
    z = rnp.log(y)
    return rnp.sum(z)


@pytest.mark.parametrize("device", DEVICES)
def test_the_op_the_line_and_the_operands_are_named(nans, device):
    wanted = """
        log gives nan at [1, 0] of f32[2, 2]
          where  test_debug_nans.py:N in logs      z = rnp.log(y)
                 operand 0: f32[2, 2], -2.0 at [1, 0], from -2.0 to 18.0
        """
    text = told(rlx.jit(logs, device=device), X)
    assert text == inspect.cleandoc(wanted) + "\n" + FIX.format("log")


def test_eager_code_is_looked_at_too(nans):
    assert "log gives nan at [1, 0]" in told(logs, X)
    assert "z = rnp.log(y)" in told(rlx.grad(logs), X)


def sigmoid(x):
    small = rnp.exp(-x)
    result = 1.0 / (1.0 + small)
    return result.sum()


@pytest.mark.parametrize("wrap", [rlx.jit, lambda fn: fn])
def test_in_a_gradient_the_line_is_that_of_the_forward_op(nans, wrap):
    given = np.array([1.0, -100.0], np.float32)  # exp gives an infinity, its slope is used times 0
    assert float(wrap(sigmoid)(given)) == pytest.approx(1 / (1 + np.exp(-1)))
    text = told(wrap(rlx.grad(sigmoid)), given)
    assert text.startswith("mul gives nan at [1] of f32[2]")
    assert "test_debug_nans.py:N in sigmoid      small = rnp.exp(-x)" in text
    assert "inf at [1], from " in text and FIX.format("mul") in text
    with rlx.config.using(debug_infs=True):
        text = told(wrap(rlx.grad(sigmoid)), given)
        assert text.startswith("exp gives inf at [1]") and "small = rnp.exp(-x)" in text


def in_scan(x):
    def step(total, row):
        part = rnp.log(row)
        return total + part, part

    return rlx.scan(step, rnp.zeros(2), x)[0].sum()


def in_while(x):
    def step(state):
        i, y = state
        part = rnp.log(y)
        return i + 1, part

    return rlx.while_loop(lambda state: state[0] < 3, step, (0, x))[1].sum()


def in_branch(x):
    def branch(y):
        part = rnp.log(y)
        return part

    return rlx.cond(x[0, 0] > 0, branch, lambda y: y, x).sum()


def in_call(x):
    @rlx.jit
    def inner(y):
        part = rnp.log(y)
        return part * part

    return inner(x).sum()


def in_checkpoint(x):
    def inner(y):
        part = rnp.log(y)
        return part * part

    return rlx.checkpoint(inner)(x).sum()


PROGRAMS = [in_scan, in_while, in_branch, in_call, in_checkpoint]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_inside_of_nested_code(nans, fn):
    assert "part = rnp.log(" in told(rlx.jit(fn), X)
    assert "part = rnp.log(" in told(rlx.jit(rlx.vmap(fn)), X[None])
    if fn is not in_while:  # its number of rounds is not known in reverse
        assert "part = rnp.log(" in told(rlx.jit(rlx.grad(fn)), X)
    good = np.exp(np.exp(np.exp(np.abs(X[0])[None] / 9)))
    np.asarray(rlx.jit(fn)(good))


def test_branches_that_are_not_taken_do_not_count(nans):
    fn = rlx.jit(in_branch)
    fn(np.array([[-1.0]], np.float32))
    with pytest.raises(NanError):
        fn(np.array([[1.0, -1.0]], np.float32))


def test_members_of_a_batch_that_do_not_take_a_branch_do_not_count(nans):
    def chosen(x):
        return rlx.cond(x > 0, rnp.log, lambda y: rnp.log(-y) * 2, x)

    def repeated(x):  # negative numbers in no round
        step = lambda state: (rnp.log(state[0]), state[1] + 1)  # noqa: E731
        return rlx.while_loop(lambda state: state[1] < (x > 0), step, (x, 0))[0]

    x = np.array([-2.0, 1.0, 4.0], np.float32)
    expected = np.log(np.abs(x)) * [2, 1, 1], np.where(x > 0, np.log(np.abs(x)), x)
    batch = rlx.jit(lambda x: (rlx.vmap(chosen)(x), rlx.vmap(repeated)(x)))
    np.testing.assert_allclose(np.asarray(batch(x)), expected, rtol=1e-6)
    np.testing.assert_allclose(rlx.jit(rlx.vmap(rlx.grad(chosen)))(x), [-1, 1, 0.25], rtol=1e-6)
    assert "log gives nan" in told(rlx.jit(rlx.vmap(lambda x: rlx.cond(x < 0, rnp.log, abs, x))), x)


def test_numbers_written_by_the_user_are_as_meant(nans):
    fn = rlx.jit(lambda x: rnp.where(x > 0, x, rnp.nan).sum())
    assert np.isnan(fn(X))
    assert float(rlx.jit(rnp.nansum)(np.array([1.0, np.nan], np.float32))) == 1


def test_constants_are_looked_at_before_they_are_folded(nans):
    assert "log gives nan" in told(rlx.jit(lambda x: x + rnp.log(rnp.zeros(3) - 1.0)), ZERO)


def test_a_nan_from_an_argument_names_the_argument(nans):
    def plus(x, params):
        return {"sum": x + params["w"]}

    given = np.array([0.0, np.nan, 1.0], np.float32)
    wanted = """
        result 0 of plus is nan at [1], because argument 1 of plus, params["w"] is nan at [1]
          where  test_debug_nans.py:N in plus      return {"sum": x + params["w"]}
          fix    look where the argument comes from
        """
    assert told(rlx.jit(plus), ZERO, {"w": given}) == inspect.cleandoc(wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float64", "complex64"])
def test_every_kind_of_number_is_looked_at(nans, dtype):
    assert "div gives nan" in told(rlx.jit(lambda x: x / x), rnp.zeros(2, dtype))


def test_infinities_are_a_setting_of_their_own():
    invert = lambda x: 1.0 / (x - x)  # noqa: E731
    other = lambda x: (x - x) / (x - x)  # noqa: E731
    with rlx.config.using(debug_nans=True):
        rlx.jit(invert)(X)
    with rlx.config.using(debug_infs=True):
        assert "div gives inf at [0, 0]" in told(rlx.jit(invert), X)
        rlx.jit(other)(X)
        rlx.jit(lambda x: rnp.exp(rnp.where(x > 0, x, -rnp.inf)))(X)
    with rlx.config.using(debug_infs=True, debug_nans=True):
        assert "div gives inf" in told(rlx.jit(invert), X)
        assert "div gives nan" in told(rlx.jit(other), X)


def test_the_setting_changes_functions_that_were_compiled_before():
    fn = rlx.jit(logs)
    plain = fn.lower(X).compile().stages["lir"]
    assert np.isnan(fn(X)) and np.isnan(fn(X))
    rlx.config.debug_nans = True
    try:
        with pytest.raises(NanError):
            fn(X)
        with pytest.raises(NanError):
            fn(X)
        assert float(fn(np.abs(X))) == pytest.approx(float(np.log(np.abs(X) * 2).sum()), rel=1e-5)
    finally:
        rlx.config.debug_nans = False
    with rlx.no_recompile():
        assert np.isnan(fn(X))
    assert fn.lower(X).compile().stages["lir"] == plain and "debug_callback" not in plain


def test_symbolic_sizes(nans):
    fn = rlx.jit(logs, dynamic={"x": {0: "n"}})
    for n in (3, 5):
        given = np.ones((n, 2), np.float32)
        fn(given)
        given[n - 1, 1] = -1
        assert f"log gives nan at [{n - 1}, 1] of f32[{n}, 2]" in told(fn, given)
    assert fn.cache_info().compiles == 1


def test_nothing_runs_twice(nans):
    """The program looks at its own numbers: what it calls is called once."""
    seen = []

    def fn(x):
        rlx.io_callback(lambda a: seen.append(float(a)), None, x[0, 0])
        return rnp.log(x)

    told(rlx.jit(fn), X)
    assert seen == [1.0]


def test_a_block_is_checked_and_what_follows_is_not():
    f = rlx.jit(lambda x: rnp.log(x) / 0.0)
    for infs, kind in ((False, "nan"), (True, "inf")):
        bad = np.array([-1.0 if kind == "nan" else 2.0], np.float32)
        with rlx.debug.nan_check(infs=infs), pytest.raises(rlx.NanError, match=f"gives {kind}"):
            f(bad)
        f(bad)
    with rlx.debug.nan_check():
        assert np.isinf(f(np.array([2.0], np.float32)).item())
    assert not (rlx.config.debug_nans or rlx.config.debug_infs)


def test_wrong_settings_list_what_there_is():
    with pytest.raises(ConfigError, match="there is no setting 'debug_nan'") as caught:
        rlx.config.debug_nan = True  # type: ignore[attr-defined]
    assert "debug_nans, debug_infs" in caught.value.fix
    with pytest.raises(ConfigError, match="RLX_DEBUG_NANS is 'yes'"):
        rlx.config.update(debug_nans="yes")


# -- one function ---------------------------------------------------------------------------------

looked = rlx.jit(lambda x: rnp.log(x).sum(), debug_nans=True)
plain = rlx.jit(lambda x: rnp.log(x).sum())
ROW = np.array([-1.0, 2.0], np.float32)
CALLERS = {
    "alone": looked,
    "nested": rlx.jit(lambda x: looked(x) + 1),
    "of what it calls": rlx.jit(lambda x: plain(x) + 1, debug_nans=True),
    "gradient": rlx.grad(looked),
    "compiled gradient": rlx.jit(rlx.grad(looked)),
    "batch": lambda x: rlx.vmap(looked)(x[None]),
    "loop": rlx.jit(lambda x: rlx.lax.scan(lambda c, y: (c + looked(y), None), 0.0, x[None])[0]),
    "branch": rlx.jit(lambda x: rlx.lax.cond(x[1] > 0, looked, lambda x: x.sum(), x)),
    "precision": rlx.jit(lambda x: looked(x) * 2, precision="mixed_bf16"),
    "linearized": lambda x: rlx.linearize(looked, x)[0],
    "reference": rlx.jit(lambda x: rnp.log(x), debug_nans=True, device="reference"),
    "session": lambda x: rlx.Session("cpu").compile(rnp.log, x, options={"debug_nans": True})(x),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_function_looks_for_nans_of_its_own(caller):
    for _ in range(2):
        with pytest.raises(NanError, match="log gives nan at"):
            CALLERS[caller](ROW)
    assert np.isfinite(np.asarray(CALLERS[caller](abs(ROW)))).all()


def test_what_surrounds_such_a_function_is_not_looked_at():
    around = rlx.jit(lambda x: rnp.sqrt(x)[0] + looked(abs(x)))
    assert np.isnan(around(ROW)) and np.isnan(plain(ROW))
    assert np.isneginf(rlx.jit(lambda x: looked(x) + 1)(ZERO))
    with rlx.disable_jit():
        assert np.isnan(plain(ROW))
        with pytest.raises(NanError, match="log gives nan at"):
            looked(ROW)
    assert not rlx.config.debug_nans


def test_a_setting_that_changes_while_a_function_is_traced_holds_for_its_code():
    changes = [True]

    @rlx.jit
    def log(x):
        if changes:
            rlx.config.debug_nans = changes.pop()
        return rnp.log(x)

    x = np.array([-1.0])
    with rlx.config.using(debug_nans=False):
        with pytest.raises(rlx.NanError):
            log(x)
        rlx.config.debug_nans = False
        assert np.isnan(np.asarray(log(x)))
        rlx.config.debug_nans = True
        with pytest.raises(rlx.NanError):
            log(x)


def test_a_setting_that_changes_during_calls_of_other_threads_holds_afterwards():
    log, x = rlx.jit(lambda x: rnp.log(x)), np.array([-1.0])

    def call():
        while not done.is_set():
            with contextlib.suppress(rlx.NanError):
                log(x)

    for turn in range(10):
        done = threading.Event()
        threads = [threading.Thread(target=call) for _ in range(3)]
        with rlx.config.using(debug_nans=turn % 2 == 1):
            for thread in threads:
                thread.start()
            time.sleep(0.002)
            rlx.config.debug_nans = turn % 2 == 0
            time.sleep(0.002)
            done.set()
            for thread in threads:
                thread.join()
            with pytest.raises(rlx.NanError) if turn % 2 == 0 else contextlib.nullcontext():
                log(x)
