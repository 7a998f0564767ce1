"""The scheduler: whatever happens, each request writes what it writes alone."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from rlx.ir.errors import AttributeValueError, QueueFullError
from rlx.serve.costs import NO_LIMIT, Costs
from rlx.serve.pages import PagePool
from rlx.serve.scheduler import BESIDE, Request, Scheduler
from tests.served import Memory, alone, run_step

SCHEDULES = int(os.environ.get("SCHEDULES", "300"))
DEPTH = int(os.environ.get("INTERLEAVED", "4"))


def machine(pages=6, size=2, **options) -> tuple[Scheduler, Memory]:
    pool = PagePool(pages, size)
    return Scheduler(pool, **({"step_tokens": 4, "max_sequences": 3} | options)), Memory(pool)


def finish(scheduler: Scheduler, memory: Memory) -> None:
    for _ in range(1000):
        if scheduler.is_idle:
            break
        assert run_step(scheduler, memory)
    assert scheduler.is_idle
    assert scheduler.pages.available == scheduler.pages.count


def check(requests: list[Request]) -> None:
    for request in requests:
        expected = alone(request)
        if request.finished in ("stop", "length"):
            assert request.output == expected
        else:
            assert request.finished in ("cancelled", "deadline")
            assert request.output == expected[: len(request.output)]


def test_each_schedule_gives_what_requests_give_alone():
    preempted = 0
    for seed in range(SCHEDULES):
        draw = random.Random(seed)
        scheduler, memory = machine(
            draw.randint(4, 9),
            draw.randint(1, 3),
            step_tokens=draw.randint(3, 9),
            costs=draw.choice([NO_LIMIT, Costs(1.0, 4.0, 4.0, 1.5)]),
        )
        requests = []
        for now in range(draw.randint(5, 30)):
            for _ in range(draw.choice([0, 0, 1, 2])):
                requests.append(_random_request(draw, scheduler, requests))
            if requests and draw.random() < 0.15:
                scheduler.cancel(draw.choice(requests))
            run_step(scheduler, memory, now, draw if seed % 2 else None)
        finish(scheduler, memory)
        check(requests)
        assert sorted(map(id, scheduler.take_ended())) == sorted(map(id, requests))
        preempted += scheduler.preemptions
    assert preempted > SCHEDULES / 10  # else this shows less than it says


def _random_request(draw: random.Random, scheduler: Scheduler, others: list[Request]) -> Request:
    room = scheduler.pages.count * scheduler.pages.size
    count = draw.randint(1, room - 1)
    sibling = draw.choice(others) if others and draw.random() < 0.2 else None
    prompt = sibling.prompt if sibling else tuple(draw.choice([1, 1, 2]) for _ in range(count))
    request = Request(
        prompt,
        draw.randint(1, room - len(prompt) + 1),
        priority=draw.choice([0, 0, 1, 2]),
        tenant=draw.choice("ab"),
        root=draw.choice([b"", b"b"]),
        stop_tokens=draw.choice([(), (3, 4, 5)]),
        deadline=draw.choice([None, None, None, 20.0]),
        after=sibling,
    )
    return scheduler.submit(request)


EVENTS = ("submit first", "submit second", "submit third", "step", "cancel first", "cancel second")


@pytest.mark.parametrize("start", EVENTS[:3])
def test_all_interleavings_of_three_requests_and_six_events(start):
    for rest in itertools.product(EVENTS, repeat=DEPTH):
        scheduler, memory = machine(pages=4, max_sequences=2)
        requests = {
            "first": Request([1, 1, 1, 2], 3),
            "second": Request([1, 1, 1, 2, 2], 2, priority=1, tenant="b"),
            "third": Request([1, 1, 2], 4),
        }
        submitted = []
        for event in (start, *rest):
            if event == "step":
                run_step(scheduler, memory)
                continue
            kind, name = event.split()
            if kind == "submit" and requests[name] not in submitted:
                submitted.append(scheduler.submit(requests[name]))
            elif kind == "cancel" and requests[name] in submitted:
                scheduler.cancel(requests[name])
        finish(scheduler, memory)
        check(submitted)


def test_decodes_come_before_a_long_prompt():
    scheduler, memory = machine(pages=20, step_tokens=4)
    writer = scheduler.submit(Request([1], 12))
    run_step(scheduler, memory)
    scheduler.submit(Request([2] * 20, 1))
    for count in range(2, 8):
        run_step(scheduler, memory)
        assert len(writer.output) == count  # a token each step
    finish(scheduler, memory)


def test_prompts_stretch_a_step_of_those_who_write_only_so_much():
    costs = Costs(step=4.0, written=10.0, read=20.0, stretch=3.0)
    scheduler, memory = machine(pages=60, step_tokens=16, costs=costs)
    reading = scheduler.submit(Request([2] * 40, 1))
    assert len(scheduler.plan(0.0)[0].tokens) == 16  # nobody writes
    memory.poison()
    memory.write(reading.table, 0)
    scheduler.complete({})
    writer = scheduler.submit(Request([1], 30))
    run_step(scheduler, memory)
    while reading.finished is None:
        assert len(writer.output) > 0
        before = len(reading.table.tokens), len(writer.table.tokens)
        run_step(scheduler, memory)
        if reading.finished is None:
            count = len(reading.table.tokens) - before[0]
            room = 2 * (4 + 1 + before[1] / 10) + 3  # as if it were written, too
            assert count == 1 or costs.price(1, count, before[0]) <= room
            assert count == 15 or costs.price(1, count + 1, before[0]) > room
    finish(scheduler, memory)
    check([reading, writer])


def test_prompts_get_one_token_beside_those_who_write_if_there_is_no_room():
    costs = Costs(step=4.0, written=1.0, read=1.0, stretch=1.0, dear=100.0)
    scheduler, memory = machine(pages=60, step_tokens=16, costs=costs)
    writes = scheduler.submit(Request([1], 3))
    run_step(scheduler, memory)
    reads = [scheduler.submit(Request([i] * 9, 2)) for i in (5, 6)]
    for _ in range(2):
        run_step(scheduler, memory)
    assert writes.finished and [x.lacking for x in reads] == [7, 9]  # one of the first each time
    finish(scheduler, memory)
    check([writes, *reads])


@pytest.mark.parametrize("count", [BESIDE + 1, 100])
def test_now_and_then_texts_are_written_alone(count):
    costs = Costs(step=4.0, written=10.0, read=20.0, stretch=1.0)
    scheduler, memory = machine(pages=200, step_tokens=16, costs=costs)
    writes = scheduler.submit(Request([1], count))
    run_step(scheduler, memory)
    reads = scheduler.submit(Request([2] * 80, 1))
    for _ in range(BESIDE):
        before = reads.lacking
        run_step(scheduler, memory)
        assert reads.lacking < before
    before = reads.lacking
    run_step(scheduler, memory)  # where all texts have ended, prompts go on
    assert (reads.lacking == before) == (writes.finished is None)
    finish(scheduler, memory)
    check([reads, writes])


def test_a_tenant_with_many_requests_does_not_hold_up_another():
    scheduler, memory = machine(pages=20, max_sequences=1, step_tokens=4)
    many = [scheduler.submit(Request([1, k], 4, tenant="many")) for k in range(8)]
    run_step(scheduler, memory)
    few = scheduler.submit(Request([2], 4, tenant="few"))
    while few.finished is None:
        run_step(scheduler, memory)
    assert sum(r.finished is not None for r in many) <= 2
    finish(scheduler, memory)


def test_the_urgent_take_the_place_of_others_who_lose_nothing():
    scheduler, memory = machine(pages=4)
    slow = scheduler.submit(Request([1, 2, 3], 6))
    for _ in range(4):
        run_step(scheduler, memory)
    urgent = scheduler.submit(Request([4, 4, 4], 6, priority=1))
    run_step(scheduler, memory)
    assert slow.table is None and urgent.table is not None and scheduler.preemptions == 1
    finish(scheduler, memory)
    check([slow, urgent])


def test_nobody_is_preempted_in_vain():
    scheduler, memory = machine(pages=4)
    low = scheduler.submit(Request([1], 2, priority=0))
    high = scheduler.submit(Request([2], 6, priority=2))
    run_step(scheduler, memory)
    middle = scheduler.submit(Request([3], 8, priority=1))  # what low has is not enough
    run_step(scheduler, memory)
    assert scheduler.preemptions == 0 and low.finished == "length"
    finish(scheduler, memory)
    check([low, high, middle])


def test_who_comes_late_has_saved_up_no_turns():
    scheduler, memory = machine(pages=20, max_sequences=1, step_tokens=4)
    early = [scheduler.submit(Request([1, k], 4, tenant="early")) for k in range(12)]
    for _ in range(24):
        run_step(scheduler, memory)
    done = sum(r.finished is not None for r in early)
    late = [scheduler.submit(Request([2, k], 4, tenant="late")) for k in range(12)]
    for _ in range(24):
        run_step(scheduler, memory)
    assert sum(r.finished is not None for r in early) - done >= 2
    assert sum(r.finished is not None for r in late) >= 2


def test_a_request_is_cancelled_while_its_step_runs():
    scheduler, memory = machine()
    request, other = (scheduler.submit(Request([1, k], 3)) for k in (1, 2))
    chunks = scheduler.plan(now=0.0)
    scheduler.cancel(request)
    memory.poison()
    memory.write(other.table, 0)
    assert len(chunks) == 2
    scheduler.complete({c.request: alone(c.request)[:1] for c in chunks})
    finish(scheduler, memory)
    assert request.finished == "cancelled" and request.output == []
    check([other])


def test_samples_of_one_prompt_share_it():
    scheduler, memory = machine(pages=8, size=2)
    first = scheduler.submit(Request([1, 2, 3, 4, 5], 3))
    second = scheduler.submit(Request([1, 2, 3, 4, 5], 3, after=first))
    run_step(scheduler, memory)
    assert second.table is None
    run_step(scheduler, memory)
    run_step(scheduler, memory)
    assert second.table.pages[:2] == first.table.pages[:2]
    finish(scheduler, memory)
    check([first, second])


def test_what_cannot_be_served_is_refused():
    scheduler, _ = machine(pages=4, size=2, max_waiting=1)
    message = "a prompt of 5 tokens and max_tokens=5 need room for 9 tokens, the cache has 8"
    with pytest.raises(AttributeValueError, match=message):
        scheduler.submit(Request([1] * 5, 5))
    with pytest.raises(AttributeValueError, match="an empty prompt"):
        Request([], 1)
    with pytest.raises(AttributeValueError, match="a step of 2 tokens has no room"):
        machine(step_tokens=2)
    scheduler.submit(Request([1], 1))
    with pytest.raises(QueueFullError, match="1 requests wait already"):
        scheduler.submit(Request([1], 1))


def test_a_deadline_ends_a_request_where_it_is():
    scheduler, memory = machine()
    request = scheduler.submit(Request([1, 2], 8, deadline=3.0))
    for now in range(4):
        run_step(scheduler, memory, now)
    assert request.finished == "deadline" and len(request.output) == 3
    assert scheduler.take_ended() == [request]
    check([request])


def test_guesses_save_steps_and_change_nothing():
    scheduler, memory = machine(pages=20, step_tokens=4, max_sequences=2)
    request = scheduler.submit(Request([1, 2, 3], 8, tenant="a"))
    wanted = alone(request)
    scheduler.plan(0.0)
    assert scheduler.guess(request, wanted[0]) and not scheduler.guess(request, 1)  # 4 at a time
    assert not scheduler.guess(Request([1], 1), 1)
    memory.poison()
    memory.write(request.table, 0)
    scheduler.complete({request: wanted[:2]})
    assert request.output == wanted[:2] and request.lacking == 1
    scheduler.plan(0.0)
    assert all(scheduler.guess(request, 49 - wanted[2]) for _ in range(3))
    memory.poison()
    memory.write(request.table, 4)
    scheduler.complete({request: wanted[2:3]})
    assert request.output == wanted[:3] and len(request.table.tokens) == 5
    finish(scheduler, memory)
    check([request])


def test_a_request_is_submitted_once():
    scheduler, memory = machine(pages=4)
    request = scheduler.submit(Request([1], 1))
    with pytest.raises(AttributeValueError, match="was submitted before"):
        scheduler.submit(request)
    finish(scheduler, memory)
    with pytest.raises(AttributeValueError, match="was submitted before"):
        scheduler.submit(request)
