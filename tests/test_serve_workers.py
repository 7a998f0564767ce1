"""Engines in processes that die: every stream ends with the undisturbed text."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from llama_writer import write_llama

import rlx
from rlx.serve import Engine, Workers, lanes, wire, worker
from rlx.serve.writer import COUNTERS
from rlx.trace import pytree
from rlx.workers import rings
from rlx.workers.process import START, Life, Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits are Linux's")

SIZES = {"layers": 2, "size": 64, "hidden": 64, "kv_heads": 1, "heads": 2, "head_size": 32}
KILLS = int(os.environ.get("KILLS", "2"))
LONG = 10.0  # seconds in which a worker dies, if it does
POISON, SLOW = 7, 6  # first tokens: one kills the process that computes it, one takes its time


def make(path: str, **options) -> Engine:
    """The engine of a worker."""
    model = rlx.models.load(path, shared=True)
    options = {"step_tokens": 32, "max_sequences": 8, "adapters": 2, "adapter_rank": 2, **options}
    options["max_waiting"] = 1  # who asks the workers bounds them
    engine = Engine(model, cache="2M", **options)
    plan = engine.scheduler.plan

    def planned(now):
        chunks = plan(now)
        if any(chunk.start == 0 and chunk.tokens[0] == POISON for chunk in chunks):
            ctypes.string_at(0)
        if any(chunk.start == 0 and chunk.tokens[0] == SLOW for chunk in chunks):
            time.sleep(0.3)
        return chunks

    engine.scheduler.plan = planned
    return engine


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Iterator[Path]:
    """A model's file; workers share a cache of compiled code and weights."""
    folder = tmp_path_factory.mktemp("model")
    path = folder / "small.gguf"
    how = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
    write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **how)
    with pytest.MonkeyPatch.context() as patch, rlx.config.using(cache=folder / "cache"):
        patch.setenv("RLX_CACHE", str(folder / "cache"))  # of the workers
        yield path


@pytest.fixture(scope="module")
def workers(path, alone):
    with Workers(rlx.models.load(path), functools.partial(make, str(path)), patience=8.0) as made:
        yield made


@pytest.fixture(scope="module")
def alone(path):
    """What a request writes alone."""
    engine = make(str(path))
    engine.generate("hello", max_tokens=40)  # compiles for all

    @functools.cache
    def written(prompt, options):
        return engine.generate(prompt, **dict(options))

    return lambda prompt, **options: written(prompt, tuple(sorted(options.items())))


def ends(tickets, workers, seconds=60):
    until = time.monotonic() + seconds
    while not all(ticket.reason for ticket in tickets) and time.monotonic() < until:
        workers.step()
    return [ticket.completion() for ticket in tickets]


def test_workers_write_what_an_engine_writes(workers, alone):
    prompts = ("hello", "hello there", "ab")
    for options in (
        {"max_tokens": 12},
        {"max_tokens": 9, "temperature": 0.8, "seed": 3, "logprobs": 2},
        {"max_tokens": 30, "stop": alone("ab", max_tokens=30).text[4:6]},
    ):
        found = workers.generate(list(prompts), **options)
        assert found == [alone(prompt, **options) for prompt in prompts]
    assert "".join(workers.stream("ab", max_tokens=12)) == alone("ab", max_tokens=12).text
    first = workers.submit("hello", max_tokens=5)
    second = workers.submit("hello", max_tokens=5, seed=1, after=first)
    assert ends([first, second], workers) == [alone("hello", max_tokens=5)] * 2
    assert second.request.after is first.request


def test_texts_of_a_form_are_those_of_an_engine(workers, alone):
    pytest.importorskip("llguidance")
    for options in ({"regex": "[a-c]{3,9}d"}, {"schema": True, "stop": "e"}):
        options = {"max_tokens": 20, "temperature": 1.0, **options}
        assert workers.generate(["ab"] * 3, **options) == [alone("ab", **options)] * 3


def test_a_stop_text_ends_what_was_guessed(path, alone):
    engine, text = make(str(path), guesses=4), alone("ab", max_tokens=40).text
    for size in range(3, 20):
        ticket = engine.submit("ab", max_tokens=40, stop=text[:size])
        while engine.step():
            pass
        assert ticket.request.output == ticket.completion().tokens
    assert engine.right


def test_numbers_are_told_after_a_request_is_cancelled(workers):
    ticket = workers.submit("ab", max_tokens=400)
    until = time.monotonic() + 20
    while workers.numbers()["running"] != 1 and time.monotonic() < until:
        workers.step()
    workers.cancel(ticket)
    while workers.numbers()["running"] and time.monotonic() < until:
        time.sleep(0.01)
    assert workers.numbers()["running"] == 0


def test_a_listener_that_raises_ends_its_own_request_alone(workers, alone):
    def raising() -> None:
        raise KeyError("mine")

    before = workers.numbers()["restarts"]
    bad = workers.submit("ab", max_tokens=200, listener=raising)
    good = [workers.submit("ab", max_tokens=12) for _ in range(2)]
    assert ends([bad, *good], workers)[1:] == [alone("ab", max_tokens=12)] * 2
    assert bad.reason == "error" and isinstance(bad.error, KeyError)
    assert workers.numbers()["restarts"] == before


def test_errors_are_those_of_an_engine(workers):
    for prompt, options, kind, message in (
        ("ab", {"temperature": -1}, rlx.AttributeValueError, "temperature is -1"),
        ("ab", {"max_tokens": 1 << 20}, rlx.BoundsError, "context"),
        ([1 << 20], {}, rlx.BoundsError, "there is no token"),
        ("ab", {"tenant": 3}, rlx.ArgumentError, "tenant is 3, not a text"),
        ("ab", {"timeout": "soon"}, rlx.ArgumentError, "timeout is 'soon'"),
        ("ab", {"after": "ab"}, rlx.ArgumentError, "after is 'ab', not a ticket"),
        ("ab", {"listener": 3}, rlx.ArgumentError, "listener is 3"),
    ):
        with pytest.raises(kind, match=message):
            workers.submit(prompt, **options)
    late = workers.submit("ab", max_tokens=400, timeout=0.05)
    gone = workers.submit("ab", max_tokens=400)
    workers.cancel(gone)
    assert [x.reason for x in ends([late, gone], workers)] == ["deadline", "cancelled"]


def crash(process: Process, draw: random.Random, is_sure: bool) -> None:
    """Do something to a process that it does not survive, or, if it is not sure, will not soon."""
    ways = ["SIGKILL", "SIGSEGV", "garble", *([] if is_sure else ["SIGSTOP", "memory"])]
    how, pid = draw.choice(ways), process.pid
    assert pid is not None
    with suppress(ProcessLookupError):
        if how == "garble":  # as one does that writes anywhere, and then it dies
            memory = memoryview(process.connection._given[0].buffer)
            for _ in range(draw.randint(1, 9)):
                first = draw.randrange(rings.LINE, len(memory) - 64)
                memory[first : first + 64] = draw.randbytes(64)
            os.kill(pid, signal.SIGKILL)
        elif how == "memory":  # no byte more
            resource.prlimit(pid, resource.RLIMIT_AS, (1, 1))
        else:
            os.kill(pid, getattr(signal, how))


def living(workers: Workers, crashed: list[Process], begin: bool) -> list[Process]:
    """Processes to which nothing has happened yet, or also those that `begin`."""
    with workers._news:
        found = [x.process for x in workers._lanes if x.process and (x.is_ready or begin)]
    return [process for process in found if process not in crashed and process.is_alive]


@pytest.mark.parametrize("together", [False, True], ids=["one", "all"])
def test_sixteen_streams_survive_what_happens_to_workers(workers, alone, together):
    draw = random.Random(int(os.environ.get("SEED", "0")))
    jobs = []
    for number in range(16):
        prompt = draw.choice(["hello", "hello there", "a", "be that as it may"]) * draw.randint(
            1, 4
        )
        options = {"max_tokens": draw.randint(60, 150), "temperature": 0.8, "seed": number % 5}
        jobs.append((prompt, options))
    wanted = [alone(prompt, **options) for prompt, options in jobs]
    before, crashed, since = workers.numbers()["restarts"], list[Process](), 0.0
    while len(crashed) < KILLS:
        streams: list[list[str]] = [[] for _ in jobs]

        def follow(number):
            prompt, options = jobs[number]
            streams[number].extend(workers.stream(prompt, **options))  # noqa: B023

        threads = [threading.Thread(target=follow, args=(i,)) for i in range(len(jobs))]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(draw.uniform(0.02, 0.3))
            victims = living(workers, crashed, begin=not together and draw.random() < 0.1)
            if len(crashed) < KILLS and len(victims) >= (workers.count if together else 1):
                victims = victims if together else [draw.choice(victims)]
                for process in victims:  # at the same moment
                    crash(process, draw, is_sure=not crashed)
                crashed, since = crashed + victims, time.monotonic()
            elif crashed and time.monotonic() - since > LONG:  # it has needed no memory yet
                for process in crashed:
                    process._process.kill()
        for thread in threads:
            thread.join()
        assert ["".join(pieces) for pieces in streams] == [x.text for x in wanted]
    until = time.monotonic() + 30
    while workers.numbers()["restarts"] == before and time.monotonic() < until:
        time.sleep(0.01)
    assert workers.numbers()["restarts"] > before


def test_who_is_killed_from_outside_again_and_again_goes_on(workers, alone):
    workers.generate("ab", max_tokens=12)
    before = workers.numbers()
    ticket = workers.submit([SLOW, 8, 9], max_tokens=12)
    for _ in range(3):  # before its first token
        until = time.monotonic() + 30
        while (lane := workers._jobs[ticket].lane) is None and time.monotonic() < until:
            workers.step()
        assert lane is not None and lane.process is not None
        lane.process._process.kill()  # as from outside: it is not known why
        while workers._jobs[ticket].lane is lane and time.monotonic() < until:
            time.sleep(0.01)
    assert ends([ticket], workers) == [alone((SLOW, 8, 9), max_tokens=12)]
    after = workers.numbers()  # what workers that died had counted is not forgotten
    assert all(after[name] >= before[name] for name in COUNTERS)
    assert after["tokens_written"] > before["tokens_written"] > 0


def test_a_request_that_kills_two_workers_is_refused(workers, alone):
    options = {"max_tokens": 40}
    innocent = [workers.submit("hello", **options) for _ in range(6)]
    before = workers.numbers()["restarts"]
    workers._deaths.clear()  # those of other tests
    guilty = workers.submit([POISON, 8, 9], **options)
    found = ends([*innocent, guilty], workers)
    assert found[:-1] == [alone("hello", **options)] * 6
    assert guilty.reason == "error" and "was ended by SIGSEGV" in str(guilty.error)
    assert workers.numbers()["restarts"] - before <= 4
    for how in ({}, {"seed": 5, "tenant": "another"}):  # random numbers change nothing
        with pytest.raises(rlx.WorkerLostError, match=r"[23] workers died over the request"):
            workers.submit([POISON, 8, 9], **options, **how)
    assert workers.generate("ab", **options) == alone("ab", **options)


def adapter(seed: int) -> rlx.models.Adapter:
    """A change of the first layer's queries, f32[64, 64]."""
    draw = np.random.default_rng(seed)
    pair = tuple(draw.standard_normal(shape).astype("float32") for shape in ((64, 2), (2, 64)))
    return rlx.models.Adapter([{"q": pair}, {}])


def test_requests_keep_their_adapters_and_weights(workers, path):
    engine, options = make(str(path)), {"max_tokens": 30}
    for name, seed in (("one", 1), ("two", 2)):
        engine.adapters.attach(name, adapter(seed))
        workers.adapters.attach(name, adapter(seed))
    names = ["one", "two", None] * 2
    wanted = [engine.generate("hello", adapter=x, **options) for x in ("one", "two", None)]
    first = engine.model.weights
    other = pytree.map(lambda x: rlx.numpy.flip(x, 0), first)
    engine.swap_weights(other)
    swapped = [engine.generate("hello", adapter=x, **options) for x in ("one", "two", None)]
    assert len({x.text for x in (*wanted, *swapped)}) == 6
    tickets = [workers.submit("hello", adapter=name, **options) for name in names]
    workers.swap_weights(other)
    tickets += [workers.submit("hello", adapter=name, **options) for name in names]
    workers.adapters.drop("two")  # its requests go on, also when their worker dies
    os.kill(workers.states()[0]["pid"], signal.SIGKILL)
    assert ends(tickets, workers) == wanted * 2 + swapped * 2
    with pytest.raises(rlx.AttributeValueError, match="there is no adapter 'two'"):
        workers.submit("hello", adapter="two")
    with pytest.raises(rlx.StructureError, match="the new weights are"):
        workers.swap_weights({**other, "norm": np.ones(3, "float32")})
    workers.swap_weights(first)
    engine.swap_weights(first)
    engine.adapters.drop("two")
    for one in (engine, workers):
        one.adapters.attach("three", adapter(3))
    tickets = [workers.submit("hello", adapter="three", **options) for _ in range(4)]
    assert ends(tickets, workers) == [engine.generate("hello", adapter="three", **options)] * 4
    assert len(workers._files._files) == 1  # no file is left of weights that nobody needs


def test_a_worker_that_begins_gives_signs_of_life(monkeypatch):
    monkeypatch.setattr(worker, "BEAT", 0.001)
    life, begun = Life([0.0, 0.0]), time.monotonic()
    with worker._alive(life):  # more than one
        while life.last < begun + 0.01 and time.monotonic() < begun + LONG:
            time.sleep(0.001)
    assert life.last >= begun + 0.01 and life.due == life.last + START


def test_what_a_worker_needs_is_there_before_it_says_so(path, monkeypatch):
    pytest.importorskip("llguidance")
    engine, sent = make(str(path)), list[bytes]()

    def send(message):
        sent.append(message)
        assert engine.model.tokenizer is None and "_tokens" in vars(engine.model.formats)
        assert gc.get_freeze_count() > 0
        raise EOFError

    monkeypatch.setattr(signal, "signal", lambda *given: None)
    gc.unfreeze()
    worker.serve(SimpleNamespace(send_bytes=send), Life([0.0, 0.0]), lambda: engine, 1.0)
    gc.unfreeze()
    assert isinstance(wire.from_bytes(sent[0], wire.FROM_WORKERS), wire.Began)


def test_a_worker_that_starts_while_all_are_closed_is_told():
    ends, sent = threading.Event(), []

    def start(memory):
        ends.set()  # as `close` does, and then
        lane.post(wire.Stop())
        connection = SimpleNamespace(send_bytes=sent.append, recv_bytes=lambda most: heard[0])
        return SimpleNamespace(connection=connection, end=lambda: "was ended")

    def lose(lane, how):
        assert how == "was ended"

    heard = [wire.to_bytes(wire.Failed(KeyError("mine")))]
    lane = lanes.Lane(start, None)  # type: ignore[arg-type]
    lane.run(lanes.Heard(lose, lose, lose), ends)  # type: ignore[arg-type]
    assert sent == [wire.to_bytes(wire.Stop())]


def nothing() -> Engine:
    raise rlx.FileMissingError("there is no model", fix="make one")


def greedy(path: str) -> Engine:
    """An engine that needs memory to begin."""
    np.ones(3 * 10**8, "uint8")
    return make(path)


def test_memory_that_is_too_little_for_workers_to_begin_is_named(path, alone):
    model = rlx.models.load(path)
    with pytest.raises(rlx.WorkerLostError) as caught:
        Workers(model, functools.partial(greedy, str(path)), 1, memory=10**8)
    assert "memory is 100000000 bytes, too little for a worker to begin" in str(caught.value)
    assert 'it takes 200 to 400 MB\n  fix    give memory="762M" or so' in str(caught.value)


def test_workers_that_cannot_begin(path, monkeypatch):
    monkeypatch.setattr(lanes, "MOST_STARTS", 2)
    model = rlx.models.load(path)
    with pytest.raises(rlx.FileMissingError, match="there is no model"):
        Workers(model, nothing, 1)
    for ends, fix in ((functools.partial(os._exit, 3), "__main__"), (os.abort, "see what ended")):
        with pytest.raises(rlx.WorkerLostError, match="2 workers ended before they") as caught:
            Workers(model, ends, 1)
        assert fix in caught.value.fix
    with pytest.raises(rlx.ArgumentError, match="cannot be sent to a worker"):
        Workers(model, lambda: None, 1)
