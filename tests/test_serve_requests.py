"""What requests may ask for: tools, echo, the best of samples; who may ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import rlx
from rlx.io import ChatTemplate
from rlx.models.generation import Completion
from rlx.serve.bad_request import BadRequest
from rlx.serve.tools import Calls, tools_of

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
openai = pytest.importorskip("openai", reason="needs the package openai")
pytest.importorskip("uvicorn", reason="needs the package uvicorn")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")

from test_serve_http import ASK, TOOLS, chat, path, served  # noqa: E402, F401

TAGGED = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}<tool_call>"
KINDS = {
    "tagged": TAGGED,
    "json": '{{ tools }} "parameters"',
    "marked": "{{ tools }}[TOOL_CALLS]",
    "": "{{ tools }}",
}
PARIS = '{"name": "weather", "arguments": {"city": "Paris"}}'
ROME = '{"name": "weather", "parameters": {"city": "Rome"}}'


def calls(kind: str, **body: Any) -> Calls:
    tools = tools_of({"tools": TOOLS, **body})
    assert tools is not None
    return Calls.of(tools, ChatTemplate(KINDS[kind]), {"[TOOL_CALLS]": 9})


def found(text: str, *tokens: int) -> Completion:
    return Completion(text, list(tokens), "stop", 1, [], [])


SPLIT = [
    ("tagged", f"<tool_call>\n{PARIS}\n</tool_call>", "", ["Paris"]),
    ("tagged", f"Let me see. <tool_call>{PARIS}</tool_call>", "Let me see.", ["Paris"]),
    (
        "tagged",
        f"<tool_call>{PARIS}</tool_call>\n<tool_call>[{ROME}]</tool_call>",
        "",
        ["Paris", "Rome"],
    ),
    ("tagged", f"a <tool_call>{PARIS}</tool_call> b", "a\nb", ["Paris"]),
    ("tagged", f"<tool_call>{PARIS}", "", ["Paris"]),
    ("tagged", PARIS, PARIS, []),
    ("json", ROME, "", ["Rome"]),
    ("json", f"I say {ROME}", f"I say {ROME}", []),
    ("json", f"[{PARIS}, {ROME}]", "", ["Paris", "Rome"]),
    ("", PARIS, PARIS, []),
    ("marked", f"[{PARIS}, {ROME}]", "", ["Paris", "Rome"]),
    # what is no call of a tool that was offered is text
    ("tagged", "<tool_call>{</tool_call>", "<tool_call>{</tool_call>", []),
    ("json", '{"name": "delete", "arguments": {}}', '{"name": "delete", "arguments": {}}', []),
    ("json", '{"name": "weather", "arguments": "x"}', '{"name": "weather", "arguments": "x"}', []),
    *(("json", x, x, []) for x in (PARIS.replace('"Paris"', y) for y in ("NaN", "1e999"))),
    ("json", "[" * 5000, "[" * 5000, []),
]


@pytest.mark.parametrize("kind, text, rest, cities", SPLIT)
def test_calls_are_found_in_a_text(kind, text, rest, cities):
    whole = found(text, *([9] if kind == "marked" else []))
    told, made = calls(kind).split(whole)
    assert told == rest and [json.loads(x.arguments)["city"] for x in made] == cities
    assert all(x.name == "weather" for x in made) and len({x.id for x in made}) == len(made)
    alone = calls(kind, parallel_tool_calls=False).split(whole)[1]
    assert len(alone) == min(1, len(cities))
    for end in range(len(text) + 1):  # what a stream tells before the end stays so
        part = found(text[:end], *whole.tokens)
        assert rest.startswith(text[: calls(kind).sure(part)])
    if kind == "marked":
        assert calls(kind).split(found(text))[1] == []  # without the token it is text


def test_halves_of_surrogate_pairs_are_escaped():
    _, (made,) = calls("json").split(found('{"name": "time", "arguments": {"a": "\\ud800"}}'))
    assert made.arguments == '{"a": "\\ud800"}' and made.arguments.encode()


def test_a_template_without_tools_takes_none():
    tools = tools_of({"tools": TOOLS})
    assert tools is not None
    with pytest.raises(BadRequest, match="takes no tools"):
        Calls.of(tools, ChatTemplate("{{ messages }}"), {})
    assert tools_of({"tools": TOOLS, "tool_choice": "none"}) is None
    strict = [{"type": "function", "function": {"name": "a", "strict": True}}]
    with pytest.raises(BadRequest, match="strict needs a tool_choice"):
        tools_of({"tools": strict})
    assert tools_of({"tools": strict, "tool_choice": "required"}).is_forced


@pytest.fixture(scope="module")
def model(path: Any) -> Any:  # noqa: F811
    model = rlx.models.load(path)
    model.template = ChatTemplate(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments.city }}{% endfor %}<|end|>{% endfor %}" + TAGGED
    )
    return model


@pytest.fixture(scope="module")
def address(model: Any) -> Iterator[str]:
    yield from served(model)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="a", max_retries=0)) as made:
        yield made


def test_a_call_that_is_asked_for_is_made(client):
    pytest.importorskip("llguidance", reason="needs the package llguidance")
    ask = {"model": "small", "messages": ASK, "tools": TOOLS[:1], "max_tokens": 200, "seed": 1}
    named = {"type": "function", "function": {"name": "weather"}}
    for choice, reason in ((named, "stop"), ("required", "tool_calls")):
        answer = client.chat.completions.create(tool_choice=choice, **ask).choices[0]
        (call,) = answer.message.tool_calls
        assert answer.finish_reason == reason and answer.message.content is None
        assert call.function.name == "weather" and call.type == "function"
        assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    parts = list(client.chat.completions.create(tool_choice="required", stream=True, **ask))
    (told,) = [p.choices[0].delta.tool_calls for p in parts if p.choices[0].delta.tool_calls]
    assert told[0].index == 0 and told[0].function.model_dump() == call.function.model_dump()
    assert not any(p.choices[0].delta.content for p in parts)
    assert parts[-1].choices[0].finish_reason == "tool_calls"
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    told = [*ASK, answer.message.model_dump(), result]
    after = client.chat.completions.create(**{**ask, "messages": told, "max_tokens": 4})
    assert after.choices[0].message.content and after.choices[0].message.tool_calls is None


def test_text_of_a_model_with_tools_is_text(client):
    ask = {"model": "small", "messages": ASK, "max_tokens": 12, "seed": 1, "tools": TOOLS}
    whole = client.chat.completions.create(**ask, logprobs=True).choices[0]
    parts = [p.choices[0] for p in client.chat.completions.create(**ask, stream=True)]
    assert "".join(p.delta.content or "" for p in parts) == whole.message.content
    plain = client.chat.completions.create(**{**ask, "tools": []}).choices[0]
    assert plain.message.content != whole.message.content  # the template described them
    named = client.chat.completions.create(**ask, tool_choice="none").choices[0]
    assert named.message.content == plain.message.content


def test_echo_and_best_of(model, client):
    ask = {"model": "small", "max_tokens": 6, "seed": 3}
    plain = client.completions.create(prompt=["ab", [70, 71]], **ask)
    echoed = client.completions.create(prompt=["ab", [70, 71]], echo=True, **ask)
    names = "ab", model.tokenizer.decode([70, 71])
    for name, one, other in zip(names, plain.choices, echoed.choices, strict=True):
        assert other.text == name + one.text
    parts = client.completions.create(prompt="ab", echo=True, stream=True, **ask)
    assert "".join(x.choices[0].text for x in parts) == echoed.choices[0].text
    assert (
        client.completions.create(prompt="ab", echo=True, model="small", max_tokens=0)
        .choices[0]
        .text
        == "ab"
    )
    every = client.completions.create(prompt="ab", n=5, logprobs=0, **ask)
    mean = [sum(x.logprobs.token_logprobs) / len(x.logprobs.tokens) for x in every.choices]
    ranked = [x.text for _, x in sorted(zip(mean, every.choices, strict=True), key=lambda x: -x[0])]
    best = client.completions.create(prompt="ab", best_of=5, n=2, **ask)
    assert [x.text for x in best.choices] == ranked[:2]
    assert best.usage == every.usage and best.choices[0].logprobs is None
    for wrong, param in (
        ({"best_of": 1, "n": 2}, "best_of"), ({"best_of": 2, "stream": True}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"), ({"echo": 1}, "echo"), ({"suffix": "x"}, "suffix"),
        ({"tools": TOOLS}, "tools"), ({"top_logprobs": 2}, "top_logprobs"),
    ):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model="small", prompt="ab", extra_body=wrong)
        assert caught.value.param == param


def test_all_fields_of_the_client_are_known():
    from openai.types import completion_create_params as plain
    from openai.types.chat import completion_create_params as chats

    from rlx.serve import openai_api as api

    for kind, more in ((chats, api.CHAT), (plain, api.PLAIN)):
        fields = set(kind.CompletionCreateParamsBase.__annotations__)
        assert fields <= api.COMMON | more | api.ABSENT.keys()
    for name, neutral in api.ABSENT.items():  # and what is absent is refused by its name
        body = {"messages": ASK, name: "something"}
        with pytest.raises(api.BadRequest) as caught:
            api.asked(body, is_chat=True)
        assert caught.value.param == name
        for value in neutral:
            api.asked({"messages": ASK, name: value}, is_chat=True)


def test_other_web_pages_are_refused(model, address):
    port = address.rpartition(":")[2]
    body = {"prompt": "ab", "max_tokens": 1}

    def status(route: str = "/v1/completions", at: str = address, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if route != "/v1/completions":
            return httpx.get(at + route, headers=named).status_code
        answer = httpx.post(at + route, json=body, headers=named)
        if answer.status_code == 403:
            assert answer.json()["error"]["code"] in ("cross_origin", "host_not_allowed")
        return answer.status_code

    own = f"http://127.0.0.1:{port}"
    for right in (
        {}, {"Origin": own}, {"Sec_Fetch_Site": "same-origin", "Origin": "https://outside.example"},
        {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"},
        {"Host": "rlx.localhost"}, {"Host": "[::1]:80"}, {"Host": "192.168.0.9"},
        {"Sec_Fetch_Site": "none"},
    ):  # fmt: skip
        assert status(**right) == 200
    for wrong in (
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"{own}0"},
        {"Origin": "http://["}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"}, {"Host": f"evil.example:{port}", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1.evil.example"}, {"Host": "a@127.0.0.1@b"}, {"Host": "["},
    ):  # fmt: skip
        assert status(**wrong) == 403, wrong
    assert status("/health", Host="evil.example") == status("/", Host="evil.example") == 403
    assert status("/", Sec_Fetch_Site="cross-site") == 200  # a link that somebody follows
    with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0)) as client:
        with pytest.raises(openai.PermissionDeniedError, match="--allow-host evil"):
            chat(client, extra_headers={"Host": "evil.example"})
    for at in served(model, hosts=["Model.Example"]):
        assert status(at=at, Host="model.example:80") == 200
        assert status(at=at, Host="other.example") == 403
    for at in served(model, keys=["secret"]):  # which no other page has
        assert status(at=at, Host="evil.example", Authorization="Bearer secret") == 200
        assert status(at=at, Host="evil.example") == 401
