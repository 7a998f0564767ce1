"""Functions that an earlier process recorded: when they need not be recorded again, and when so."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends import disk, disk as sources
from rlx.runtime.session import default_session
from rlx.transforms.jit.identity import identity

X = np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6)
SCALE, TABLE = 2.0, {"a": [1.0, (2.0, 3.0)]}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test, whatever was just edited."""
    monkeypatch.setattr(sources, "IMPORTED", math.inf)
    monkeypatch.setattr(disk, "_told", set())
    with rlx.config.using(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def is_recalled(fn, *args, **options) -> bool:
    """Whether a call of the function, jitted anew, needs no recording; what it gives is checked."""
    default_session().cache.clear()
    jitted = rlx.jit(fn, **options)
    found = rlx.tree.leaves(jitted(*args))
    with rlx.config.using(cache=False):
        wanted = rlx.tree.leaves(rlx.jit(fn, **options)(*args))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return jitted._entries.last.record is not None


# -- a second process -----------------------------------------------------------------------------

SCRIPT = """
import functools
import numpy as np
import rlx, rlx.numpy as rnp
from rlx import nn
from rlx.backends import disk as sources
sources.IMPORTED = float("inf")
x = np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6)
outside = rlx.array(x + 1)
class Net(nn.Module):
    inner: nn.Linear
    scale: float = nn.field(static=True, default=2.0)
    def __call__(self, x):
        return rnp.tanh(self.inner(x)) * self.scale
net = Net(nn.Linear(6, 3, key=rlx.random.key(0)))
optimizer = rlx.optim.adam(0.1)
def loss(net, x):
    return (net(x) ** 2).mean()
@rlx.jit
def train(net, state, x):
    value, slope = rlx.value_and_grad(loss)(net, x)
    update, state = optimizer.update(slope, state, net)
    return rlx.optim.apply_updates(net, update), state, {"loss": value}
@functools.partial(rlx.jit, static_argnames="n")
def power(x, n):
    return x ** n + outside + np.eye(4, 6, dtype=np.float32)
jitted = {"train": (train, net, optimizer.init(net), x), "power": (power, x, 3),
          "random": (rlx.jit(lambda k: rlx.random.normal(k, (3,))), rlx.random.key(1)),
          "scan": (rlx.jit(lambda x: rlx.scan(lambda c, r: (c + r, c.sum()), x[0], x)), x)}
for name, (fn, *args) in jitted.items():
    leaves, tree = rlx.tree.flatten(fn(*args))
    entry = fn._entries.last
    print(name, "recalled" if entry.record else "recorded", len(entry.graph.nodes), tree,
          *(np.asarray(y).tobytes().hex() for y in leaves))
"""


def test_a_second_process_does_not_record(cache, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    first, second = (ran(script, cache).splitlines() for _ in range(2))
    assert len(first) == 4
    for one, other in zip(first, second, strict=True):
        assert one.split()[1] == "recorded" and other.split()[1] == "recalled"
        assert one.replace("recorded", "") == other.replace("recalled", "")


def ran(script: Path, cache: Path, seed: str = "0") -> str:
    """What a script prints in a process of its own."""
    environment = os.environ | {"RLX_CACHE": str(cache), "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_changed_function_of_another_module_is_recorded_again(cache, tmp_path):
    (tmp_path / "main.py").write_text(
        "import rlx, layers\nfrom rlx.backends import disk\ndisk.IMPORTED = float('inf')\n"
        "f = rlx.jit(lambda x: layers.deeper.scaled(x))\n"
        "print(f(1.0), f._entries.last.record is not None)\n"
    )
    (tmp_path / "layers.py").write_text("import deeper\n")
    seen = []
    for factor, text in ((2, ""), (2, "# a remark\n\n"), (3, ""), (3, "")):
        (tmp_path / "deeper.py").write_text(f"{text}K = {factor}\ndef scaled(x):\n return x * K\n")
        os.utime(tmp_path / "deeper.py", (0, len(seen)))  # Python looks at dates
        seen.append(ran(tmp_path / "main.py", cache).split())
    assert seen == [["2.0", "False"], ["2.0", "True"], ["3.0", "False"], ["3.0", "True"]]


# -- what an earlier process may have left --------------------------------------------------------


class Net(nn.Module):
    inner: nn.Linear
    scale: float = nn.field(static=True, default=2.0)

    def __call__(self, x):
        return rnp.tanh(self.inner(x)) * self.scale


def made(net=None, **options):
    """A function with all sorts of dependencies."""
    net = net or Net(nn.Linear(6, 3, key=rlx.random.key(0)), **options)
    return lambda x, y=SCALE: {"net": net(x), "table": x * TABLE["a"][1][0] + y}


def test_equal_functions_are_recorded_once():
    assert [is_recalled(made(), X) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setitem(TABLE, "a", [1.0, (4.0, 3.0)]),
        lambda patch: patch.setattr(Net, "__call__", lambda self, x: self.inner(x)),
        lambda patch: patch.setattr(Net.__call__, "__defaults__", (1,)),
        lambda patch: patch.setattr(rlx.config, "unroll_limit", 7),
        lambda patch: patch.setattr(rlx.config, "checks", True),
    ],
)
def test_what_a_function_depends_on_counts(change, monkeypatch):
    assert not is_recalled(made(), X)
    with monkeypatch.context() as patch:
        change(patch)
        assert not is_recalled(made(), X)
        assert is_recalled(made(), X)
    assert is_recalled(made(), X)


def test_arguments_and_options_count():
    fn = made()
    assert not is_recalled(fn, X)
    assert not is_recalled(fn, X, 3.0)
    assert not is_recalled(fn, X, np.float32(3))
    assert not is_recalled(fn, X[:2])
    assert not is_recalled(fn, X.astype(np.int32))
    assert not is_recalled(made(scale=3.0), X)
    assert not is_recalled(lambda x, n: x * n, X, 2, static_argnames="n")
    assert not is_recalled(lambda x, n: x * n, X, 3, static_argnames="n")
    assert not is_recalled(lambda x, n: x * n, X, 3)
    assert is_recalled(fn, X) and is_recalled(lambda x, n: x * n, X, 2, static_argnames="n")


def test_arrays_outside_are_taken_from_this_process():
    def using(array):
        return lambda x: x[:1] * array

    large = rlx.array(np.ones((200_000, 6), np.float32))
    assert not is_recalled(using(large), X) and is_recalled(using(large), X)
    assert not is_recalled(using(large.at[0, 0].set(2.0)), X)
    small = X[:1]
    assert not is_recalled(using(small), X) and is_recalled(using(small), X)
    assert not is_recalled(using(small + 1), X)
    assert not is_recalled(using(np.ones((200_000, 6), np.float32)), X), "too large to keep"
    assert not is_recalled(using(np.ones((200_000, 6), np.float32)), X)


def test_products_with_matrices_outside_are_recalled():
    matrix = rlx.array(np.linspace(-1, 1, 6 * 40, dtype=np.float32).reshape(6, 40))

    def using(array):
        return lambda x: x @ array

    assert not is_recalled(using(matrix), X) and is_recalled(using(matrix), X)
    assert is_recalled(using(matrix), X[:, ::-1])
    assert not is_recalled(using(matrix * 2), X)


def test_derivatives_and_wrappers_are_seen_through():
    def using(k):
        def loss(x):
            return rnp.sin(x * k).sum()

        return rlx.jit(rlx.grad(rlx.checkpoint(loss)))

    assert not is_recalled(partial(using(2.0)), X) and is_recalled(partial(using(2.0)), X)
    assert not is_recalled(partial(using(3.0)), X)

    def ruled(k):
        @rlx.custom_jvp
        def double(x):
            return x * 2

        double.defjvp(lambda primals, tangents: (double(*primals), tangents[0] * k))
        return rlx.grad(lambda x: double(x).sum())

    assert not is_recalled(ruled(2.0), X) and is_recalled(ruled(2.0), X)
    assert not is_recalled(ruled(3.0), X)


def test_registered_containers_count():
    class Pair:
        def __init__(self, one, other):
            self.one, self.other = one, other

    def register(order):
        class Kind(Pair):
            pass

        rlx.tree_util.register_pytree_node(
            Kind,
            lambda p: ([(p.one, p.other), (p.other, p.one)][order], None),
            lambda _, xs: Kind(*xs[:: 1 - 2 * order]),
        )
        return Kind

    def fn(p):
        return p.one - 2 * p.other

    one, other = register(0), register(0)
    assert not is_recalled(fn, one(X, X + 1)) and is_recalled(fn, other(X, X + 1))
    assert not is_recalled(fn, register(1)(X, X + 1))


def test_donation_lasts():
    def step(p, g):
        return p - 0.1 * g

    for expected in (False, True):
        jitted, given = rlx.jit(step, donate_argnums=0), rlx.array(X)
        jitted(given, X)
        assert (jitted._entries.last.record is not None) == expected
        assert "result 0 takes its memory" in jitted._entries.last.report()
        with pytest.raises(rlx.DonatedError):
            jitted(given, X)


# -- what is recorded in each process -------------------------------------------------------------

CALLS: list[int] = []


def counting(x):
    CALLS.append(1)
    return x


def stepping(x):
    global SCALE
    SCALE = SCALE + 0.0
    return x


def importing(x):
    import random

    return x * len(random.__name__)


@pytest.mark.parametrize(
    "fn",
    [
        counting,
        stepping,
        importing,
        lambda x: print(end="") or x,
        lambda x: x * len(os.environ.get("PATH", "")),
        lambda x: x + np.random.rand() * 0,
        lambda x: x + hash("text") * 0,
        lambda x: x + len(Path(__file__).read_text()),
        lambda x: x * getattr(math, "pi") * getattr(pytest, "approx")(1).expected,  # noqa: B009
        lambda x: rlx.pure_callback(np.sin, rlx.spec(x.shape), x),
    ],
)
def test_what_cannot_be_told_is_recorded_each_time(fn):
    assert [is_recalled(fn, X) for _ in range(2)] == [False, False]


def test_looks_at_all_of_a_class():
    class Root:
        factor = 2

        @property
        def twice(self):
            return self.factor * 2

    class Leaf(Root):
        __slots__ = ("own",)

        def __init__(self, own):
            self.own = own

    def using(leaf):
        return lambda x: x * leaf.twice + leaf.own

    found = {identity(using(Leaf(own)))[0] for own in (1, 1, 2)}
    Root.factor = 3
    found.add(identity(using(Leaf(1)))[0])
    assert len(found) == 3


def test_cycles_and_deep_things_end():
    ring: list = [1]
    ring.append(ring)
    other: list = [1]
    other.append(other)
    assert identity(ring) == identity(other)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(LookupError, match=r"deeply|things"):
        identity(deep)
    with pytest.raises(LookupError, match="more than"):
        identity([object] + [(i,) for i in range(30_000)])


def test_damage_is_recorded_anew(cache):
    assert not is_recalled(made(), X)
    for path in cache.glob("*.rlx"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 255
        path.write_bytes(bytes(data))
    assert not is_recalled(made(), X) and is_recalled(made(), X)


def test_code_that_is_gone_is_compiled_anew(cache):
    assert not is_recalled(made(), X)
    jitted = rlx.jit(made())
    jitted(X)
    (cache / f"{jitted._entries.last.executable.lasting.key}.rlx").unlink()
    assert not is_recalled(made(), X) and is_recalled(made(), X)


def test_sets_that_are_only_asked_have_no_order(cache, tmp_path):
    """The order of texts in a set is another in each process."""
    script = tmp_path / "script.py"
    script.write_text(
        "import rlx\nfrom rlx.backends import disk\ndisk.IMPORTED = float('inf')\n"
        "NAMES, kind = {'a', 'b', 'c', 'd', 'e', 'f'}, 'b'\n"
        "asks = rlx.jit(lambda x: x * 2 if kind in {'a', 'b', 'c', 'd', 'e', 'f'} else x)\n"
        "order = rlx.jit(lambda x: {n: x + i for i, n in enumerate(NAMES)})\n"
        "assert asks(1.0) == 2.0\n"
        "assert order(1.0) == {n: 1.0 + i for i, n in enumerate(NAMES)}\n"
        "print(asks._entries.last.record is not None)\n"
    )
    assert [ran(script, cache, seed).split() for seed in ("1", "2")] == [["False"], ["True"]]


def test_names_count():
    def one(x):
        return x * 2

    def other(x):
        return x * 2

    assert not is_recalled(one, X) and not is_recalled(other, X)
    assert is_recalled(one, X)


def test_settings_count():
    def far(x):
        return x * rlx.config.unroll_limit

    assert not is_recalled(far, X) and is_recalled(far, X)
    with rlx.config.using(unroll_limit=3):
        assert not is_recalled(far, X) and is_recalled(far, X)


def test_keys_are_used_by_recording(cache):
    key = rlx.random.key(0)
    with rlx.config.using(key_reuse=True):
        for _ in range(2):
            jitted = rlx.jit(lambda x: x + rlx.random.normal(rlx.random.fold_in(key, 1)))
            jitted(1.0)
            assert jitted._entries.last.record is None


def test_results_that_pickle_otherwise_are_recorded_each_time():
    class_of = Forgetful
    assert [is_recalled(lambda x: class_of(x, 2), X) for _ in range(2)] == [False, False]


class Forgetful:
    """A container that writes less than it holds."""

    def __init__(self, x, k):
        self.x, self.k = x, k

    def __getstate__(self):
        return {"x": self.x, "k": 0}


rlx.tree_util.register_pytree_node(
    Forgetful, lambda f: ((f.x,), f.k), lambda k, xs: Forgetful(xs[0], k)
)
