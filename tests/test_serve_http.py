"""The HTTP server, run by uvicorn on this machine and asked by OpenAI's client."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_writer import write_llama

import rlx
from rlx.models import Pooled
from rlx.serve import Engine
from rlx.serve.guesses import Drawing

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
openai = pytest.importorskip("openai", reason="needs the package openai")
uvicorn = pytest.importorskip("uvicorn", reason="needs the package uvicorn")
fuzz_http = pytest.importorskip("fuzz_http", reason="needs the package starlette")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")

TEMPLATE = "{% for m in messages %}<|system|>{{ m.content }}<|end|>{% endfor %}"
ASK = [{"role": "user", "content": "hello there"}]
SIZES = {"layers": 2, "size": 64, "hidden": 64, "kv_heads": 1, "heads": 2, "head_size": 32}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    how = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
    write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **how)
    return path


@pytest.fixture(scope="module")
def model(path: Path) -> Any:
    loaded = rlx.models.load(path)
    loaded.template = rlx.io.ChatTemplate(TEMPLATE)
    return loaded


def served(model: Any, **options: Any) -> Iterator[str]:
    """The address of a server that runs until it is no longer needed."""
    from rlx.serve.http import application

    names = ("keys", "most_bytes", "timeout", "adapters", "hosts")
    limits = {n: options.pop(n) for n in names if n in options}
    room = options.pop("room", 0)
    engine = Engine(model, **{"cache": "2M", "step_tokens": 32, "adapters": room, **options})
    app = application(engine, name="small", encoder=Pooled(model), **limits)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_keep_alive=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield address
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def address(model: Any) -> Iterator[str]:
    yield from served(model)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)) as made:
        yield made


def chat(client: Any, **options: Any) -> Any:
    options = {"model": "small", "messages": ASK, "max_tokens": 8, "seed": 1, **options}
    return client.chat.completions.create(**options)


def test_a_chat_is_that_of_the_model(model, client):
    found = chat(client, logprobs=True, top_logprobs=3)
    wanted = model.chat(ASK, max_tokens=8, seed=1, temperature=1.0, logprobs=3)
    one = found.choices[0]
    assert one.message.content == wanted.text and one.message.role == "assistant"
    assert one.finish_reason == wanted.reason
    assert [x.logprob for x in one.logprobs.content] == pytest.approx(wanted.logprobs, abs=1e-4)
    assert all(len(x.top_logprobs) == 3 for x in one.logprobs.content)
    assert found.usage.completion_tokens == len(wanted.tokens)
    assert found.usage.prompt_tokens == len(model.chat_ids(ASK))


def test_a_stream_has_the_same_text_and_its_parts(client):
    whole = chat(client)
    options = {"include_usage": True}
    parts = list(chat(client, stream=True, stream_options=options))
    assert {p.object for p in parts} == {"chat.completion.chunk"} and len(
        {p.id for p in parts}
    ) == 1
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[-1].choices == [] and parts[-1].usage == whole.usage
    assert parts[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    text = "".join(p.choices[0].delta.content or "" for p in parts[:-1])
    assert text == whole.choices[0].message.content


def test_samples_stop_texts_and_completions(model, client):
    several = chat(client, n=3)
    assert several.choices[0].message.content == chat(client).choices[0].message.content
    assert several.choices[1].message.content == chat(client, seed=2).choices[0].message.content
    assert [c.index for c in several.choices] == [0, 1, 2]
    ask = {"model": "small", "temperature": 0, "max_tokens": 24}
    done = client.completions.create(prompt=["ab", "cd"], **ask, logprobs=2)
    for prompt, choice in zip(["ab", "cd"], done.choices, strict=True):
        wanted = model.generate(prompt, max_tokens=24, logprobs=2)
        assert choice.text == wanted.text
        assert choice.logprobs.token_logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
    stop = done.choices[0].text[-1]
    short = client.completions.create(prompt="ab", **ask, stop=stop)
    assert short.choices[0].text == done.choices[0].text.split(stop)[0]
    assert short.choices[0].finish_reason == "stop"


def test_many_at_once_get_what_they_get_alone(client):
    alone = [chat(client, seed=s).choices[0].message.content for s in range(4)]
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        parts = chat(client, seed=number % 4, stream=True)
        found[number] = "".join(p.choices[0].delta.content or "" for p in parts)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: alone[i % 4] for i in range(32)}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "time", "parameters": {"type": "object"}}},
]
WRONG = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"n": 1.5}, "n"),
    ({"n": True}, "n"),
    ({"seed": 1 << 63}, "seed"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"tools": [{"type": "function"}]}, "tools[0]"),
    ({"tools": TOOLS[:1] * 2}, "tools"),
    ({"tools": TOOLS}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": "never"}, "tool_choice"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"functions": [{"name": "a"}]}, "functions"),
    ({"best_of": 2}, "best_of"),
    ({"store": True}, "store"),
    ({"metadata": {"a": "b"}}, "metadata"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"safety_identifier": 3}, "safety_identifier"),
    ({"messages": [{"role": "user", "content": "a", "colour": 1}]}, "messages[0].colour"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
    (
        {"messages": [{"role": "tool", "content": "a", "tool_call_id": None}]},
        "messages[0].tool_call_id",
    ),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0]"),
    ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"structured_outputs": {"grammar": "x"}}, "structured_outputs"),
    ({"structured_outputs": {"regex": "("}}, None),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}}, None),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"logit_bias": {"word": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"colour": 1}, "colour"),
    ({"max_tokens": 100_000}, None),
]


@pytest.mark.parametrize("wrong, param", WRONG, ids=lambda x: str(x)[:40])
def test_wrong_fields_are_named(address, wrong, param):
    body = {"model": "small", "messages": ASK, **wrong}
    answer = httpx.post(f"{address}/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == param
    assert error["type"] == "invalid_request_error" and error["message"]


def test_biases_forbid_and_force_tokens(model, client):
    wanted = model.chat(ASK, max_tokens=4)
    biases = {str(wanted.tokens[0]): -100}
    found = chat(client, temperature=0, max_tokens=4, logit_bias=biases, logprobs=True)
    expected = model.chat(ASK, max_tokens=4, logit_bias={wanted.tokens[0]: -100.0})
    assert found.choices[0].message.content == expected.text != wanted.text
    assert wanted.tokens[0] not in expected.tokens
    forced = chat(client, temperature=0, max_tokens=4, logit_bias={"70": 100})
    assert forced.choices[0].message.content == model.tokenizer.decode([70] * 4)
    with pytest.raises(openai.BadRequestError, match="there is no token 999999"):
        chat(client, logit_bias={"999999": 1})


def test_formats_are_kept(client):
    pytest.importorskip("llguidance", reason="needs the package llguidance")
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    found = chat(client, response_format=form, max_tokens=400, n=2, stream=False)
    for choice in found.choices:
        assert choice.finish_reason == "stop"
        assert set(json.loads(choice.message.content)) == {"name", "age"}
    text = chat(client, response_format={"type": "json_object"}, max_tokens=400).choices[0]
    assert text.finish_reason == "length" or isinstance(json.loads(text.message.content), dict)
    words = ["yes, sir", "no (never)"]
    how = {"structured_outputs": {"choice": words}}
    assert chat(client, extra_body=how, max_tokens=40).choices[0].message.content in words
    how = {"structured_outputs": {"regex": "[ab]{3}c"}}
    parts = list(chat(client, extra_body=how, max_tokens=40, stream=True))
    text = "".join(p.choices[0].delta.content or "" for p in parts)
    assert re.fullmatch("[ab]{3}c", text)


def post(address: str, **body: Any) -> tuple[int, str]:
    answer = httpx.post(address, json=body)
    return answer.status_code, answer.text


def test_adapters_are_loaded_and_unloaded_while_it_serves(model, tmp_path):
    draw, arrays = np.random.default_rng(0), {}
    for name, rows, columns in (("lora_A", 2, 64), ("lora_B", 64, 2)):
        key = f"base_model.model.model.layers.0.self_attn.q_proj.{name}.weight"
        arrays[key] = draw.normal(size=(rows, columns)).astype("float32")
    rlx.save(tmp_path / "legal.safetensors", arrays)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    for address in served(model, adapters=tmp_path, room=2):
        load, unload = (f"{address}/v1/{verb}_lora_adapter" for verb in ("load", "unload"))
        with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="none")) as client:
            plain = chat(client).choices[0].message.content
            with pytest.raises(openai.NotFoundError, match="there is no model 'legal'"):
                chat(client, model="legal")
            given = {"lora_name": "legal", "lora_path": "legal.safetensors"}
            told = "Success: LoRA adapter 'legal' added successfully."
            assert post(load, **given) == (200, told)
            assert [m.id for m in client.models.list()] == ["small", "legal"]
            other = chat(client, model="legal")
            assert other.model == "legal" and other.choices[0].message.content != plain
            assert chat(client).choices[0].message.content == plain
            assert post(load, **given)[0] == 400
            assert post(load, **given, load_inplace=True)[0] == 200
            assert post(load, **{**given, "lora_name": "small"})[0] == 400
            for path in ("none.safetensors", "../legal.safetensors", "/etc/passwd", "a\0b"):
                assert post(load, lora_name="x", lora_path=path)[0] == 404
            status, text = post(load, lora_name="x", lora_path="broken.safetensors")
            assert status == 400 and str(tmp_path) not in text
            assert post(load, lora_name=3)[0] == 400
            half = {"content": b'{"lora_name": "\\ud800", "lora_path": "legal.safetensors"}'}
            assert httpx.post(load, **half).status_code == 400
            assert post(unload, lora_name="legal")[0] == 200
            assert post(unload, lora_name="legal")[0] == 404
            assert [m.id for m in client.models.list()] == ["small"]


def test_adapters_of_any_place_are_not_loaded(address):
    body = {"lora_name": "x", "lora_path": "/etc/passwd"}
    assert post(f"{address}/v1/load_lora_adapter", **body)[0] == 403
    assert post(f"{address}/v1/unload_lora_adapter", lora_name="x")[0] == 403


def test_embeddings_are_those_of_the_model(model, address):
    with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="none")) as client:
        wanted = Pooled(model).encode(["ab", "hello there"]).host()
        for how in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            found = client.embeddings.create(model="small", input=["ab", "hello there"], **how)
            rows = [x.embedding for x in found.data]
            if how.get("encoding_format") == "base64":
                rows = [np.frombuffer(base64.b64decode(x), "<f4") for x in rows]
            np.testing.assert_array_equal(np.array(rows, "float32"), wanted)
        tokens = [model.tokenizer.encode("ab", add_special=True)]
        one = client.embeddings.create(model="small", input=tokens, dimensions=64)
        assert one.data[0].embedding == wanted[0].tolist()
        assert one.usage.prompt_tokens == len(tokens[0])
        for wrong, param in (
            ({"input": []}, "input"), ({"input": [3.5]}, "input"), ({"input": [[]]}, "input"),
            ({"input": "a", "dimensions": 3}, "dimensions"),
            ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
            ({"input": "a " * 600}, "input"), ({"input": [[10**30]]}, "input"),
            ({"input": "a", "colour": 1}, "colour"),
        ):  # fmt: skip
            answer = httpx.post(f"{address}/v1/embeddings", json=wrong)
            assert answer.status_code == 400 and answer.json()["error"]["param"] == param


def test_errors_are_the_classes_of_the_client(client, address):
    with pytest.raises(openai.BadRequestError, match="100000 more are over the model's context"):
        chat(client, max_tokens=100_000)
    wide = json.dumps({"messages": ASK, "max_tokens": 1}).encode("utf-16")
    for text in (b"{", b"[]", b'{"messages": NaN}', b"[" * 10_000, b"\xff", wide):
        assert httpx.post(f"{address}/v1/chat/completions", content=text).status_code == 400
    half, huge = r'"\ud800"', b"9" * 400
    for text in (
        b'{"messages": [{"role": "user", "content": %s}]}' % half.encode(),
        b'{"messages": [{"role": %s, "content": "a"}]}' % half.encode(),
        b"{%s: 1}" % half.encode(),
        b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": %s}' % huge,
        b'{"messages": [{"role": "user", "content": "a"}], "temperature": 1e999}',
    ):
        answer = httpx.post(f"{address}/v1/chat/completions", content=text)
        assert answer.status_code == 400 and answer.json()["error"]["message"]
    for prompt in (half, f"[{huge.decode()}]", f"[{huge.decode()}, 1]", "[-1]", "[[]]"):
        answer = httpx.post(f"{address}/v1/completions", content='{"prompt": %s}' % prompt)  # noqa: UP031
        assert answer.status_code == 400 and answer.json()["error"]["message"]
    assert httpx.post(f"{address}/v1/completions", content=b" " * (2 << 20)).status_code == 413
    assert httpx.get(f"{address}/v1/nothing").status_code == 404


def test_keys_queues_and_deadlines(model):
    for address in served(model, keys=["secret"], max_waiting=1, max_sequences=1, timeout=0.02):
        ask = {"base_url": f"{address}/v1", "max_retries": 0}
        with closing(openai.OpenAI(api_key="wrong", **ask)) as wrong:
            with pytest.raises(openai.AuthenticationError):
                chat(wrong)
        with closing(openai.OpenAI(api_key="secret", **ask)) as right:
            assert [m.id for m in right.models.list()] == ["small"]
            with pytest.raises(openai.RateLimitError, match="wait already") as caught:
                chat(right, n=4)
            assert caught.value.response.headers["retry-after"] == "1"
            health = httpx.get(f"{address}/health").json()
            assert health["running"] == health["waiting"] == 0  # the samples before it ended, too
            with pytest.raises(openai.APIStatusError, match=r"more than 0.02 s") as late:
                chat(right, max_tokens=450, temperature=0)
            assert late.value.status_code == 408


def test_who_leaves_costs_no_more(address, monkeypatch):
    step = Engine.step  # an answer takes seconds, however quick the machine is
    monkeypatch.setattr(Engine, "step", lambda self: (time.sleep(0.005), step(self))[1])

    def running() -> int:
        return httpx.get(f"{address}/health").json()["running"]

    def written() -> float:
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return next(float(x.split()[1]) for x in lines if x.startswith("rlx_tokens_written_total "))

    body = {"model": "small", "messages": ASK, "max_tokens": 450, "temperature": 0}
    for stream in (False, True):
        before = written()
        with pytest.raises(httpx.ReadTimeout):
            with httpx.stream(
                "POST",
                f"{address}/v1/chat/completions",
                json=body | {"stream": stream},
                timeout=0.2,
            ) as answer:
                for _ in answer.iter_lines():
                    if stream:
                        raise httpx.ReadTimeout("enough")
        until = time.monotonic() + 20
        while running() and time.monotonic() < until:
            time.sleep(0.02)
        assert running() == 0 and written() - before < 450


def test_health_and_metrics(address):
    assert httpx.get(f"{address}/ready").json() == {"ready": True}
    health = httpx.get(f"{address}/health").json()
    assert health["status"] == "ok" and health["seconds_since_step"] < 30
    text = httpx.get(f"{address}/metrics").text
    assert 'rlx_http_answers_total{path="/v1/chat/completions",status="200"}' in text
    assert "rlx_pages_free" in text and "hello" not in text


def test_an_engine_that_fails_says_so(model, monkeypatch):
    for address in served(model):
        monkeypatch.setattr(Drawing, "__call__", lambda *_: 1 / 0)
        answer = httpx.post(f"{address}/v1/completions", json={"prompt": "ab"}, timeout=60)
        assert answer.status_code == 500
        assert "failed" in json.loads(answer.text)["error"]["message"]
        answer = httpx.post(f"{address}/v1/completions", json={"prompt": "ab"}, timeout=60)
        assert answer.status_code == 503 and "failed" in answer.json()["error"]["message"]
        assert httpx.get(f"{address}/health").status_code == 503


def worker_of(pid: int) -> int:
    """The process of the worker of a server."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("no worker runs")


def test_the_command_line_serves_and_finishes_what_it_began(model, path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    line = [sys.executable, "-m", "rlx", "serve", str(path), "--port", str(port), "--cache", "2M"]
    line += ["--workers", "1"]
    keys = {**os.environ, "RLX_API_KEYS": "other, secret"}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=keys)
    try:
        assert process.stdout.readline() == f"small at http://127.0.0.1:{port}/v1\n"
        body = {"prompt": "ab", "max_tokens": 120, "temperature": 0, "stream": True}
        address = f"http://127.0.0.1:{port}"
        until, text = time.monotonic() + 60, ""
        while time.monotonic() < until:
            try:
                httpx.get(f"{address}/ready")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        assert httpx.post(f"{address}/v1/completions", json=body).status_code == 401
        key = {"Authorization": "Bearer secret"}
        with httpx.stream(
            "POST", f"{address}/v1/completions", json=body, headers=key, timeout=60
        ) as answer:
            for number, event in enumerate(answer.iter_lines()):
                if number == 0:  # its worker dies, and then it is told to end
                    assert httpx.get(f"{address}/ready").json() == {"ready": True}
                    metrics = httpx.get(f"{address}/metrics").text
                    assert "rlx_workers 1.0" in metrics and "rlx_pages_free" in metrics
                    (worker,) = httpx.get(f"{address}/health").json()["workers"]
                    assert worker.keys() == {"running", "seconds_since_step"}
                    os.kill(worker_of(process.pid), signal.SIGKILL)
                    process.send_signal(signal.SIGTERM)
                if event.startswith("data: {"):
                    text += json.loads(event[6:])["choices"][0]["text"]
        assert text == model.generate("ab", max_tokens=120).text
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.stdout.close()


def test_malformed_requests_are_answered():
    seen = fuzz_http.run(int(os.environ.get("MALFORMED", "120")), seed=1)
    assert seen[400] > 60 and seen[200] > 0
