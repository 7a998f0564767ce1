"""The page of the server, in a browser without a window if there is one."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
pytest.importorskip("uvicorn", reason="needs the package uvicorn")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")
pytest.importorskip("openai", reason="needs the package openai")

import browser  # noqa: E402
from test_serve_http import model, path, served  # noqa: E402, F401

from rlx.serve import Engine  # noqa: E402


@pytest.fixture(scope="module")
def address(model: Any) -> Iterator[str]:  # noqa: F811
    yield from served(model, keys=["secret"])


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Any]:
    """A tab of a browser with the page."""
    with browser.tab(browser.SIZES["serve"]) as opened:
        opened.goto(address)
        yield opened


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; the page's policy lets nobody evaluate texts in it."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def number(tab: Any, name: str) -> float:
    """A number that the page shows; -1 if there is none yet."""
    text = tab.text_content(name)
    return -1.0 if text == "-" else float(text)


def test_the_page_runs_its_own_script_alone(address):
    page = httpx.get(address)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r"(src|href)=|https?:", page.text)  # nothing from elsewhere


def test_a_conversation_in_a_browser(model, tab, address):  # noqa: F811
    tab.fill("#text", "<b>hello</b>")
    tab.click("#send")
    tab.wait_for_selector(".error")
    assert "wrong or missing API key" in tab.inner_text(".error")
    tab.faults.clear()  # of the answer 401
    tab.fill("#key", "secret")
    tab.dispatch_event("#key", "change")
    until(lambda: tab.input_value("#model") == "small")
    tab.click("#clear")
    tab.fill("#limit", "12")
    tab.fill("#temperature", "0")
    asks = []
    for text in ("<b>hello</b>", "again"):
        asks.append({"role": "user", "content": text})
        wanted = model.chat(asks, max_tokens=12, temperature=0.0).text
        tab.fill("#text", text)
        tab.press("#text", "Enter")
        count = len(asks) + 1
        until(lambda: tab.locator(".message").count() == count)  # noqa: B023
        tab.wait_for_selector("#stop[disabled]", state="attached")
        assert tab.text_content(".message:last-child") == wanted
        asks.append({"role": "assistant", "content": wanted})
    assert tab.text_content(".message.user") == "<b>hello</b>"  # text, no markup
    assert tab.faults == [] and all(url.startswith(address) for url in tab.asked)


def test_the_engine_is_watched_and_an_answer_stopped(tab, monkeypatch):
    step = Engine.step
    monkeypatch.setattr(Engine, "step", lambda self: (time.sleep(0.03), step(self))[1])
    tab.click("#clear")
    tab.fill("#limit", "450")
    tab.fill("#text", "on and on")
    tab.click("#send")
    until(lambda: number(tab, "#running") == 1)
    until(lambda: number(tab, "#written") > 0)
    assert tab.text_content("#state") == "ok"
    tab.click("#clear")  # which stops the answer; the next conversation knows nothing of it
    tab.wait_for_selector("#stop[disabled]", state="attached")
    tab.fill("#text", "anew")
    with tab.expect_request("**/chat/completions") as asked:
        tab.click("#send")
    assert [x["content"] for x in asked.value.post_data_json["messages"]] == ["anew"]
    tab.click("#stop")
    until(lambda: number(tab, "#running") == 0)
    assert re.fullmatch(r"\d+ of \d+ are promised", tab.text_content("#pages"))
    assert len(tab.get_attribute("#curve", "points").split()) >= 2
    assert tab.faults == []


def test_the_documentation_shows_the_page(tab):
    tab.click("#clear")
    tab.fill("#limit", "24")
    browser.check_shown("serve", browser.picture_of_serve(tab, ["hello there", "and again"]))
