"""Malformed requests: each has an answer, and none of them is that the server failed.

    python tests/fuzz_http.py --count 10000

sends that many to a server in this process; the suite sends fewer.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from llama_writer import write_llama
from starlette.testclient import TestClient

import rlx
from rlx.models import Pooled
from rlx.serve import Engine
from rlx.serve.http import application

SIZES = {"layers": 1, "size": 32, "hidden": 32, "kv_heads": 1, "heads": 1, "head_size": 32}
TEMPLATE = (
    "{% for m in messages %}<|system|>{{ m.content }}<|end|>{% endfor %}"
    "{{ tools | tojson if tools }}<tool_call>"
)
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
COMMON = {
    **{"model": "small", "max_tokens": 2, "n": 1, "seed": 1, "temperature": 0.5, "top_p": 0.9},
    **{"stop": ["x"], "stream": False, "stream_options": None, "logit_bias": {"5": 1}},
    **{"user": "me", "top_k": 3, "min_p": 0.1, "presence_penalty": 0.1},
    **{"frequency_penalty": 0.1, "repetition_penalty": 1.1},
}
FORM = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
CHAT = {
    **COMMON,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "ab"}]}],
    "logprobs": True,
    "top_logprobs": 2,
    "response_format": FORM,
}
TOOL = {"type": "function", "function": {"name": "a", "parameters": SCHEMA, "strict": False}}
CALL = {"id": "c", "type": "function", "function": {"name": "a", "arguments": '{"a": 1}'}}
TALK = {
    "messages": [
        {"role": "user", "content": "ab", "name": "me"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ],
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "a"}},
    "parallel_tool_calls": True,
    "max_tokens": 4,
}
CHOICE = {"structured_outputs": {"choice": ["a", "b"]}, "max_tokens": 1}
BODIES = {
    "/v1/chat/completions": [
        CHAT,
        TALK,
        {"messages": [{"role": "user", "content": "ab"}], **CHOICE},
    ],
    "/v1/completions": [
        {**COMMON, "prompt": ["ab", [70, 71]], "logprobs": 2, "echo": False, "suffix": None},
        {"prompt": ["ab", [70, 71]], "echo": True, "best_of": 2, "max_tokens": 1},
        {"prompt": "ab", "max_tokens": 1, "structured_outputs": {"regex": "a|b"}},
    ],
    "/v1/embeddings": [{"model": "small", "input": ["ab", [70]], "encoding_format": "base64"}],
    "/v1/load_lora_adapter": [{"lora_name": "a", "lora_path": "b", "load_inplace": True}],
    "/v1/unload_lora_adapter": [{"lora_name": "a"}],
}
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(10**30), 1.5, 1e308, -0.0),
    *("", "a", "\0", "\ud800", "é" * 50, "../..", "<|end|>", "a" * 3000, "(("),
    *([], {}, [[]], [{}], [None], {"": None}, ["a"] * 40, [1, "a"]),
    *({"type": "text"}, {"type": ["text"]}, {"role": {"a": 1}}, {"not": {}}),
    {"type": "array", "items": {"$ref": "#"}},
]


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a tree."""
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    return [path, *(x for key, value in items for x in places(value, (*path, key)))]


def changed(draw: random.Random, body: Any) -> Any:
    """A body with something else at some place."""
    body = copy.deepcopy(body)
    path = draw.choice(places(body))
    if not path:
        return draw.choice(JUNK)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    deed = draw.random()
    if deed < 0.15:
        del parent[path[-1]]
    elif deed < 0.25 and isinstance(parent, dict):
        parent[draw.choice(["colour", "", "\ud800", "best_of", "tools", "store"])] = draw.choice(
            JUNK
        )
    else:
        parent[path[-1]] = copy.deepcopy(draw.choice(JUNK))
    return body


def content(draw: random.Random, body: Any) -> bytes:
    """The bytes of a body, some of them no JSON."""
    text = json.dumps(body).encode()
    if draw.random() < 0.9:
        return text
    place = draw.randrange(len(text) + 1)
    return draw.choice(
        [text[:place], text[:place] + bytes([draw.randrange(256)]) + text[place:], b"[" * 5000]
    )


def run(count: int, seed: int = 0) -> Counter[int]:
    """Send malformed requests; how often there was each status. One from 500 on is an error."""
    draw, seen = random.Random(seed), Counter[int]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.gguf"
        kind = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
        write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **kind)
        model = rlx.models.load(path)
        model.template = rlx.io.ChatTemplate(TEMPLATE)
        engine = Engine(model, cache="2M", step_tokens=32, adapters=1)
        app = application(engine, name="small", encoder=Pooled(model), adapters=folder, timeout=20)
        with TestClient(app, raise_server_exceptions=False) as client:
            for number in range(count):
                route = draw.choice(list(BODIES))
                body = draw.choice(BODIES[route])
                for _ in range(draw.choice([1, 1, 1, 2, 3])):
                    body = changed(draw, body)
                sent = content(draw, body)
                answer = client.post(route, content=sent)
                seen[answer.status_code] += 1
                assert answer.status_code < 500, (number, route, sent, answer.text)
                assert answer.status_code < 400 or answer.json()["error"]["message"], (route, sent)
        assert engine.error is None and engine.scheduler.is_idle
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    told = run(asked.count, asked.seed)
    print(f"{asked.count} malformed requests:", dict(sorted(told.items())))
    sys.exit(0)
