"""How much time machine code may take to make: `jit(tier=...)`."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.llvm import machine
from rlx.backends.cpu.loops import costs
from rlx.ir.errors import ArgumentError

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 40)).astype(np.float32)


def program(x):
    return rlx.nn.softmax(rlx.nn.gelu(x @ x) @ x) + rnp.cumsum(x, axis=0)


@pytest.mark.parametrize("tier", ["fast", "max"])
def test_results_are_the_same_to_the_last_bit(tier: str):
    for fn in (program, rlx.grad(lambda x: program(x).sum())):
        result = np.asarray(rlx.jit(fn, tier=tier)(X))
        assert result.tobytes() == np.asarray(rlx.jit(fn)(X)).tobytes()


def test_rounds_read_what_is_carried_each_time(monkeypatch: pytest.MonkeyPatch):
    """Optimized code does not keep the pointers of the first round."""
    monkeypatch.setattr(costs, "NANOSECONDS_PER_PART", 1)

    def rounds(x):
        def body(c, row):
            return rnp.tanh(c * row) + c, c.sum()

        return rlx.lax.scan(body, x[0], x)

    wanted = [np.asarray(a).tobytes() for a in rlx.jit(rounds)(X)]
    assert [np.asarray(a).tobytes() for a in rlx.jit(rounds, tier="max")(X)] == wanted


def test_each_tier_has_code_of_its_own(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    compile_beside = machine.compile_beside

    def compile(text: str, tier: str = "auto"):
        asked.append(tier)
        return compile_beside(text, tier)

    monkeypatch.setattr("rlx.backends.cpu.llvm.compiling.compile_beside", compile)
    with rlx.config.using(cache=False):
        for tier in ("fast", "auto", "max"):
            rlx.jit(lambda x: rnp.sin(x) * 3 + 41, tier=tier)(X)
            assert set(asked) == {tier}
            asked.clear()


def test_tiers_go_with_alike_rows_and_with_devices_that_have_none():
    f = rlx.jit(program, tier="max", deterministic="batch")
    assert (np.asarray(f(X)) == np.asarray(rlx.jit(program, deterministic="batch")(X))).all()
    expected = rlx.jit(program, device="reference")(X)
    assert (np.asarray(rlx.jit(program, tier="fast", device="reference")(X)) == expected).all()


def test_an_unknown_tier_is_an_error():
    with pytest.raises(ArgumentError, match="tier is 'slow'") as caught:
        rlx.jit(program, tier="slow")
    assert "give one of auto, fast, max" in str(caught.value)
