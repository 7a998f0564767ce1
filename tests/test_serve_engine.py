"""The engine: whatever happens around a request, it gets the bits that it gets alone."""

from __future__ import annotations

import os
import random
import time

import numpy as np
import pytest
from small_served import Watch, adapter, engine, small_model

import rlx
from rlx.models import Completion
from rlx.serve import Engine, Ticket
from rlx.serve.costs import Costs

SCHEDULES = int(os.environ.get("SCHEDULES", "15"))


def test_random_schedules_give_the_bits_of_requests_alone(monkeypatch):
    lone = engine(40, 16, 64, 1)
    lone_watch = Watch(lone, monkeypatch)
    engines = [engine(10, 4, 8), engine(24, 3, 5), engine(6, 16, 32, guesses=3)]
    watches = [Watch(each, monkeypatch) for each in engines]
    known: dict[object, tuple[list[int], list[str]]] = {}

    def alone(prompt, options):
        key = (prompt, *sorted(options.items()))
        if key not in known:
            ticket = lone.submit(prompt, tenant=str(len(known)), **options)  # nothing is shared
            while lone.step():
                pass
            known[key] = ticket.completion().tokens, lone_watch.of(ticket)
        return known[key]

    preempted = 0
    for seed in range(SCHEDULES):
        draw, place = random.Random(seed), seed % len(engines)
        submitted = _run(draw, engines[place])
        preempted += engines[place].scheduler.preemptions
        for ticket, prompt, options in submitted:
            tokens, digests = alone(prompt, options)
            found = ticket.completion()
            if found.reason in ("stop", "length"):
                assert found.tokens == tokens
                assert watches[place].of(ticket) == digests
            else:
                assert watches[place].of(ticket) == digests[: len(watches[place].of(ticket))]
    assert preempted
    assert engines[2].guessed > engines[2].right > 0


def _run(draw: random.Random, engine: Engine) -> list[tuple[Ticket, tuple, dict]]:
    """Some requests that come, are cancelled and preempted at random."""
    submitted: list[tuple[Ticket, tuple, dict]] = []
    for _ in range(draw.randint(5, 15)):
        if draw.random() < 0.6:
            start = draw.choice([(5, 6, 7, 8, 9, 10), (5, 6, 7, 8, 9, 11, 12), (3,)])
            prompt = start + tuple(draw.randint(1, 4) for _ in range(draw.randint(0, 12)))
            options = {"max_tokens": draw.randint(1, 12)}
            if draw.random() < 0.5:
                options |= {"temperature": 1.0, "seed": draw.randint(0, 3)}
            if draw.random() < 0.3:
                options |= {"frequency_penalty": 0.5}
            if draw.random() < 0.6:
                options |= {"adapter": draw.choice(["one", "two"])}
            how = {"priority": draw.choice([0, 0, 1]), "tenant": draw.choice("ab")}
            submitted.append((engine.submit(prompt, **how, **options), prompt, options))
        if submitted and draw.random() < 0.1:
            engine.cancel(draw.choice(submitted)[0])
        engine.step()
    while engine.step():
        pass
    pool = engine.scheduler.pages
    assert engine.scheduler.is_idle and pool.available == pool.count
    return submitted


def test_an_engine_writes_what_the_model_writes():
    model, prompts = small_model(), [[5, 6, 7], [9] * 20, [1]]
    for options in ({}, {"temperature": 0.7, "top_k": 9, "seed": 3}, {"logprobs": 2}):
        wanted = model.generate(prompts, max_tokens=9, **options)
        found = engine(10, 4, 8).generate(prompts, max_tokens=9, **options)
        assert [x.tokens for x in found] == [x.tokens for x in wanted]
        assert [x.reason for x in found] == [x.reason for x in wanted]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)  # eps of logits near 10
            assert [list(x) for x in a.likeliest] == [list(x) for x in b.likeliest]


def test_a_window_and_other_dtypes_of_pages():
    prompt = [5, 6, 7, 8, 9, 10, 11]
    wanted = small_model(window=4).generate(prompt, max_tokens=12)
    assert engine(10, 4, 8, window=4).generate(prompt, max_tokens=12).tokens == wanted.tokens
    assert wanted.tokens != small_model().generate(prompt, max_tokens=12).tokens
    for dtype in ("bfloat16", "int8"):
        one = engine(10, 4, 8, dtype=dtype)
        alone = one.generate(prompt, max_tokens=6)
        assert one.generate([prompt, [3], [4, 4]], max_tokens=6)[0].tokens == alone.tokens


def test_a_prefix_is_not_computed_twice(monkeypatch):
    one, counts = engine(10, 4, 8), []
    plan = one.scheduler.plan

    def counted(now):
        chunks = plan(now)
        counts.append(sum(len(c.tokens) for c in chunks))
        return chunks

    monkeypatch.setattr(one.scheduler, "plan", counted)
    prompt = [7, 7, 8, 8, 9, 9, 1, 1, 2, 2]
    first = one.generate(prompt, max_tokens=2, tenant="prefix")
    before = sum(counts)
    again = one.generate(prompt, max_tokens=2, tenant="prefix")
    assert again == first and before == 11 and sum(counts) - before == 3
    one.generate(prompt, max_tokens=2, tenant="another")
    assert sum(counts) - before - 3 == 11  # a tenant finds nothing of another one


def test_streams_deadlines_and_cancelled_requests():
    now = [0.0]
    one = engine(10, 4, 8, clock=lambda: now[0])
    late = one.submit([5, 6], max_tokens=20, timeout=5.0)
    for _ in range(3):
        one.step()
    now[0] = 6.0
    one.step()
    assert late.reason == "deadline" and len(late.completion().tokens) == 3
    stream = one.stream([5, 6], max_tokens=20)
    assert list(stream) == [] and one.scheduler.is_idle  # without a tokenizer there is no text
    assert one.submit([5], max_tokens=0).reason == "length"
    del stream
    dropped = one.stream([5, 6], max_tokens=20)
    assert not one.scheduler.is_idle
    del dropped  # never asked for a piece
    assert one.scheduler.is_idle
    gone = one.submit([5, 6], max_tokens=20)
    one.cancel(gone), one.cancel(gone)
    assert gone.reason == "cancelled" and not one.step()


def test_what_an_engine_cannot_do_is_named():
    with pytest.raises(rlx.AttributeValueError, match="has no room for a page of 16 tokens"):
        Engine(small_model(), cache=100)
    with pytest.raises(rlx.AttributeValueError, match="cache is '1T'"):
        Engine(small_model(), cache="1T")
    message = "a prompt of 30 tokens and max_tokens=20 need room for 49 tokens, the cache has 40"
    with pytest.raises(rlx.AttributeValueError, match=message):
        engine(10, 4, 8).submit([1] * 30, max_tokens=20)
    with pytest.raises(rlx.BoundsError, match="there is no token 48"):
        engine(10, 4, 8).submit([48])
    with pytest.raises(rlx.ArgumentError, match="tenant is 3, not a text"):
        engine(10, 4, 8).submit([1], tenant=3)
    with pytest.raises(rlx.ArgumentError, match="timeout is 'soon'"):
        engine(10, 4, 8).submit([1], timeout="soon")


def test_more_prompts_than_may_wait_are_continued_and_an_error_ends_all():
    one = engine(10, 4, 8, max_waiting=2)
    prompts = [[1 + i % 5, 7] for i in range(9)]
    found = [x.tokens for x in one.generate(prompts, max_tokens=3)]
    assert found == [one.generate(p, max_tokens=3).tokens for p in prompts]
    with pytest.raises(rlx.BoundsError, match="there is no token 48"):
        one.generate([[1], [48]], max_tokens=3)
    assert one.scheduler.is_idle


def test_a_warm_engine_is_as_before():
    one = Engine(small_model(), cache="16K", page_size=4, step_tokens=8, max_sequences=3)
    first = one.generate([[5, 6, 7], [9] * 6], max_tokens=5)
    held = [np.asarray(x.key) for x in one._pages._pages]
    one.warm_up()
    for before, after in zip(held, one._pages._pages, strict=True):
        np.testing.assert_array_equal(before, np.asarray(after.key))
    assert one.generate([[5, 6, 7], [9] * 6], max_tokens=5) == first
    fresh = Engine(small_model(), cache="1M", page_size=4, max_sequences=3, poison=True)
    guess, pool = fresh.scheduler.costs, fresh.scheduler.pages
    fresh.warm_up()  # what it measures is written to pages, which it gives back
    assert fresh.scheduler.costs != guess and pool.available == pool.count
    assert fresh.generate([[5, 6, 7], [9] * 6], max_tokens=5) == first


def test_a_warm_engine_learns_from_its_steps_what_prompts_cost(monkeypatch):
    one = Engine(small_model(), cache="1M", page_size=4, max_sequences=3, step_tokens=8)
    one.warm_up()
    one.scheduler.costs = Costs(4.0, 1e6, 1e6, stretch=1.75)
    now, compute = 0.0, one._pages

    def computed(steps, batch, stacks):  # a token of a prompt takes as long as three texts
        nonlocal now
        now += 0.001 * (4 + len(batch.last) + 3 * (len(batch.ids) - len(batch.last)))
        return compute(steps, batch, stacks)

    monkeypatch.setattr(one, "_pages", computed)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    writer = one.submit([5, 6, 7], max_tokens=60)
    for _ in range(12):
        one.step()
    assert one.scheduler.costs.dear == 1
    one.submit([9] * 40, max_tokens=1)
    while not writer.reason:
        one.step()
    assert 2 < one.scheduler.costs.dear <= 4


def test_a_listener_that_raises_ends_its_own_request_alone():
    one, wanted = engine(10, 4, 8), engine(10, 4, 8).generate([5, 6], max_tokens=6)
    heard: list[int] = []

    def raising() -> None:
        heard.append(1)
        raise KeyError("mine")

    bad = one.submit([5, 6], max_tokens=6, listener=raising)
    good = one.submit([5, 6], max_tokens=6, listener=lambda: heard.append(0))
    while one.step():
        pass
    assert bad.reason == "error" and isinstance(bad.error, KeyError)
    assert good.completion() == wanted and good.error is None
    assert heard.count(1) == 1 and heard.count(0) == 7  # each token, and the end


def test_a_step_that_fails_ends_the_engine(monkeypatch):
    one = Engine(small_model(), cache="16K", page_size=4, step_tokens=8, max_sequences=4)
    tickets = [one.submit([5, 6], max_tokens=4) for _ in range(2)]
    streamed = one.stream([5, 7], max_tokens=4)
    monkeypatch.setattr(one, "_draw", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        one.step()
    assert [t.reason for t in tickets] == ["error", "error"]
    error = one.error
    for ask in (lambda: one.generate([5, 6]), one.step, lambda: list(streamed)):
        with pytest.raises(rlx.DeviceFailure, match="a step raised ZeroDivisionError") as found:
            ask()
        assert found.value.__cause__ is error is one.error


@pytest.mark.parametrize("device", ["reference", "xla"])
def test_other_devices(device):
    def written() -> tuple[list[Completion], list[str], Engine]:
        how = {"page_size": 4, "step_tokens": 8, "max_sequences": 4, "guesses": 2}
        one = Engine(small_model(), cache="16K", adapters=2, adapter_rank=2, **how)
        for name, seed in (("one", 1), ("two", 2)):
            one.adapters.attach(name, adapter(seed))
        start, again = [5, 6, 7, 5, 6, 7, 5, 6], {"temperature": 0.7, "seed": 3}
        asked = [(start, None, {}), (start, "one", {}), ([9, 9, 9], "two", again)]
        tickets = [one.submit(p, adapter=x, max_tokens=4, **how) for p, x, how in asked]
        one.step()
        one.cancel(tickets[1])
        while one.step():
            pass
        tickets.append(one.submit(start, max_tokens=4))  # finds its beginning in the cache
        while one.step():
            pass
        assert one.computed < sum(len(p) for p, *_ in [*asked, asked[0]]) + 16 + one.guessed
        return [x.completion() for x in tickets], [x.reason for x in tickets], one

    wanted, reasons, _ = written()
    with rlx.device(device):
        found, theirs, one = written()
    assert theirs == reasons and "cancelled" in reasons and one.guessed
    assert [x.tokens for x in found] == [x.tokens for x in wanted]
    assert found[3].tokens == found[0].tokens != []


@pytest.mark.parametrize("device", ["opencl", "webgpu"])
def test_devices_of_kernels_give_the_bits_of_requests_alone(device, monkeypatch):
    """In a batch, in chunks, after a prefix was found, and preempted."""
    if not rlx.Device(device).is_available():
        pytest.skip(f"there is no device {device}")
    if rlx.Session(device).backend.invariant_target is None:
        pytest.skip(f"the driver of {device} adds in another order")
    with rlx.device(device):
        how = {"page_size": 4, "step_tokens": 8, "max_sequences": 2}
        one = Engine(small_model(), cache="16K", poison=True, **how)
        watch = Watch(one, monkeypatch)
        long, short = [5, 6, 7, 8, 9, 10, 11, 12, 13], [9, 9, 9]

        def written(*prompts: list[int], tenant: str, urgent: bool = False) -> list[list[str]]:
            tickets = [one.submit(x, max_tokens=4, tenant=tenant) for x in prompts]
            if urgent:
                for _ in range(3):
                    one.step()
                tickets.append(one.submit(short, max_tokens=4, priority=1))
            while one.step():
                pass
            return [watch.of(ticket) for ticket in tickets]

        (alone,), (other,) = written(long, tenant="a"), written(short, tenant="a")
        assert len(alone) == len(other) == 4
        assert written(long, short, tenant="b") == [alone, other]
        computed = one.computed
        assert written(long, tenant="b") == [alone]
        assert one.computed - computed < len(long) + 3  # a part was found
        assert written(short, long, tenant="c", urgent=True) == [other, alone, other]
        assert one.scheduler.preemptions


def test_an_engine_stays_on_its_device():
    model, options = small_model(), {"max_tokens": 3, "temperature": 1.0, "seed": 3, "logprobs": 2}
    with rlx.device("reference"):
        engine = Engine(model, cache="100K", page_size=4, step_tokens=8, max_sequences=2)
        wanted = engine.generate([1, 2, 3], **options)
    assert engine.generate([1, 2, 3], **options) == wanted
    engine.swap_weights(model.weights)
    assert engine.generate([1, 2, 3], **options) == wanted and engine._steps.device == "reference"
    with pytest.raises(rlx.AttributeValueError, match="timeout is nan"):
        engine.submit([1], timeout=float("nan"))


def test_a_ticket_of_another_engine_is_not_cancelled():
    one, other = engine(20, 4, 16), Engine(small_model(), cache="100K", page_size=4)
    ticket = other.submit([1, 2], max_tokens=3)
    with pytest.raises(rlx.AttributeValueError, match="the ticket is of another engine"):
        one.cancel(ticket)
    assert not ticket.reason and len(one.generate([1, 2], max_tokens=3).tokens) <= 3
    other.cancel(ticket), one.cancel(ticket)  # which has ended
