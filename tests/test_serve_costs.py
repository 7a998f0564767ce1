"""What steps cost: measured by a clock, and how many tokens of prompts that lets in."""

from __future__ import annotations

import pytest

from rlx.serve.costs import ALL, NO_LIMIT, Costs, few_tokens
from rlx.serve.pace import DEAR, Pace
from rlx.serve.pages import PagePool
from rlx.serve.scheduler import Chunk, Request, Scheduler
from rlx.serve.steps import measured

GUESS = Costs(1.0, 2.0, 3.0, stretch=1.5)


class Machine:
    """Steps that take what some costs say, on a clock of its own."""

    def __init__(self, costs: Costs) -> None:
        self.costs, self.now, self.steps = costs, 0.0, 0

    def run(self, batch) -> None:
        places = batch.positions[batch.positions >= 0]
        texts, prompt = places[: len(batch.last)], places[len(batch.last) :]
        cost = self.costs.step + len(texts) + texts.sum() / self.costs.written
        if len(prompt):
            cost += self.costs.price(len(texts), len(prompt), prompt[0])
        noise = 1 + self.steps % 3  # another program has the processors
        self.now, self.steps = self.now + 0.001 * cost * noise, self.steps + 1

    def clock(self) -> float:
        return self.now


def test_costs_are_those_of_the_machine():
    true, pool = Costs(6.0, 700.0, 1200.0, stretch=1.5), PagePool(1000, 16)
    machine = Machine(true)
    found = measured(GUESS, pool, 8, 64, machine.run, machine.clock)
    assert found.step == pytest.approx(true.step, rel=0.01)
    assert found.written == pytest.approx(true.written, rel=0.01)
    assert found.read == pytest.approx(true.read, rel=0.01)
    assert found.stretch == GUESS.stretch
    assert pool.available == pool.count


@pytest.mark.parametrize("pages, texts, tokens", [(1, 8, 64), (17, 8, 64), (1000, 8, 8)])
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


def test_a_share_is_the_most_that_there_is_room_for():
    costs = Costs(4.0, 700.0, 1000.0, stretch=1.75, dear=1.25)
    for others in range(1, 20):
        for before in (0, 500, 4000):
            for room in (0.5, 5.0, 11.0, 40.0):
                count = costs.share(room, others, 60, before)
                assert count == 0 or costs.price(others, count, before) <= room
                assert count == 60 or costs.price(others, count + 1, before) > room
    assert NO_LIMIT.share(NO_LIMIT.room(8, 0, 1), 8, 60, 4000) == 60


def test_tokens_that_fill_up_a_size_cost_what_is_computed():
    costs = Costs(4.0, 700.0, 1000.0, stretch=1.75)
    assert costs.price(8, 3, 0) == costs.price(8, 4, 0) == 4
    assert costs.price(8, 3, 1000) == 4 + 3 + ALL


def step_of(count: int, before: int) -> list[Chunk]:
    """Eight texts behind 100 tokens, and so many tokens of a prompt."""
    chunks = [Chunk(Request([1], 9), 100, (1,), True) for _ in range(8)]
    return chunks + [Chunk(Request([1], 9), before, (1,) * count, False)] * bool(count)


def seconds_of(costs: Costs, count: int, before: int) -> float:
    """What such a step takes on a machine of some costs, whose unit is a millisecond."""
    now = costs.step + 8 + 800 / costs.written
    return 0.001 * (now + (costs.price(8, count, before) if count else 0))


@pytest.mark.parametrize("dear", [0.5, 1.0, 3.0])
def test_steps_tell_how_dear_prompts_are_whatever_disturbs_a_few(dear):
    given = Costs(4.0, 700.0, 1000.0, stretch=1.75)
    true, pace, found = Costs(4.0, 700.0, 1000.0, 1.75, dear), Pace(), given
    for kind in ((0, 0), (6, 1000)):
        for step in range(40):
            noise = 5 if step % 5 == 0 else 1  # another program has the processors
            taken = noise * seconds_of(true, *kind)
            found = pace.mended(found, step_of(*kind), taken)
        if kind == (0, 0):
            assert found == given
    assert found.dear == pytest.approx(dear) and found.step == given.step


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_machine_of_another_speed_has_the_same_prices_while_prompts_come(factor):
    true = Costs(4.0, 700.0, 1000.0, stretch=1.75)
    scheduler = Scheduler(PagePool(4000, 16), step_tokens=64, max_sequences=9, costs=true)
    for _ in range(8):
        scheduler.submit(Request([1], 2000, root=b"text"))
    pace, longest = Pace(), []
    for step in range(800):
        if step >= 20 and len(scheduler.running) == 8:  # the last prompt has been read
            scheduler.submit(Request([2] * 300, 1, root=b"%d" % step))
        chunks = scheduler.plan(0.0)
        writing = true.writes(8, sum(x.start for x in chunks[:8]))
        cost = writing + sum(true.price(8, len(x.tokens), x.start) for x in chunks[8:])
        longest.append(cost / writing)
        seconds = cost * (factor if step > 200 else 1.0)
        scheduler.complete({x.request: [3] for x in chunks if x.is_last})
        scheduler.costs = pace.mended(scheduler.costs, chunks, seconds)
    assert scheduler.costs.dear == pytest.approx(1.0)
    assert max(longest[-200:]) < 2.0  # it is `stretch`, and what a size of steps adds


def test_steps_of_few_texts_say_nothing_about_those_of_many():
    costs = given = Costs(4.0, 700.0, 1000.0, stretch=1.75)
    pace, alone = Pace(), {1: 1.5, 8: 1.0}  # by how much they take longer than their costs say
    for count, others, dear in ((1, 0, 1.0), (1, 6, 0.5), (8, 0, 1.0), (8, 6, 1.0), (1, 0, 0.5)):
        for _ in range(40):
            chunks = step_of(others, 0)[8 - count :]
            writing = alone[count] * given.writes(count, 100 * count)
            reading = given.price(count, others, 0) if others else 0.0
            seconds = writing + reading * (1.0 if count == 8 else 0.75)
            costs = pace.mended(costs, chunks, seconds)
        assert costs.dear == pytest.approx(dear)


def test_no_chunk_is_compared_with_others(monkeypatch):
    def compared(one, other):
        raise AssertionError("for 256 texts that takes 5 ms of each step")

    monkeypatch.setattr(Chunk, "__eq__", compared)
    pace, costs = Pace(), Costs(4.0, 700.0, 1000.0, stretch=1.75)
    assert pace.mended(costs, step_of(6, 0), 0.1) is costs


def test_what_steps_tell_has_bounds_and_needs_some_of_them():
    costs = Costs(4.0, 700.0, 1000.0, stretch=1.75)
    pace, steps = Pace(), [step_of(0, 0)] * 8
    for chunks in steps:
        costs = pace.mended(costs, chunks, seconds_of(costs, 0, 0))
    assert pace.mended(costs, step_of(6, 0), 9.0) is costs  # one says nothing
    assert pace.mended(costs, step_of(6, 0)[8:], 9.0) is costs  # nobody waits
    assert pace.mended(costs, step_of(6, 0), 0.0) is costs  # a clock that stands still
    for _ in range(8):
        costs = pace.mended(costs, step_of(6, 0), 9.0)
    assert costs.dear == DEAR
