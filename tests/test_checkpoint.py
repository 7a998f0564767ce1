"""What checkpoints keep and compute again: counted in the graphs, with equal gradients."""

from __future__ import annotations

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name as jax_name

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

POLICIES = rlx.checkpoint_policies
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def net(x):
    first = rnp.sin(rnp.matmul(x, x))
    named = rlx.checkpoint_name(rnp.sin(first), "h")
    return rnp.sum(rnp.sin(rnp.matmul(named, x)))


def jax_net(x):
    first = jnp.sin(x @ x)
    named = jax_name(jnp.sin(first), "h")
    return jnp.sum(jnp.sin(named @ x))


SAVE_BOTH = POLICIES.save_from_both_policies(
    POLICIES.dots_saveable, POLICIES.save_only_these_names("h")
)
CASES = {  # policy, then the products and the sines of the gradient; 6 and 3 are the least
    "none": (None, 8, 5),
    "everything_saveable": (POLICIES.everything_saveable, 6, 3),
    "nothing_saveable": (POLICIES.nothing_saveable, 8, 5),
    "dots_saveable": (POLICIES.dots_saveable, 6, 5),
    "dots_with_no_batch_dims_saveable": (POLICIES.dots_with_no_batch_dims_saveable, 6, 5),
    "these names": (POLICIES.save_only_these_names("h"), 8, 4),
    "but these names": (POLICIES.save_any_names_but_these("h"), 8, 5),
    "but other names": (POLICIES.save_any_names_but_these("other"), 8, 4),
    "both": (SAVE_BOTH, 6, 4),
    "of the user": (lambda op, *types, **attrs: op.name == "sin", 8, 3),
}
on_policies = pytest.mark.parametrize("name", CASES)


def count(fn, *args):
    return Counter(node.op.name for node in rlx.make_graph(fn)(*args).walk())


def close(got, wanted, times=1):
    error = times * 2**-18  # 32 roundings of float32: a few products and sines
    np.testing.assert_allclose(got, wanted, rtol=error, atol=error)


@on_policies
def test_gradients_are_those_of_jax(name):
    wanted = jax.grad(jax_net)(X)
    slope = rlx.grad(rlx.checkpoint(net, policy=CASES[name][0]))
    close(slope(X), wanted)
    close(rlx.jit(slope)(X), wanted)


@on_policies
def test_the_policy_says_what_is_computed_again(name):
    policy, products, sines = CASES[name]
    counted = count(rlx.grad(rlx.checkpoint(net, policy=policy)), X)
    assert (counted["dot_general"], counted["sin"]) == (products, sines)


def test_compiled_code_computes_again_unless_it_may_not():
    def sines(**options):
        both = rlx.value_and_grad(rlx.checkpoint(net, **options))
        stages = rlx.jit(both).lower(X).compile().stages.values()
        return [text for text in stages if text.startswith("graph")][-1].count("= sin ")

    assert sines() == 5
    assert sines(policy=POLICIES.everything_saveable) == 3
    assert sines(prevent_cse=False) == 3


def kept(fn, *args):
    """What reverse mode keeps, without the places."""
    return [text.split(" from ")[0] for _, text in rlx.ad_checkpoint.saved_residuals(fn, *args)]


def test_the_kept_values_are_those_of_the_policy():
    def names(policy):
        return kept(rlx.checkpoint(net, policy=policy), X)[1:]

    (only,) = rlx.ad_checkpoint.saved_residuals(rlx.checkpoint(net), X)
    assert (str(only[0]), only[1]) == ("f32[4, 4]", "from argument 0 of net, x")
    assert names(POLICIES.nothing_saveable) == []
    assert names(POLICIES.dots_saveable) == ["output of dot_general"] * 2
    assert names(POLICIES.save_only_these_names("h")) == ["named 'h'"]
    assert names(POLICIES.save_any_names_but_these("h")) == []
    assert names(POLICIES.save_any_names_but_these("g")) == ["named 'h'"]
    assert "named 'h'" not in names(POLICIES.save_anything_except_these_names("h"))
    assert sorted(names(POLICIES.everything_saveable)) == sorted(kept(net, X)[1:])


def test_residuals_are_printed(capsys):
    policy = POLICIES.save_only_these_names("h")
    rlx.ad_checkpoint.print_saved_residuals(rlx.checkpoint(net, policy=policy), X)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "f32[4, 4] from argument 0 of net, x"
    assert second.startswith("f32[4, 4] named 'h' from test_checkpoint.py")


def test_a_step_of_a_scan_keeps_what_its_policy_says():
    def loss(policy):
        def step(carry, row):
            hidden = rlx.checkpoint_name(rnp.sin(carry * row), "h")
            return rnp.sin(hidden) + row, None

        def fn(rows):
            body = rlx.checkpoint(step, policy=policy, prevent_cse=False)
            return rnp.sum(rlx.scan(body, rnp.ones(3, "float32"), rows)[0])

        return fn

    rows = X[:, :3]
    plain, named = loss(None), loss(POLICIES.save_only_these_names("h"))
    wanted = rlx.grad(plain)(rows)
    close(rlx.grad(named)(rows), wanted)
    close(rlx.jit(rlx.grad(named))(rows), wanted)
    assert len(kept(named, rows)) == len(kept(plain, rows)) + 1


def test_batches_and_higher_derivatives():
    def scalar(policy):
        inner = rlx.checkpoint(lambda x: rnp.sin(rnp.exp(rnp.sin(x))), policy=policy)
        return rlx.checkpoint(lambda x: inner(x) * inner(2.0 * x))

    x = X[0]
    inner = lambda x: rnp.sin(rnp.exp(rnp.sin(x)))  # noqa: E731
    plain = rlx.grad(lambda x: inner(x) * inner(2.0 * x))
    once, twice = rlx.vmap(plain)(x), rlx.vmap(rlx.grad(plain))(x)
    for policy in (None, lambda op, *types, **attrs: op.name == "exp"):
        fn = scalar(policy)
        close(rlx.vmap(rlx.grad(fn))(x), once)
        close(rlx.jit(rlx.vmap(rlx.grad(rlx.grad(fn))))(x), twice, 4)
        close(rlx.jacfwd(rlx.jacrev(fn))(x[0]), twice[0], 4)
        close(rlx.jvp(rlx.vmap(fn), (x,), (x,))[1], once * x)


def test_policies_see_into_jitted_functions():
    inner = rlx.jit(lambda x: rlx.checkpoint_name(rnp.sin(x), "h"))
    fn = rlx.checkpoint(lambda x: rnp.sin(inner(x)), policy=POLICIES.save_only_these_names("h"))
    assert kept(fn, X)[1:] == ["named 'h'"]


def test_static_arguments_reach_the_function_as_they_are():
    @functools.partial(rlx.remat, static_argnums=(1,))
    def power(x, kind):
        return x**3 if kind == "cube" else x

    assert float(rlx.grad(power)(2.0, "cube")) == 12.0
    assert float(rlx.jit(rlx.grad(lambda x: power(x, "none")))(2.0)) == 1.0
    named = rlx.remat(lambda x, *, kind: power(x, kind), static_argnames="kind")
    assert float(rlx.grad(lambda x: named(x, kind="cube"))(2.0)) == 12.0


def test_names_on_containers_and_errors():
    named = rlx.checkpoint_name({"a": X, "b": 1.0}, "inputs")
    close(named["a"], X)
    with pytest.raises(RlxError, match="the name is 3"):
        rlx.checkpoint_name(X, 3)
    with pytest.raises(RlxError, match="the policy is a str, not a function"):
        rlx.checkpoint(net, policy="dots")


@pytest.mark.parametrize("module", [rlx.checkpoint_policies, rlx.ad_checkpoint, rlx.testing])
def test_modules_show_what_they_offer(module):
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name).__doc__ for name in dir(module))
