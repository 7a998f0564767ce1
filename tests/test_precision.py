"""Precision policies: what is computed in which dtype, and what must stay as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from audit import Case, type_of

import rlx
import rlx.numpy as rnp
from rlx.ir.builder import build
from rlx.ir.config import from_environment
from rlx.ir.errors import ArgumentError, ConfigError, RlxError
from rlx.ir.graph import OPS, Graph
from rlx.ir.policy import POLICIES, Policy, policy_of
from rlx.ir.text import show
from rlx.ir.verify import verify
from rlx.lower.lir.program import Contraction
from rlx.lower.pipeline import lower, prepare
from rlx.lower.precision import precise
from rlx.lower.target import Target

NAMES = [name for name in POLICIES if name != "as_written"]


def graph_of(fn: Callable[..., Any], *args: Any) -> Graph:
    return rlx.make_graph(fn)(*args)


def text(graph: Graph) -> str:
    return show(graph, sources=False)


def dtypes(graph: Graph, op: str) -> list[str]:
    """The dtypes of the results of all nodes of an op."""
    return [n.results[0].dtype.name for n in graph.walk() if n.op.name == op]


def layer(x: Any, w: Any, b: Any) -> Any:
    return rnp.sum(rnp.tanh(x @ w + b), axis=0)


X, W, B = rnp.ones((4, 3)), rnp.ones((3, 2)), rnp.ones(2)


# -- the pass -------------------------------------------------------------------------------------


def test_before_and_after():
    before = graph_of(lambda x, w: rnp.exp(x @ w) + 1.0, X, W)
    assert text(prepare(before, policy_of("mixed_bf16")).graph) == (
        'graph "<lambda>"(%0: f32[4, 3] "argument 0 of <lambda>, x", '
        '%1: f32[3, 2] "argument 1 of <lambda>, w") -> f32[4, 2] {\n'
        "  %2: bf16[4, 3] = convert %0 {dtype=bf16}\n"
        "  %3: bf16[3, 2] = convert %1 {dtype=bf16}\n"
        "  %4: bf16[4, 2] = dot_general %2, %3 "
        "{contract=((1,), (0,)), batch=((), ()), dtype=None}\n"
        "  %5: f32[4, 2] = convert %4 {dtype=f32}\n"
        "  %6: f32[4, 2] = exp %5\n"
        "  %7: f32[4, 2] = full {shape=(4, 2), value=1.0, dtype=f32}\n"
        "  %8: f32[4, 2] = add %6, %7\n"
        "  return %8\n"
        "}"
    )


def test_a_conservative_policy_keeps_sums_wide():
    made = prepare(graph_of(layer, X, W, B), policy_of("mixed_f16_conservative")).graph
    (product,) = [n for n in made.nodes if n.op.name == "dot_general"]
    assert [a.dtype.name for a in product.args] == ["float16", "float16"]
    assert product.result.dtype.name == "float32"
    assert dtypes(made, "add") == dtypes(made, "tanh") == dtypes(made, "reduce_sum") == ["float32"]


def test_a_policy_of_ones_own():
    policy = Policy(transcendental="float16", reductions=np.float32)
    assert policy_of(policy.text) == policy
    made = precise(graph_of(layer, X, W, B), policy).graph
    assert dtypes(made, "dot_general") == ["float32"]
    assert dtypes(made, "tanh") == ["float16"]
    assert dtypes(made, "reduce_sum") == ["float32"]


def as_float32(x: np.ndarray) -> np.ndarray:
    return x.astype("float32") if x.dtype == np.float64 else x


def test_every_op_under_every_policy():
    """The graph stays valid, its types stay, and what is not a float is left alone."""
    for op in OPS.values():
        for sample in op.sample_list[:2]:
            case = Case(op, sample)
            types = [type_of(as_float32(x)) for x in case.arrays()]
            try:
                graph = build(lambda *xs: op.apply(xs, case.attrs), types, op.name)  # noqa: B023
            except RlxError:  # its graphs take float64
                continue
            for policy in POLICIES.values():
                made = precise(graph, policy).graph
                verify(made, "hir")
                assert (made.param_types, made.result_types) == (
                    graph.param_types,
                    graph.result_types,
                )
                for node in made.nodes:
                    if node.op is op and not any(t.is_inexact for t in types):
                        assert [r.type for r in node.results] == list(graph.result_types)


@pytest.mark.parametrize("name", NAMES)
def test_other_dtypes_are_left_alone(name: str):
    @rlx.jit(precision=name)
    def f(i: Any, big: Any, z: Any, d: Any, table: Any) -> Any:
        return i + 1, big > 5, z * z, d / 3, table[i], rnp.argmax(table[:, 0])

    table = rnp.arange(10.0)[:, None] * rnp.ones(2)
    i, d = np.array([3, 9], np.int32), np.array([1.0])
    big, z = np.array([2**40], np.int64), np.array([1 + 1e-6j])
    out = f(i, big, z, d, table)
    assert [x.dtype.name for x in out[:4]] == ["int32", "bool", "complex128", "float64"]
    assert np.asarray(out[0]).tolist() == [4, 10]
    assert np.asarray(out[2])[0] == (1 + 1e-6j) ** 2
    assert np.asarray(out[3])[0] == 1 / 3
    assert np.asarray(out[4])[:, 0].tolist() == [3.0, 9.0]
    assert out[5].item() == 9


def test_what_depends_on_no_float_is_computed_as_written():
    """Places above 2048 are no float16, and 1 - 2**-24 would be 1."""

    def f(x: Any, key: Any) -> Any:
        places = rnp.arange(4096).astype("float32")
        return places[-1] * 2.0, rlx.random.uniform(key, (64,)), x * places[0]

    key = rlx.random.key(0)
    plain, low = rlx.jit(f)(B, key), rlx.jit(f, precision="always_f16")(B, key)
    assert low[0].item() == 8190.0
    assert np.array_equal(np.asarray(low[1]), np.asarray(plain[1]))


def test_constants_stay_finite_and_do_not_vanish():
    mask = np.array([True, False])
    scores = rlx.jit(lambda x, m: rnp.where(m, x, -1e30), precision="always_f16")(B, mask)
    assert np.asarray(scores).tolist() == [1.0, float(np.finfo(np.float16).min)]
    share = rlx.jit(lambda x: x / (x * 0.0 + 1e-12), precision="always_f16")(rnp.zeros(1))
    assert np.asarray(share).tolist() == [0.0]
    table = np.array([-1e30, 1e-12, np.inf, 0.0, 2.0], np.float32)
    types = [type_of(table)]
    graph = build(lambda x: [OPS["mul"](x, OPS["constant"].lift(table))], types)
    made = precise(graph, policy_of("always_f16")).graph
    (constant,) = [n.result.constant for n in made.nodes if n.op.is_constant]
    assert constant.tolist() == [-65504.0, 2.0**-24, np.inf, 0.0, 2.0]


def test_a_number_out_of_range_widens():
    made = prepare(graph_of(lambda x, w: (x @ w) * 1e-9, X, W), policy_of("mixed_f16")).graph
    assert dtypes(made, "mul") == ["float32"]
    made = prepare(graph_of(lambda x, w: (x @ w) * 0.5, X, W), policy_of("mixed_f16")).graph
    assert dtypes(made, "mul") == ["float16"]


def test_casts_are_shared_and_go_before_movement():
    def f(x: Any, w: Any) -> Any:
        return (x @ w) @ w.T, w.sum()

    made = prepare(graph_of(f, rnp.ones((2, 3)), rnp.ones((3, 3))), policy_of("mixed_bf16"))
    assert made.casts == 3  # of x and w, and of the result
    assert text(made.graph).count("dtype=bf16}") == 2

    def take(table: Any, i: Any, w: Any) -> Any:
        return table[i] @ w

    i = np.array([1, 2], np.int32)
    looked = prepare(graph_of(take, rnp.ones((1000, 3)), i, W), policy_of("mixed_bf16")).graph
    casts = [n.args[0].shape for n in looked.nodes if n.op.name == "convert"]
    assert (2, 3) in casts  # the rows taken, not the table
    assert (1000, 3) not in casts


def test_casts_there_and_back_vanish():
    inner = rlx.jit(lambda x: x @ x, precision="mixed_bf16")
    graph = graph_of(lambda x: inner(inner(x)), rnp.ones((3, 3)))
    made = prepare(graph, policy_of("as_written")).graph
    assert [n.op.name for n in made.nodes] == ["convert", "dot_general", "dot_general", "convert"]


# -- what it composes with ------------------------------------------------------------------------


def test_a_product_of_halves_is_one_on_the_cpu():
    graph = prepare(graph_of(lambda x, w: x @ w, X, W), policy_of("mixed_bf16")).graph
    (step,) = [s for s in lower(graph, Target("cpu")).program.steps if isinstance(s, Contraction)]
    loads = {load.dtype.name for load in (*step.lhs.loads, *step.rhs.loads)}
    assert loads == {"bfloat16"}


def nested(x: Any, w: Any) -> Any:
    c, ys = rlx.scan(lambda c, r: (rnp.tanh(c @ w), c * r), x, rnp.arange(3.0))
    c = rlx.cond(c.sum() > 0, lambda c: c @ w, lambda c: c - 1.0, c)
    c = rlx.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + rnp.abs(c @ w), c)
    return rlx.checkpoint(lambda c: rnp.sin(c @ w))(c).sum() + ys.sum()


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["mixed_bf16", "always_f16", "always_f32"])
def test_nested_graphs(name: str, device: str):
    x, w = rnp.ones((2, 2)) * 0.25, rnp.eye(2) * 0.5
    graph = prepare(graph_of(nested, x, w), policy_of(name)).graph
    low = policy_of(name).contractions
    assert set(dtypes(graph, "dot_general")) == {low}
    f = rlx.jit(nested, precision=name, device=device)
    wanted = nested(x, w).item()
    # a result of some ten steps, each rounded to so many digits
    assert f(x, w).item() == pytest.approx(wanted, rel=10 * float(ml_dtypes.finfo(low).eps))


def test_derivatives_and_batches():
    def loss(w: Any, x: Any) -> Any:
        return rnp.mean((x @ w) ** 2)

    for f in (
        rlx.jit(rlx.grad(loss), precision="mixed_bf16"),
        rlx.grad(rlx.jit(loss, precision="mixed_bf16")),
        rlx.jit(rlx.grad(rlx.jit(loss, precision="mixed_bf16"))),
    ):
        slope = f(W, X)
        assert slope.dtype.name == "float32"
        assert np.allclose(np.asarray(slope), np.asarray(rlx.grad(loss)(W, X)), rtol=0.02)
    graph = graph_of(rlx.grad(rlx.jit(loss, precision="mixed_bf16")), W, X)
    assert set(dtypes(prepare(graph, policy_of("as_written")).graph, "dot_general")) == {"bfloat16"}
    many = rlx.vmap(rlx.jit(lambda x: x @ W, precision="always_bf16"))(X / 3)
    assert np.array_equal(np.asarray(many), np.asarray(many).astype(ml_dtypes.bfloat16))


def test_the_inner_policy_holds():
    third = rlx.jit(lambda x: x / 3, precision="always_f32")
    f = rlx.jit(lambda x: (third(x), x / 3), precision="always_bf16")
    wide, low = f(rnp.ones(1))
    assert wide.item() == np.float32(1) / np.float32(3)
    assert low.item() == float(ml_dtypes.bfloat16(1 / 3))


def test_around_an_inner_policy_the_dtypes_are_those_written():
    small = 2.0**-12  # which 1.5 in bfloat16 swallows
    for inner in ("as_written", "always_f32", "mixed_bf16"):
        more = rlx.jit(lambda x: x + small, precision=inner)
        f = rlx.jit(lambda x, more=more: more(x * 1.5), precision="always_bf16")
        assert f(rnp.ones(1)).item() == 1.5 + small
    half = rlx.jit(lambda x: x * 1.5, precision="always_bf16")
    assert rlx.jit(lambda x: half(x) + small)(rnp.ones(1)).item() == 1.5 + small


def test_run_op_by_op_an_inner_policy_holds():
    third = rlx.jit(lambda x: (x / 3).sum(), precision="always_bf16")
    value, _ = rlx.value_and_grad(third)(rnp.ones(1))
    assert value.item() == float(ml_dtypes.bfloat16(1 / 3))


def test_attention_keeps_its_sums():
    shapes = [(1, 1, 1, 5, 3), (1, 1, 7, 3), (1, 1, 7, 4)]
    types = [rlx.spec(shape, "float32") for shape in shapes]

    def f(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.value for x in (q, k, v))
        return rlx.TracedTensor(OPS["attention"](q, k, v, scale=0.5)[0]).sum()

    graph = prepare(graph_of(rlx.grad(f), *types), policy_of("always_bf16")).graph
    (pull,) = [n for n in graph.nodes if n.op.name == "attention_pull"]
    assert [a.dtype.name for a in pull.args] == ["bfloat16"] * 3 + ["float32"] * 5


# -- where it is said -----------------------------------------------------------------------------


def test_in_a_block():
    third = rlx.jit(lambda x: x / 3)
    one = rnp.ones(1)
    with rlx.precision("bf16") as policy:
        assert policy == POLICIES["always_bf16"]
        assert third(one).item() == float(ml_dtypes.bfloat16(1 / 3))
        own = rlx.jit(lambda x: x / 3, precision="as_written")
        assert own(one).item() == np.float32(1) / np.float32(3)
    assert third(one).item() == np.float32(1) / np.float32(3)


def test_a_block_in_a_recorded_function_is_an_error():
    def f(x: Any) -> Any:
        with rlx.precision("always_f16"):
            return x * 2

    with pytest.raises(ArgumentError, match="being recorded"):
        rlx.jit(f)(B)


def test_sessions_and_reports():
    session = rlx.Session("cpu", precision="mixed_bf16")
    compiled = session.compile(layer, X, W, B)
    assert compiled.precision == POLICIES["mixed_bf16"]
    told = "precision mixed_bf16: 3 casts; 1 contractions in bfloat16, 1 pointwise in float32"
    assert told in compiled.report()
    assert "f32[4, 2] = dot_general" in compiled.stages["recorded"]
    assert "bf16[4, 2] = dot_general" in compiled.stages["hir"]
    plain = session.compile(layer, X, W, B, options=rlx.CompileOptions(precision="as_written"))
    assert plain.precision == Policy()
    assert "precision" not in plain.report()
    jitted = rlx.jit(layer, precision="mixed_bf16").lower(X, W, B).compile()
    assert jitted.precision == POLICIES["mixed_bf16"]
    assert told in jitted.report()


def test_bound_arguments_are_cast_once():
    compiled = rlx.jit(layer, precision="mixed_bf16").lower(X, W, B).compile()
    wanted = np.asarray(compiled(X, W, B))
    compiled.bind(w=W, b=B)
    assert np.array_equal(np.asarray(compiled(X)), wanted)
    assert "values computed once: 1; precision mixed_bf16" in compiled.report()


def test_each_policy_is_compiled_by_itself():
    session = rlx.Session("reference")
    for name in POLICIES:
        for _ in range(2):
            session.compile(layer, X, W, B, options=rlx.CompileOptions(precision=name))
    assert session.cache.stats.misses == len(POLICIES)
    assert session.cache.stats.hits == len(POLICIES)


def test_names_and_texts():
    assert from_environment({"RLX_PRECISION": "mixed_f16"}).precision == POLICIES["mixed_f16"]
    own = from_environment({"RLX_PRECISION": "contractions=bf16,sums=f32"}).precision
    assert own == Policy(contractions="bfloat16", sums="float32")
    with pytest.raises(ConfigError, match="there is no precision 'half'"):
        from_environment({"RLX_PRECISION": "half"})
    with pytest.raises(ArgumentError, match="did you mean 'mixed_bf16'") as caught:
        rlx.jit(layer, precision="mixed_bf1")
    assert caught.value.where and "test_precision.py" in caught.value.where
    with pytest.raises(ArgumentError, match="contractions is 'int8'"):
        Policy(contractions="int8")
    with pytest.raises(ArgumentError, match="contractions is 'bf16,'"):
        Policy(contractions="bf16,")
    with pytest.raises(ArgumentError) as caught, rlx.precision("half"):
        pass
    assert caught.value.where and "test_precision.py" in caught.value.where
    for name, policy in POLICIES.items():
        assert policy.text == name


# -- training -------------------------------------------------------------------------------------


def spirals() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 256)
    angle = random.uniform(0.5, 3.0, 256)
    turned = angle + np.pi * labels
    x = np.stack([np.cos(turned), np.sin(turned)], 1) * angle[:, None]
    return x.astype(np.float32), labels.astype(np.int32)


def trained(precision: str) -> float:
    """The loss after some steps, the gradient under a policy, the optimizer as it is written."""
    x, y = spirals()
    keys = rlx.random.split(rlx.random.key(1), 2)
    params = {
        "a": rlx.random.normal(keys[0], (2, 32)) * 0.7,
        "b": rnp.zeros(32),
        "c": rlx.random.normal(keys[1], (32, 2)) * 0.3,
    }
    optimizer = rlx.optim.scaled(rlx.optim.adam(0.02), rlx.optim.DynamicLossScale(2.0**10))
    state = optimizer.init(params)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        hidden = rnp.tanh(x @ params["a"] + params["b"])
        return rlx.nn.losses.cross_entropy(hidden @ params["c"], y)

    gradient = rlx.jit(
        rlx.grad(lambda p, scale, x, y: scale.scale(loss_of(p, x, y))), precision=precision
    )

    @rlx.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(gradient(params, state.scale, x, y), state, params)
        return rlx.optim.apply_updates(params, updates), state

    for _ in range(150):
        params, state = step(params, state)
    assert all(p.dtype.name == "float32" for p in params.values())
    return rlx.jit(loss_of)(params, x, y).item()


@pytest.fixture(scope="module")
def plain_loss() -> float:
    loss = trained("as_written")
    assert loss < 0.1
    return loss


@pytest.mark.parametrize("name", NAMES)
def test_training_comes_as_far(name: str, plain_loss: float):
    assert trained(name) == pytest.approx(plain_loss, abs=0.02)


def test_a_loss_scale_saves_small_gradients():
    def gradient(scale: Any) -> Any:
        slope = rlx.jit(
            rlx.grad(lambda w, x: scale.scale(((x @ w) ** 2).mean() * 1e-9)), precision="mixed_f16"
        )
        return np.asarray(scale.unscale(slope(W, X)))

    exact = np.asarray(rlx.grad(lambda w, x: ((x @ w) ** 2).mean() * 1e-9)(W, X))
    assert not gradient(rlx.optim.StaticLossScale(1.0)).any()
    assert np.allclose(gradient(rlx.optim.StaticLossScale(2.0**15)), exact, rtol=2e-3, atol=0)


def test_a_loss_scale_scales_complex_gradients():
    scale = rlx.optim.StaticLossScale(1000.0)
    w = rnp.array([1 + 2j, 3 - 1j])
    slope = rlx.grad(lambda w: scale.scale((abs(w) ** 2).sum()))(w)
    np.testing.assert_allclose(scale.unscale({"w": slope})["w"], 2 * w.conj(), rtol=1e-6)
    assert not rlx.optim.all_finite([w, w * complex(0, np.inf)]).item()


def test_a_step_that_overflows_is_left_out():
    optimizer = rlx.optim.scaled(rlx.optim.sgd(0.5, 0.9), rlx.optim.DynamicLossScale(4.0, period=2))
    params = {"w": rnp.array([1.0])}
    state = optimizer.init(params)
    step = rlx.jit(lambda g, s, p: optimizer.update(g, s, p))
    updates, state = step({"w": rnp.array([np.inf])}, state, params)
    assert updates["w"].tolist() == [0.0]
    assert (state.scale.value.item(), state.skipped.item()) == (2.0, 1)
    assert state.inner[0].velocity["w"].tolist() == [0.0]
    for _ in range(2):
        updates, state = step({"w": rnp.array([4.0])}, state, params)
    assert (state.scale.value.item(), state.scale.count.item()) == (4.0, 0)
    assert updates["w"].item() == pytest.approx(-0.5 * 1.9 * 2.0)  # 4 / 2, twice with momentum


def test_captured_weights_are_cast_once():
    w = np.linspace(-1, 1, 64 * 64, dtype="float32").reshape(64, 64)
    x = np.linspace(0, 1, 128, dtype="float32").reshape(2, 64)
    compiled = rlx.jit(lambda x: x @ w, precision="mixed_bf16").lower(x).compile()
    assert not [line for line in compiled.stages["lir"].splitlines() if "convert(b1" in line]
    assert compiled.precision.text == "mixed_bf16" and "mixed_bf16" in compiled.report()
    argument = rlx.jit(lambda x, w: x @ w, precision="mixed_bf16")
    np.testing.assert_array_equal(compiled(x), argument(x, w))
