"""Streams of answers: each event is what the table of its part says."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

import rlx
from rlx.models.generation import Completion
from rlx.serve import openai_api as api
from rlx.serve.answers import Answer
from rlx.serve.bad_request import BadRequest
from rlx.serve.bodies import MOST_DEPTH, MOST_PARTS, depth_of, parts_of
from rlx.serve.messages import messages_of

PIECES = ["text", '"text"', 'a "b" \\ \n\0', "ä€😀", " ", "data: {"]


class Told:
    """Who hears some pieces of a text."""

    def __init__(self, pieces: list[str]) -> None:
        completion = SimpleNamespace(tokens=[], text="".join(pieces), reason="stop")
        self.ticket: Any = SimpleNamespace(reason="stop", completion=lambda: completion)
        self._pieces = pieces

    async def pieces(self):
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize("has_usage", [False, True])
@pytest.mark.parametrize("is_chat", [False, True])
def test_events_of_pieces_have_all_fields(is_chat, has_usage):
    asked: Any = SimpleNamespace(
        is_chat=is_chat, has_usage=False, echo=False, options={"logprobs": None}
    )
    asked.has_usage = has_usage
    answer = Answer(asked, SimpleNamespace(tokenizer=None), 'a "text"', [Told(PIECES)], None)  # type: ignore[arg-type]
    answer._usage = lambda found: {}  # type: ignore[method-assign]

    async def heard() -> list[str]:
        return [event async for event in answer.events()]

    lines = "".join(asyncio.run(heard())).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    found = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    wanted = [api.part(answer._names, 0, piece) for piece in PIECES]
    begin = int(is_chat)
    assert found[begin : begin + len(PIECES)] == wanted
    assert found[begin + len(PIECES)]["choices"][0]["finish_reason"] == "stop"
    assert len(found) == begin + len(PIECES) + 1 + has_usage


def test_an_echo_leaves_out_tokens_that_only_the_model_has():
    asked: Any = SimpleNamespace(
        is_chat=False, has_usage=False, echo=True, samples=1, prompts=[[0, 9, 1]]
    )
    tokenizer = SimpleNamespace(end=2, decode=lambda ids, special: "".join("ab"[i] for i in ids))
    assert Answer(asked, SimpleNamespace(tokenizer=tokenizer), "m", [], None)._echo(0) == "ab"  # type: ignore[arg-type]


def test_each_token_is_written_once_wherever_a_stream_is_cut():
    words, asked = [b"a", b"\xe2\x82", b"\xac", b"b", b"\xff", b"c"], list[int]()
    tokenizer = SimpleNamespace(bytes_of=lambda token: asked.append(token) or words[token])
    names, offsets, found = api.Names("id", 0, "m", False, False), api.Offsets(), list[int]()
    for first, end in (0, 2), (2, 3), (3, 6):
        told = Completion("", list(range(end)), "", 1, [0.0] * end, [{}] * end)
        found += api.logprobs_of(names, tokenizer, told, first, offsets)["text_offset"]
    assert found == [0, 1, 1, 2, 3, 3]  # of "a€b" and "c", and bytes that are no letter
    assert asked == [*range(6)]


def test_lists_and_objects_are_counted_outside_of_texts():
    many = MOST_PARTS + 1
    assert parts_of(b"[" * many) == many
    assert parts_of(json.dumps(["[{" * many, '\\"[', "\\"]).encode()) == 1
    assert parts_of(json.dumps({'"': [[], {}] * many}).encode()) == 2 * many + 2
    assert depth_of(json.dumps(["[{" * many, '\\"[', "\\", [[], {}] * many]).encode()) == 3
    assert depth_of(b'{"":[' * many) == 2 * many


def test_arguments_of_calls_are_bounded_together():
    function = {"name": "f", "arguments": json.dumps({"x": [[]] * (MOST_PARTS // 2)})}
    call = {"id": "1", "type": "function", "function": function}
    message = {"role": "assistant", "tool_calls": [call]}
    (read,) = messages_of({"messages": [message]})
    assert len(read["tool_calls"][0]["function"]["arguments"]["x"]) == MOST_PARTS // 2
    with pytest.raises(BadRequest, match="arguments of calls have over") as caught:
        messages_of({"messages": [message, message]})
    assert caught.value.status == 413


def test_arguments_of_calls_are_no_deeper_than_bodies():
    """Templates would fail on them."""
    for depth in (MOST_DEPTH, MOST_DEPTH + 1, 900):
        given = '{"":' * depth + "1" + "}" * depth
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": given}}
        messages = [{"role": "assistant", "tool_calls": [call]}]
        if depth > MOST_DEPTH:
            with pytest.raises(BadRequest, match="arguments has over 256 lists"):
                messages_of({"messages": messages})
            continue
        (read,) = messages_of({"messages": messages})
        template = rlx.io.ChatTemplate("{{ messages[0].tool_calls | tojson }}")
        tokenizer: Any = SimpleNamespace(special={}, encode=lambda text: [*text.encode()])
        assert bytes(template.encode(tokenizer, [read])).count(b"{") == depth + 2
