"""Messages of workers: what is written is read, and what is garbled is never believed."""

from __future__ import annotations

import json
import pickle
import random

import numpy as np
import pytest

import rlx
from rlx.models.generation import Request as Text, StoppedText
from rlx.models.sampling import Sampling
from rlx.serve import Ticket, wire
from rlx.serve.lanes import Job
from rlx.serve.scheduler import Request
from rlx.serve.wire import FROM_WORKERS, TO_WORKERS, Garbled, News, from_bytes, to_bytes

PAIR = np.arange(6, dtype="float32").reshape(2, 3), np.ones((3, 2), "float32")
NEWS = [
    News(7, [3, 2**40], [-0.5, -1e-300], [{3: -0.5, 4: float("-inf")}, {}], "", None),
    News(8, [], [], [], "stop", None),
]
MESSAGES = [
    wire.Submit(1, [5, 6], [], '{"stop": ["\\ud800"]}', 0.1, "key", None, 2),
    wire.Submit(2, [], [9], "{}", None, None, 1, 0),
    wire.Cancel(3),
    wire.Attach("é", [{"q": PAIR, "v": PAIR}, {}]),
    wire.Drop("x"),
    wire.Swap(1, "/a/b"),
    wire.Forget(1),
    wire.Stop(),
    wire.Began(1, 16, 8, 0, 4, {"running": 0.0}),
    wire.Told(NEWS, {"steps": 3.0, "x": 0.1}),
]


def same(a, b):
    """Equality of trees that may have arrays."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("message", MESSAGES, ids=lambda x: type(x).__name__)
def test_a_message_comes_as_it_went(message):
    kinds = TO_WORKERS if isinstance(message, TO_WORKERS) else FROM_WORKERS
    assert same(from_bytes(to_bytes(message), kinds), message)
    others = FROM_WORKERS if kinds is TO_WORKERS else TO_WORKERS
    with pytest.raises(Garbled):
        from_bytes(to_bytes(message), others)


def test_errors_come_as_they_were():
    wrong = rlx.BoundsError("there is no token 9", fix="give another", notes=["a", "b"])
    news = News(1, [], [], [], "error", wrong)
    (told,) = from_bytes(to_bytes(wire.Told([news], {})), FROM_WORKERS).news
    assert type(told.error) is rlx.BoundsError and str(told.error) == str(wrong)
    other = from_bytes(to_bytes(wire.Failed(KeyError("mine"))), FROM_WORKERS).error
    assert type(other) is RuntimeError and str(other) == "KeyError: 'mine'"
    name = json.loads(to_bytes(wire.Failed(wrong))[4:])
    name[1][0] = "Source"  # another class of that module is no error
    text = json.dumps(name).encode()
    sent = len(text).to_bytes(4, "little") + text
    assert type(from_bytes(sent, FROM_WORKERS).error) is RuntimeError


def test_garbled_bytes_are_no_message():
    draw, refused = random.Random(0), 0
    for _ in range(2000):
        message = draw.choice(MESSAGES)
        kinds = TO_WORKERS if isinstance(message, TO_WORKERS) else FROM_WORKERS
        given = bytearray(to_bytes(message))
        for _ in range(draw.randint(1, 4)):
            deed, place = draw.random(), draw.randrange(len(given))
            if deed < 0.5:
                given[place] = draw.randrange(256)
            elif deed < 0.75:
                del given[place : place + draw.randint(1, 8)]
            else:
                given[place:place] = draw.choice([b"[", b"null", b'"a"', b"1e999", b"-1", b"[" * 9])
            if not given:
                break
        try:
            found = from_bytes(bytes(given), kinds)
        except Garbled:
            refused += 1
        else:  # what is read has the types of a message
            assert type(found) in kinds
            assert same(from_bytes(to_bytes(found), kinds), found) or b"NaN" in given
    assert refused > 1000
    sent = [json.dumps([[0, 2**80], [1]]).encode(), to_bytes(wire.Stop()) + b"a"]
    sent[0] = b'["Attach","a",[[["q",' + sent[0] + b"]]]]"
    for given in (len(sent[0]).to_bytes(4, "little") + sent[0], sent[1]):
        with pytest.raises(Garbled):
            from_bytes(given, TO_WORKERS)
    for sent in (b"", pickle.dumps(print), b"\xff" * 99, b"\2\0\0\0[]", b"\2\0\0\0{}"):
        with pytest.raises(Garbled):
            from_bytes(sent, FROM_WORKERS)


def test_news_that_cannot_be_true_are_not_believed():
    text = Text([1], 3, Sampling(), frozenset(), StoppedText(None, ()), 1)
    job = Job(0, Ticket(text, Request([1], 3)), {}, None, None, 0)
    right = News(0, [4, 5], [-1.0, -2.0], [{4: -1.0}, {5: -2.0}], "", None)
    for wrong in (
        {"tokens": [4, -1]},
        {"tokens": [4, 6]},
        {"tokens": [4] * 4},
        {"logprobs": [0.0] * 3},
        {"likeliest": [{}] * 3},
        {"reason": "because"},
    ):
        with pytest.raises(Garbled):
            job.take(right._replace(**wrong), 6)
    assert not text.tokens and not job.ticket.request.output
    before = text.completion()
    job.take(right, 6)
    assert not before.tokens and not before.likeliest  # it is what was written then
    assert text.tokens == job.ticket.request.output == [4, 5]


def test_options_are_plain_data():
    given = {"logit_bias": {5: 1.5}, "temperature": np.float32(0.5), "stop": ("a", "b"), "seed": 3}
    kept = wire.options_of(wire.options_text(given))
    assert kept == {"logit_bias": {5: 1.5}, "temperature": 0.5, "stop": ["a", "b"], "seed": 3}
    with pytest.raises(rlx.ArgumentError, match="an option cannot be sent to a worker"):
        wire.options_text({"schema": {"a": print}})
