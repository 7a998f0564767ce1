"""What steps cost: measured by a clock, and how many tokens of prompts that lets in."""

from __future__ import annotations

import pytest

from rlx.serve.costs import NO_LIMIT, Costs, few_tokens, whole_share
from rlx.serve.pages import PagePool
from rlx.serve.steps import measured

GUESS = Costs(1.0, 2.0, 3.0, stretch=1.5)


class Machine:
    """Steps that take what some costs say, on a clock of its own."""

    def __init__(self, costs: Costs) -> None:
        self.costs, self.now, self.steps = costs, 0.0, 0

    def run(self, batch) -> None:
        positions, rows = batch.positions[batch.positions >= 0], len(batch.last)
        behind = self.costs.read if rows == 1 else self.costs.written
        cost = self.costs.step + len(positions) + positions.sum() / behind
        noise = 1 + self.steps % 3  # another program has the processors
        self.now, self.steps = self.now + 0.001 * cost * noise, self.steps + 1

    def clock(self) -> float:
        return self.now


def test_costs_are_those_of_the_machine():
    true, pool = Costs(6.0, 700.0, 1200.0, stretch=1.5), PagePool(1000, 16)
    machine = Machine(true)
    found = measured(GUESS, pool, 8, 64, machine.run, machine.clock)
    assert found.step == pytest.approx(true.step, abs=0.6)  # positions within the prompt count
    assert found.written == pytest.approx(true.written, rel=0.1)
    assert found.read == pytest.approx(true.read, rel=0.1)
    assert found.stretch == GUESS.stretch
    assert pool.available == pool.count


@pytest.mark.parametrize("pages, texts, tokens", [(1, 8, 64), (40, 8, 64), (1000, 8, 8)])
def test_a_guess_stands_where_nothing_can_be_measured(pages, texts, tokens):
    machine, pool = Machine(NO_LIMIT), PagePool(pages, 16)
    assert measured(GUESS, pool, texts, tokens, machine.run, machine.clock) is GUESS
    assert machine.steps == 0 and pool.available == pool.count


def test_a_clock_that_stands_still_says_nothing():
    pool = PagePool(1000, 16)
    assert measured(GUESS, pool, 8, 64, lambda batch: None, lambda: 0.0) is GUESS
    assert pool.available == pool.count


def test_steps_have_few_sizes():
    sizes = {few_tokens(count) for count in range(1, 257)}
    assert len(sizes) == 40
    assert all(count <= few_tokens(count) <= 1.125 * count + 1 for count in range(1, 2000))


def test_a_share_makes_a_step_of_one_of_few_sizes():
    for others in range(1, 40):
        for count in range(1, 60):
            share = whole_share(others, count, 10**6)
            total = others + share
            assert share > 0 and few_tokens(total) == total
            assert total <= others + count or total == few_tokens(others + count)
            assert whole_share(others, count, count) <= count
