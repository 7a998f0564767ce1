"""Ops of users under every transform, and what is said where a rule is missing."""

from __future__ import annotations

import laws_of_change
import laws_of_meaning
import numpy as np
import pytest
from audit import Case

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

X = np.array([0.5, -2.0, 3.0])


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=2.0**-44, atol=2.0**-44)


@pytest.fixture
def softsign():
    @rlx.custom_op(elementwise=True)
    def softsign(x):
        """x / (1 + |x|)."""
        return x / (1 + np.abs(x))

    softsign.defjvps(lambda t, out, x: t / (1 + rnp.abs(x)) ** 2)
    softsign.samples((2, 3))
    softsign.samples([1.0, -3.0], expect=[0.5, -0.75])
    return softsign


def scaled_sums(kind):
    """Sums of rows times a weight, and the greatest; `kind` is how the derivative is given."""

    @rlx.custom_op
    def scaled_sum(x, w, *, axis):
        """The sum along an axis times w, and the greatest there."""
        return x.sum(axis) * w, x.max(axis)

    @scaled_sum.deftype
    def scaled_sum_type(x, w, *, axis):
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return rlx.spec(shape, x.dtype), rlx.spec(shape, x.dtype)

    def share(x, axis):
        return (x == x.max(axis, keepdims=True)).astype(x.dtype)

    if kind == "jvp":

        @scaled_sum.defjvp
        def scaled_sum_jvp(primals, tangents, *, axis):
            (x, w), (tx, tw) = primals, tangents
            greatest = (tx * share(x, axis)).sum(axis)
            moved = tx.sum(axis) * w + x.sum(axis) * tw
            return scaled_sum(x, w, axis=axis), (moved, greatest)

    else:

        @scaled_sum.defvjp
        def scaled_sum_vjp(cts, outs, x, w, *, axis):
            first, second = (rnp.expand_dims(ct, axis) for ct in cts)
            return first * w + second * share(x, axis), rnp.sum(cts[0] * x.sum(axis))

    return scaled_sum


def undivided(x, w, *, axis):
    """The same in ops of the house."""
    return rnp.sum(x, axis) * w, rnp.max(x, axis)


TABLE = np.random.default_rng(0).normal(size=(2, 3))


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_several_results_attributes_and_either_mode(kind):
    op = scaled_sums(kind)
    rlx.testing.check_op(op, TABLE, np.float64(2.0), axis=1)

    def loss(op, x, w):
        first, second = op(x, w, axis=0)
        return (first * second).sum()

    ours = rlx.grad(lambda x, w: loss(op, x, w), (0, 1))
    plain = rlx.grad(lambda x, w: loss(undivided, x, w), (0, 1))
    wanted = plain(TABLE, np.float64(2.0))
    many = rlx.vmap(plain, (None, 0))(TABLE, X)
    for run in (ours, rlx.jit(ours)):
        for got, true in zip(run(TABLE, np.float64(2.0)), wanted, strict=True):
            close(got, true)
    for got, true in zip(rlx.jit(rlx.vmap(ours, (None, 0)))(TABLE, X), many, strict=True):
        close(got, true)


def test_elementwise_ops_under_every_transform(softsign):
    exact = lambda x: 1 / (1 + np.abs(x)) ** 2  # noqa: E731
    rlx.testing.check_op(softsign, X, order=3)
    close(rlx.jit(softsign)(X), X / (1 + np.abs(X)))
    close(rlx.vmap(rlx.grad(softsign))(X), exact(X))
    close(rlx.jvp(softsign, (X,), (X,))[1], exact(X) * X)
    assert softsign(2).dtype == rnp.divide(2, 3).dtype
    branch = lambda x: rlx.cond(x > 0, softsign, lambda x: x, x)  # noqa: E731
    close(rlx.jit(rlx.vmap(rlx.grad(branch)))(X), np.where(X > 0, exact(X), 1.0))
    steps = lambda x: rlx.scan(lambda c, _: (softsign(c), c), x, None, length=3)[0]  # noqa: E731
    close(rlx.grad(steps)(np.float64(0.5)), 1 / (1 + 3 * 0.5) ** 2)
    close(rlx.jit(rlx.grad(steps))(np.float64(0.5)), 1 / (1 + 3 * 0.5) ** 2)


# the rule above is one for real numbers
LAWS = [law for law in laws_of_change.LAWS if "complex" not in law.__name__]


@pytest.mark.parametrize("law", [*laws_of_meaning.LAWS, *LAWS])
def test_the_audit_runs_on_it(softsign, law):
    for sample in softsign.op.sample_list:
        law(Case(softsign.op, sample))


def test_arguments_are_promoted_and_broadcast():
    @rlx.custom_op(elementwise=True)
    def twice_sum(x, y):
        return 2 * (x + y)

    twice_sum.defjvps(lambda t, out, x, y: 2 * t, lambda t, out, x, y: 2 * t)
    assert twice_sum(X[:, None], 1).shape == (3, 1)
    assert twice_sum(X.astype("float32"), 1).dtype == np.float32
    close(rlx.grad(lambda y: twice_sum(X, y).sum())(2.0), 6.0)


def test_a_formula_replaces_python_and_gives_the_rules():
    calls = []

    @rlx.custom_op(elementwise=True)
    def swish(x, *, beta=1.0):
        calls.append(1)
        return x / (1 + np.exp(-beta * x))

    swish.defformula(lambda x, *, beta: x / (1 + rnp.exp(-beta * x)))
    rlx.testing.check_op(swish, X, beta=2.0)
    before = len(calls)
    compiled = rlx.jit(lambda x: rnp.sin(swish(x)) + 1.0)
    close(compiled(X), np.sin(X / (1 + np.exp(-X))) + 1.0)
    assert len(calls) == before
    program = compiled.lower(X).compile().stages["lir"]
    assert program.count("kernel") == 1


def test_another_function_for_a_device():
    @rlx.custom_op(elementwise=True)
    def triple(x):
        return 3 * x

    @triple.defkernel("cpu")
    def triple_on_cpu(x):
        return x + x + x + 100

    assert float(triple(1.0)) == 3.0
    assert float(rlx.jit(triple)(1.0)) == 103.0
    assert float(rlx.jit(triple, device="reference")(1.0)) == 3.0


def test_a_rule_for_batches():
    sizes = []

    @rlx.custom_op
    def total(x):
        sizes.append(x.shape)
        return x.sum()

    total.deftype(lambda x: rlx.spec(x.shape[:-1], x.dtype))
    close(rlx.vmap(total)(TABLE), TABLE.sum(1))
    assert set(sizes) == {(3,)}

    @total.defvmap
    def total_vmap(axis_size, is_batched, x):
        assert (axis_size, is_batched) == (2, [True])
        return rnp.sum(x, -1), True

    close(rlx.vmap(total)(TABLE), TABLE.sum(1))


def test_arrays_the_function_gets_are_its_own():
    @rlx.custom_op(elementwise=True)
    def spoiled(x):
        x[...] += 1
        return x

    x = rlx.array(X)
    close(rlx.jit(lambda x: spoiled(x) + x)(x), 2 * X + 1)
    close(x, X)


def test_ops_without_derivatives():
    @rlx.custom_op(elementwise=True)
    def steps(x):
        return np.floor(x)

    steps.nondifferentiable("it is constant between steps")
    assert float(rlx.grad(lambda x: steps(x) * x)(2.5)) == 2.0


def missing_type():
    @rlx.custom_op
    def untyped(x):
        return x

    untyped(1.0)


def missing_derivative():
    @rlx.custom_op(elementwise=True)
    def opaque(x):
        return x

    rlx.grad(opaque)(1.0)


def forward_of_vjp():
    op = scaled_sums("vjp")
    rlx.jvp(lambda x: op(x, 1.0, axis=0), (TABLE,), (TABLE,))


def wrong_count():
    @rlx.custom_op(elementwise=True)
    def half(x):
        return x / 2

    half.defvjp(lambda ct, out, x: ct / 2)
    rlx.grad(half)(1.0)


def wrong_shape():
    @rlx.custom_op(elementwise=True)
    def shaped(x):
        return x

    shaped.defjvps(lambda t, out, x: t[None])
    rlx.grad(shaped)(1.0)


@pytest.mark.parametrize(
    ("make", "what", "fix"),
    [
        (missing_type, "nothing is known of the shape", "@untyped.deftype"),
        (missing_derivative, "opaque has no derivative", "@opaque.defjvp"),
        (forward_of_vjp, "no forward-mode derivative", "reverse mode"),
        (wrong_count, "vjp rule must give a tuple of 1", "CustomOp"),
        (wrong_shape, r"shaped: the jvp rule is f32\[1\], it must be f32\[\]", "shape"),
        (lambda: rlx.custom_op(np.sin, name="sin"), "there is an op sin in rlx", "my_sin"),
        (lambda: rlx.custom_op(lambda x: x), "'<lambda>' is no name", "name="),
        (lambda: rlx.custom_op(5), "what becomes an op is an int", "pass a function"),
    ],
)
def test_errors_say_what_to_write(make, what, fix):
    with pytest.raises(RlxError, match=what) as caught:
        make()
    assert fix in caught.value.fix


def test_a_new_definition_leaves_the_old_one():
    def define(number):
        @rlx.custom_op(elementwise=True)
        def scaled_by(x):
            return number * x

        return scaled_by

    first = define(2.0)
    compiled = rlx.jit(first)
    assert float(compiled(1.0)) == 2.0
    second = define(3.0)
    assert (float(compiled(1.0)), float(rlx.jit(second)(1.0))) == (2.0, 3.0)


def test_check_grads_finds_wrong_derivatives():
    @rlx.custom_jvp
    def wrong(x):
        return rnp.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), 1.01 * tangents[0]))
    with pytest.raises(AssertionError, match="jvp"):
        rlx.testing.check_grads(wrong, (X,), modes="fwd")
    with pytest.raises(AssertionError, match="vjp"):
        rlx.testing.check_grads(wrong, (X,), modes=["rev"])
    rlx.testing.check_grads(lambda a: rnp.sin(a["x"]) * a["n"], ({"x": X, "n": 3},), order=3)
    rlx.testing.check_grads(rnp.exp, (np.complex128(1 + 2j),), order=2)


@pytest.mark.parametrize("device", ["cpu", "reference", "xla"])
def test_an_error_while_it_runs_is_at_a_line_of_the_user(device):
    @rlx.custom_op(name="cut_short")
    def short(x):
        return x[:2]

    short.deftype(lambda x: rlx.spec(x.shape, x.dtype))
    wrong = rlx.jit(lambda x: short(x) * 2, device=device)
    given = rlx.jit(lambda x: rlx.pure_callback(np.cumsum, rlx.spec((2,)), x), device=device)
    for f in (wrong, given):
        with pytest.raises(rlx.CallbackError) as caught:
            rlx.block_until_ready(f(np.ones(4, np.float32)))
        assert caught.value.where.startswith("test_custom_op.py:")
