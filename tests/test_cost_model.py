"""The cost model: what is counted, its arithmetic with made-up rates, which device is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import DeviceUnavailable
from rlx.ir.graph import OPS
from rlx.ir.types import Type
from rlx.lower.cost import StepCost, step_costs
from rlx.lower.pipeline import lower
from rlx.lower.target import Target
from rlx.runtime.session import default_session
from rlx.tools import calibrate
from rlx.tools.calibrate import is_whole, measured, rates_of
from rlx.tools.costs import FACTORIZATIONS, Candidate, Curve, Explanation, Rates, predict

FLAT = Curve(((1.0, 1e-9),))  # a nanosecond for each
RATES = Rates(
    1e-6,
    1e-7,
    1e-8,
    1e-9,
    {"stream": FLAT, "product float32": FLAT, "additions": FLAT, "series": FLAT, "gather": FLAT},
)


PRODUCT = "product float32"


def counted(fn: Callable[..., Any], *args: Any) -> list[StepCost]:
    return step_costs(lower(rlx.make_graph(fn)(*args), Target("counted")).program)


# -- counts ---------------------------------------------------------------------------------------


def test_a_product():
    (step,) = counted(lambda x, y: x @ y, rnp.ones((8, 4)), rnp.ones((4, 6)))
    assert step.work == {PRODUCT: 2 * 8 * 4 * 6}
    assert step.nbytes == step.far == step.within == 4 * (8 * 4 + 4 * 6 + 8 * 6)
    (low,) = counted(lambda x: x @ x, rnp.ones((4, 4), "bfloat16"))
    assert low.work["product bfloat16"] == 2 * 4**3


def test_instructions_by_their_kind():
    (step,) = counted(lambda x: rnp.exp(x * 2.0 + 1.0), rnp.ones(100))
    assert (step.work, step.nbytes) == ({"additions": 200, "series": 1500}, 800)


def test_computed_and_far_places():
    i = np.arange(50, dtype=np.int32)
    (step,) = counted(lambda x, i: x[i], rnp.ones(100), i)
    assert step.work["gather"] == 50
    assert step.nbytes == 3 * 4 * 50  # no more of the table than there are places
    (step,) = counted(lambda x: x.T + 0.0 * x.T, rnp.ones((30, 20)))
    assert step.work["strided"] == 600


def test_loops_and_branches_run_as_often_as_they_do():
    w = rnp.ones((4, 4))
    steps = counted(lambda c: rlx.fori_loop(0, 7, lambda i, c: rnp.tanh(c @ w), c), w)
    assert sum(s.times * s.work.get(PRODUCT, 0) for s in steps) == 7 * 2 * 4**3
    dear, cheap = (lambda x: rnp.exp(x) @ w), (lambda x: x)
    steps = counted(lambda p, x: rlx.cond(p, dear, cheap, x), np.array(True), w)
    assert sum(s.times * s.work.get("series", 0) for s in steps) == 15 * 16


# -- arithmetic -----------------------------------------------------------------------------------


def test_curves():
    curve = Curve(((10.0, 1.0), (1000.0, 10.0)))
    assert curve.seconds(0) == 0
    assert curve.seconds(5) == 0.5
    assert curve.seconds(10) == 1.0
    assert curve.seconds(100) == pytest.approx(10**0.5)
    assert curve.seconds(2000) == 20.0


def test_a_step_waits_for_the_slower_of_both():
    slow, fast = StepCost(1, {"additions": 300}, 100), StepCost(2, {"additions": 10}, 50)
    made = predict(RATES, [slow, fast], leaves=4, places=5)
    assert made.compute == pytest.approx(300e-9)
    assert made.memory == pytest.approx(100e-9)
    assert made.launches == pytest.approx(1e-6 + 3 * 1e-7 + 2 * 1e-8 + 5e-9)
    assert made.seconds == pytest.approx(made.compute + made.memory + made.launches)


def test_products_read_before_they_compute():
    made = predict(RATES, [StepCost(1, {PRODUCT: 300, "additions": 20}, 100)])
    assert (made.compute, made.memory) == pytest.approx((300e-9, 100e-9))


def test_what_is_spread_over_much_lies_far():
    rates = Rates(0, 0, 0, 0, {"stream": Curve(((100.0, 1e-9), (1000.0, 100e-9)))})
    near, far = StepCost(nbytes=100), StepCost(nbytes=100, far=100, within=1000)
    assert predict(rates, [near]).memory == pytest.approx(1e-9)
    assert predict(rates, [far]).memory == pytest.approx(10e-9)


def test_what_was_not_measured_follows_from_what_was():
    assert RATES.seconds("product float64", 100) == pytest.approx(200e-9)
    assert RATES.seconds("sort", 100) == pytest.approx(500e-9)
    assert RATES.seconds("put", 100) == 0.0


def test_transfers():
    curves = {"put": Curve(((50.0, 50e-9), (500.0, 500e-9))), "get": Curve(((1.0, 2e-9),))}
    made = predict(Rates(0, 0, 0, 0, curves), [], given=[100, 4], taken=[10])
    assert made.transfer == pytest.approx(100e-9 + 50e-9 + 20e-9)  # small ones wait, too


# -- devices --------------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Rates]]:
    """Rates by device, instead of measured ones; one that is not named is slow."""
    known: dict[str, Rates] = {}
    slow = Rates(1.0, 0.0, 0.0, 0.0, RATES.curves)
    monkeypatch.setattr(calibrate, "rates", lambda device: known.get(device, slow))
    yield known


def test_the_table(made_up: dict[str, Rates]):
    made_up["cpu"] = RATES
    table = rlx.explain_device(lambda x: x @ x, rnp.ones((4, 4)))
    assert table.best == "cpu"
    assert {"cpu", "reference"} <= {c.device for c in table.candidates}
    head, first = str(table).splitlines()[1:3]
    assert head.split() == "device predicted compute memory launches transfer".split()
    # a call, a step, 2 * 4**3 operations and 2 * 4**3 bytes
    assert first.split()[:3] == ["cpu", "1.36", "us"]
    absent = [c for c in table.candidates if c.prediction is None]
    assert all(c.reason for c in absent)


def test_auto_takes_the_least(made_up: dict[str, Rates]):
    made_up["reference"] = RATES
    f = rlx.jit(lambda x: x + 1.0, device="auto")
    x = rnp.ones(3)
    assert f(x).tolist() == f(x).tolist() == [2.0, 2.0, 2.0]
    assert f.lower(x).compile().compiled.device == "reference"
    made_up.clear()
    made_up["cpu"] = RATES
    y = rnp.ones(4)  # another kind of arguments chooses anew
    assert f.lower(y).compile().compiled.device == "cpu"
    assert rlx.jit(lambda x: f(x) * 2.0)(x).tolist() == [4.0, 4.0, 4.0]


def test_no_device_is_an_error():
    table = Explanation("f", (Candidate("a", None, "it is not here"),))
    with pytest.raises(DeviceUnavailable, match="a: it is not here"):
        _ = table.best


def test_a_calibration_measures_each_kind():
    times = measured(default_session("cpu"), longest=60.0)
    assert is_whole(times)
    found = rates_of(times)
    kinds = {"stream", "additions", "series", "scan", "sort", "strided", "gather", "scatter"}
    kinds |= {"library", "product float32", "product bfloat16", "product int8"}
    assert kinds <= set(found.curves)
    assert all(t > 0 for curve in found.curves.values() for _, t in curve.points)
    assert found.call > 0


def test_a_calibration_goes_on_where_the_last_one_ended():
    session = default_session("reference")
    first = measured(session, longest=0.0)
    assert not is_whole(first)
    assert set(rates_of(first).curves) == {"stream", "product float32"}
    times = {probed: 1e-9 for probed in first}
    again = measured(session, longest=0.5, known=times)
    assert len(again) > len(first)
    assert all(again[probed] == 1e-9 for probed in first if probed[0] != "checks")


def test_rates_follow_from_times():
    times = {("call", 1.0): 1e-6, ("product float32", 1024.0): 3e-6, ("rounds", 64.0): 321e-6}
    times |= {("leaves", 10.0): 2e-6, ("place", 10.0): 1e-6, ("sort", 8.0): None}
    found = rates_of(times)
    assert {kind: c.seconds(1024) for kind, c in found.curves.items()} == {
        "product float32": pytest.approx(2e-6)
    }
    assert (found.call, found.leaf, found.place) == pytest.approx((1e-6, 1e-7, 1e-7))
    assert found.step == pytest.approx(5e-6 - 2e-6)


def test_what_expressions_share_is_looked_at_once():
    def doubled(x):
        for _ in range(60):  # seen from the end, each line stands there twice as often
            x = x * rnp.sin(x)
        return x

    graph = rlx.make_graph(doubled)(np.ones(8, np.float32))
    (cost,) = step_costs(lower(graph, Target("cpu")).program)
    assert cost.nbytes == 64


LINALG = sorted(n for n, op in OPS.items() if op.module.startswith("rlx.ir.ops.linalg."))


@pytest.mark.parametrize("name", [n for n in LINALG if n != "lu_pivots_to_permutation"])
def test_rooms_of_linear_algebra_say_how_much_a_library_computes(name: str) -> None:
    op = OPS[name]
    assert op.rules.library_work is not None
    kind, count = op.rules.library_work
    assert kind in FACTORIZATIONS
    others = [() if n == "cutoff" else None for n in op.operand_names[1:]]

    def of(*shape: int) -> float:
        types = [Type(np.dtype("float32"), shape if s is None else s) for s in (None, *others)]
        return count(*types, **op.complete({}))

    assert 7.5 < of(2000, 2000) / of(1000, 1000) < 8.5  # all grow with the cube of the side
    assert of(5, 40, 40) == 5 * of(40, 40)
    assert of(1, 1) > 0


def test_sorts_count_comparisons_and_while_loops_say_that_they_do_not_count() -> None:
    cpu = default_session("cpu").backend.target

    def sort(x: Any) -> Any:
        return rnp.sort(x, -1)

    def of(*shape: int) -> float:
        program = lower(rlx.make_graph(sort)(rlx.spec(shape)), cpu).program
        return sum(cost.work.get("sort", 0.0) for cost in step_costs(program))

    assert of(1 << 14) / of(1 << 13) == pytest.approx(2 * 14 / 13)
    assert of(3, 1 << 13) == 3 * of(1 << 13)
    again = rlx.explain_device(lambda x: rlx.while_loop(lambda c: c < 9, lambda c: c + 1, x), 0)
    assert "a while loop: one round counted" in str(again)
    assert "one round" not in str(rlx.explain_device(lambda x: x + 1, 0))
