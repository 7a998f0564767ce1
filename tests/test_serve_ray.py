"""Two replicas behind Ray Serve on one machine."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from llama_writer import write_llama

import rlx

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
ray = pytest.importorskip("ray", reason="needs the package ray")
pytest.importorskip("grpc", reason="needs ray[serve]")

SIZES = {"layers": 2, "size": 64, "hidden": 64, "kv_heads": 1, "heads": 2, "head_size": 32}
pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray


def test_two_replicas_answer_with_the_same_texts(tmp_path: Path, monkeypatch) -> None:
    from ray import serve

    from rlx.serve.ray import replicas

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    path = tmp_path / "small.gguf"
    how = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
    write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **how)
    wanted = rlx.models.load(path).generate("ab", max_tokens=20).text

    def make():
        import os

        from starlette.responses import PlainTextResponse
        from starlette.routing import Route

        from rlx.serve.http import application

        app = application(rlx.serve.Engine(rlx.models.load(path), cache="2M"), name="small")
        app.routes.append(Route("/pid", lambda _: PlainTextResponse(str(os.getpid()))))
        return app

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"port": port})
        serve.run(replicas(make, 2, ray_actor_options={"num_cpus": 1}))
        address = f"http://127.0.0.1:{port}"
        body = {"prompt": "ab", "max_tokens": 20, "temperature": 0}
        with ThreadPoolExecutor(8) as pool:
            asks = [pool.submit(httpx.post, f"{address}/v1/completions", json=body, timeout=60)
                    for _ in range(16)]  # fmt: skip
            pids = [pool.submit(httpx.get, f"{address}/pid", timeout=60) for _ in range(16)]
            texts = {x.result().json()["choices"][0]["text"] for x in asks}
            assert texts == {wanted} and len({x.result().text for x in pids}) == 2
        with httpx.stream(
            "POST", f"{address}/v1/completions", json={**body, "stream": True}, timeout=60
        ) as answer:
            lines = [line for line in answer.iter_lines() if line]
        parts = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert "".join(x["choices"][0]["text"] for x in parts) == wanted
        assert lines[-1] == "data: [DONE]"
    finally:
        serve.shutdown()
        ray.shutdown()
