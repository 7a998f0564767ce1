"""The device xla: every op as its reference, programs, derivatives, errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from audit import COMPLETE, Case, all_close, graph_of, tolerance_of, type_of
from hypothesis import Phase, given, strategies as st
from libraries import OURS
from programs import Program, any_program, same, some

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.ir.builder import build
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret
from rlx.ir.op import Op
from rlx.runtime.supports import SWEPT

if not registry.availability("xla").is_available:
    pytest.skip(registry.availability("xla").reason, allow_module_level=True)

from rlx.backends.disk import DiskCache
from rlx.backends.xla import program
from rlx.backends.xla.program import XlaProgram

SESSION = rlx.Session("xla")
X = np.array([1.0, -2.0, 3.0], np.float32)


# -- every op -------------------------------------------------------------------------------------


def chosen(op: Op) -> Iterator[tuple[Case, str, list[np.ndarray]]]:
    """The samples of an op, each in another dtype; in all of them for `AUDIT=all`."""
    for number, sample in enumerate(op.sample_list):
        case = Case(op, sample)
        taken = list(case.swept(SWEPT))
        few = taken[number % len(taken) :: 5][:1] if taken else [("", case.arrays())]
        for name, arrays in taken if COMPLETE else few:
            yield case, name, arrays


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.sample_list])
def test_every_op_is_its_reference(name: str):
    """All samples of an op are one program: XLA takes as long for one as for ten."""
    cases = list(chosen(OPS[name]))
    given = [x for _, _, arrays in cases for x in arrays]

    def every(*xs):
        rest = iter(xs)
        made = [case.op.apply([next(rest) for _ in a], case.attrs) for case, _, a in cases]
        return [y for results in made for y in results]

    graph = build(every, [type_of(x) for x in given], name)
    options = rlx.CompileOptions(tier="fast")
    found = SESSION.compile(graph, options=options)(*given)
    rest = iter(found if isinstance(found, tuple) else [found])
    for case, dtype, arrays in cases:
        alone = graph_of(case.op, arrays, case.attrs)
        with np.errstate(all="ignore"):
            wanted = interpret(alone, arrays)
        got = [next(rest).host() for _ in wanted]
        tolerance = tolerance_of(*alone.param_types, *alone.result_types)
        all_close(got, wanted, tolerance, f"{name} {dtype}")


# -- programs -------------------------------------------------------------------------------------


def both(fn, *args):
    """What a function gives on xla, and on the cpu, as trees of NumPy arrays."""
    found = rlx.jit(fn, device="xla", tier="fast")(*args)
    assert all(x.device == "xla" for x in rlx.tree.leaves(found))
    return rlx.device_get(found), rlx.device_get(rlx.jit(fn, device="cpu")(*args))


def same_trees(found, wanted, tolerance):
    for x, y in zip(rlx.tree.leaves(found), rlx.tree.leaves(wanted), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, tolerance, tolerance)


def branches_and_loops(x):
    """Control flow of each kind."""

    def line(carry, row):
        carry = rlx.cond(carry > 0, lambda: carry * row.sum(), lambda: row.prod() - carry)
        return carry, rnp.tanh(carry) * row

    total, rows = rlx.scan(line, x[0, 0], x, reverse=True)
    doubled = rlx.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 1.5, s[1] + 1), (rows, 0))[0]
    chosen = rlx.switch(2, [rnp.sin, rnp.cos, rnp.exp], doubled.mean())
    again = rlx.checkpoint(lambda y: rnp.sin(y) * y)(total)
    return chosen + again + rlx.fori_loop(0, 4, lambda i, y: y + rows[i % 3].sum(), 0.0)


def test_control_flow_and_its_derivatives():
    x = np.random.default_rng(1).normal(size=(3, 4))

    def forward_only(x):  # reverse mode knows no while loop
        return rlx.jvp(branches_and_loops, (x,), (rnp.cos(x),))

    same_trees(*both(forward_only, x), 1e-12)
    with pytest.raises(rlx.GradientError):
        rlx.jit(rlx.grad(branches_and_loops), device="xla")(x)

    def loss(x):
        rows = rlx.scan(lambda c, r: (rnp.sin(c * r), c), x[0], x)[1]
        return rlx.checkpoint(lambda y: (rnp.sin(y) * y).sum())(rows)

    same_trees(*both(lambda x: (rlx.grad(loss)(x), rlx.hessian(loss)(x)), x), 1e-12)
    same_trees(*both(rlx.vmap(lambda x: rlx.cond(x > 0, rnp.exp, rnp.sin, x)), x[0]), 1e-12)


def test_random_numbers_are_bit_for_bit_those_of_the_cpu():
    def draws(seed):
        key = rlx.random.key(seed)
        return rlx.random.bits(key, (5,)), rlx.random.uniform(rlx.random.fold_in(key, 3), (7,))

    for x, y in zip(*both(draws, 5), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_model_trains_as_on_the_cpu():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 8, 8, 1)).astype(np.float32), np.array([1, 0])
    keys = rlx.random.split(rlx.random.key(0), 2)
    conv, norm = rlx.nn.Conv(1, 3, (3, 3), key=keys[0]), rlx.nn.LayerNorm(3)
    model = (conv, norm, rlx.nn.Linear(3, 2, key=keys[1]))
    adam = rlx.optim.adam(1e-2)

    def loss(model, x, y):
        conv, norm, out = model
        h = norm(rlx.nn.max_pool(rlx.nn.relu(conv(x)), (2, 2))).mean((1, 2))
        return rlx.nn.losses.cross_entropy(out(h), y).mean()

    def step(model, state, x, y):
        value, slopes = rlx.value_and_grad(loss)(model, x, y)
        updates, state = adam.update(slopes, state, model)
        return rlx.optim.apply_updates(model, updates), state, value

    same_trees(*both(step, model, adam.init(model), x, y), 1e-5)


@some(6, phases=[Phase.generate])
@given(st.integers(0, 2**32).map(any_program))
def test_random_programs(program: Program):
    fn = program.on(OURS)
    found = rlx.jit(fn, device="xla", tier="fast")(*program.inputs)
    same([rlx.array(x.host()) for x in found], fn(*map(rlx.array, program.inputs)), program)


# -- manners --------------------------------------------------------------------------------------


def test_the_report_tells_how_each_op_runs():
    def fn(x):
        return rnp.linalg.eigvals(rlx.nn.softmax(x) @ x)

    report = rlx.jit(fn, device="xla").lower(np.eye(3)).compile().report()
    assert "dot_general: native" in report and "softmax: expanded" in report
    assert "eig: library: on the host" in report


def test_python_functions_are_called_and_their_errors_come_out():
    seen = []

    def fn(x):
        rlx.debug.callback(lambda v: seen.append(v.tolist()), x * 2)
        return rlx.pure_callback(lambda v: np.asarray(v) * 3, rlx.spec((3,), "float64"), x)

    assert rlx.jit(fn, device="xla")(X.astype(float)).tolist() == [3, -6, 9]
    assert seen == [[2, -4, 6]]

    def bad(x):
        return rlx.pure_callback(lambda v: 1 // 0, rlx.spec((3,), "float32"), x)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            rlx.jit(bad, device="xla")(X)


def test_an_error_of_python_comes_out_of_the_call_it_belongs_to():
    def positive(v):
        if v < 0:
            raise ZeroDivisionError
        return v

    f = rlx.jit(lambda x: rlx.pure_callback(positive, rlx.spec((), "float32"), x), device="xla")

    def outcomes(x):
        for _ in range(100):
            try:
                yield f(np.float32(x)).item()
            except ZeroDivisionError:
                yield "error"

    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda x: set(outcomes(x)), [1, -1, 2, -2])
    assert list(found) == [{1.0}, {"error"}, {2.0}, {"error"}]


def test_memory_that_is_not_there_is_an_error_and_work_goes_on():
    huge = rlx.jit(lambda x: rnp.cumsum(rnp.broadcast_to(x, (1 << 43,))), device="xla")
    with pytest.raises(rlx.DeviceMemoryError, match="has not enough memory"):
        huge(np.float32(1)).block_until_ready()
    assert rlx.jit(lambda x: x + 1, device="xla")(X).tolist() == [2, -1, 4]


def test_what_jax_is_set_to_stays_and_does_not_matter():
    before = jax.config.jax_enable_x64
    x = rlx.jit(lambda x: x * 2, device="xla")(np.arange(3.0))
    assert (x.dtype, jax.config.jax_enable_x64) == (np.float64, before)
    with jax.enable_x64(not before):
        assert rlx.jit(lambda x: x * 2, device="xla")(x).tolist() == [0, 4, 8]


def test_donated_memory_is_used_again_unless_somebody_has_it():
    step = rlx.jit(lambda w, x: w + x, donate_argnums=0, device="xla")
    x = rlx.device_put(X, "xla")
    w = step(rlx.device_put(X, "xla"), x)
    place = w._data.unsafe_buffer_pointer()
    w = step(w, x)
    assert w._data.unsafe_buffer_pointer() == place
    other, seen = w.copy(), w.host()
    assert step(w, x).tolist() == [4, -8, 12]
    assert other.tolist() == seen.tolist() == [3, -6, 9]


def test_an_array_may_be_written_to_once_it_was_copied():
    memory, x = registry.get("xla").memory, np.zeros(1 << 20, np.float32)
    assert memory
    for number in range(20):
        x[:] = number
        there = memory.from_host(x)
        x[:] = -1
        assert (memory.to_host(there) == number).all()


def test_a_program_is_for_known_sizes():
    with pytest.raises(rlx.SymbolicSizeError, match="compiles for known sizes only"):
        rlx.jit(lambda x: x.sum(), device="xla", dynamic={"x": {0: "n"}})(X)
    total = rlx.jit(lambda x: x.sum(), device="xla", dynamic={"x": {0: "n"}}, specialize=True)
    assert [total(X[:n]).item() for n in (1, 3)] == [1, 2]


def test_platforms_are_parts_of_the_device():
    assert rlx.Device("tpu") == "xla:tpu" and rlx.Device("xla:cpu").is_available()
    x = rlx.device_put(X, "xla:cpu")
    assert (x + 1).device == rlx.Device("xla:cpu")
    assert "is no number" in rlx.Device("xla:cpu:one").reason
    assert "JAX has" in rlx.Device("xla:cpu:99").reason


def test_a_product_with_a_flag_hides_no_infinity():
    flags, x = np.array([True, False, False]), np.array([np.inf, np.inf, np.nan], np.float32)
    found = rlx.jit(lambda c, x: c.astype("float32") * x, device="xla")(flags, x)
    np.testing.assert_array_equal(found, [np.inf, np.nan, np.nan])


def test_complex_numbers_with_nan_come_last_in_order():
    x = np.array([complex(a, b) for a in (np.nan, 1, -2) for b in (np.nan, 3, -np.inf)])
    for ordered in (rnp.sort, lambda x: x[rnp.argsort(x)]):
        np.testing.assert_array_equal(rlx.jit(ordered, device="xla")(x), np.sort(x))


def test_programs_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []
    make = XlaProgram._made
    monkeypatch.setattr(
        XlaProgram, "_made", lambda self, *how: [made.append(self.graph.name), make(self, *how)][1]
    )
    monkeypatch.setattr(program, "sources", lambda disk: "of rlx")  # which may be edited meanwhile

    def ours(x):
        return rnp.sin(x) * 2.0

    def outside(x):
        return rlx.pure_callback(np.sin, rlx.spec((3,)), x)

    def run(f, **how):
        found = rlx.Session("xla").compile(f, X, options=rlx.CompileOptions(**how))
        np.testing.assert_allclose(found(X), np.sin(X) * (2 if f is ours else 1), 1e-6)

    tmp_path.chmod(0o700)
    with rlx.config.using(cache=tmp_path):
        run(ours), run(ours)
        assert made == ["ours"]
        run(ours, tier="fast")  # other code
        assert made == ["ours"] * 2
        for path in tmp_path.glob("*.rlx"):  # of a version that JAX does not read
            DiskCache(tmp_path, 1 << 20).put(path.stem, b"no pickle")
        run(ours), run(ours)
        assert made == ["ours"] * 3
        run(outside), run(outside)
        assert made[3:] == ["outside"] * 2
