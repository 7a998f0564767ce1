"""Streams of answers: each event is what the table of its part says."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from rlx.serve import openai_api as api
from rlx.serve.answers import Answer

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
