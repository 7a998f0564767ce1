"""A Chromium without a window, where there is one, and pictures of pages for the documentation.

    python -m tests.browser --write     # `make screenshots`

writes docs/pictures/explore.png and serve.png. The tests of both pages draw them again, and compare
that with what the documentation shows: roughly, for letters differ from machine to machine.
"""

from __future__ import annotations

import io
import linecache
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZES = {"explore": (1280, 800), "serve": (1000, 640)}
MOST_BYTES = 150_000  # of a picture
COLORS = 96  # that a picture keeps
ROUGH = (32, 20)  # fields in which pictures are compared
UNLIKE = 12.0  # of 255: the most that these may differ, in the mean
PROGRAM = """\
import rlx
import rlx.numpy as rnp


def attention(x, w):
    q, k, v = rnp.split(x @ w, 3, axis=1)
    scores = rnp.exp(q @ k.T / 8)
    return (scores / scores.sum(axis=1, keepdims=True)) @ v


def loss(w, u, x):
    h = attention(x, w)
    h = rnp.tanh(h @ u) + h
    return (h * h).mean()


def page(w, u, x):
    return rlx.explore(rlx.value_and_grad(loss, argnums=(0, 1)))(w, u, x)
"""


def chromium() -> str:
    """The path of a Chromium; skips the test without one."""
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("needs a Chromium: one in PATH, or BROWSER_PATH")
    return found


@contextmanager
def tab(size: tuple[int, int] = (1400, 900)) -> Iterator[Any]:
    """A tab of playwright; what it asks for and what fails are in its `asked` and `faults`."""
    api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    path, (width, height) = chromium(), size
    with api.sync_playwright() as runs:
        browser = runs.chromium.launch(executable_path=path, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": width, "height": height})
        opened.asked, opened.faults = [], []
        opened.on("request", lambda request: opened.asked.append(request.url))
        opened.on("pageerror", lambda error: opened.faults.append(str(error)))
        opened.on("console", lambda said: said.type == "error" and opened.faults.append(said.text))
        yield opened
        browser.close()


# -- pictures -------------------------------------------------------------------------------------


def small(picture: bytes) -> bytes:
    """A picture in few colors."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS, dither=0)
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def rough(picture: bytes) -> np.ndarray:
    """How light the fields of a picture are."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("L").resize(ROUGH, Image.Resampling.BOX)
    return np.asarray(image, float)


def check_shown(name: str, picture: bytes) -> None:
    """Whether the documentation shows a picture like this one, and a small one."""
    Image = pytest.importorskip("PIL.Image", reason="needs the package pillow")
    path = PICTURES / f"{name}.png"
    shown = path.read_bytes()
    again = f"python -m tests.browser --write draws {path.name} again"
    assert len(shown) <= MOST_BYTES, again
    assert Image.open(io.BytesIO(shown)).size == SIZES[name], again
    assert np.abs(rough(shown) - rough(picture)).mean() < UNLIKE, again


def explored() -> rlx.viz.explore.Explored:
    """The gradient of a small attention, explored."""
    file, names = "model.py", dict[str, Any]()
    lines: list[str] = [*PROGRAM.splitlines(keepends=True)]
    linecache.cache[file] = (len(PROGRAM), None, lines, file)
    exec(compile(PROGRAM, file, "exec"), names)
    draw = np.random.default_rng(0)
    given = [draw.normal(size=s).astype("f4") for s in ((64, 192), (64, 64), (128, 64))]
    found = names["page"](*map(rlx.array, given))
    assert found.html  # while its lines are known
    del linecache.cache[file]
    return found


def picture_of_explore(opened: Any, page: Path) -> bytes:
    """The page with a line chosen."""
    opened.goto(page.as_uri())
    opened.locator(".source .i", has_text="rnp.exp").first.click()
    return opened.screenshot()


def picture_of_serve(opened: Any, asks: list[str]) -> bytes:
    """The page of a server after it was asked something."""
    for count, text in enumerate(asks, 1):
        opened.fill("#text", text)
        opened.press("#text", "Enter")
        opened.locator(".message").nth(2 * count - 1).wait_for()
        opened.wait_for_selector("#stop[disabled]", state="attached", timeout=120_000)
    return opened.screenshot()


@contextmanager
def server(path: str) -> Iterator[str]:
    """The address of `rlx serve`, once it answers."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rlx", "serve", path, "--port", str(port), "--cache", "64M"]
    process, address = subprocess.Popen(command), f"http://127.0.0.1:{port}"
    for _ in range(600):
        time.sleep(0.1)
        with suppress(OSError), urllib.request.urlopen(f"{address}/ready"):
            break
    yield address
    process.terminate()
    process.wait()


def write() -> None:
    """Draw all pictures."""
    from tests.real_models import smollm_path

    page = ROOT / "out" / "explore.html"
    page.parent.mkdir(exist_ok=True)
    explored().save(page)
    with tab(SIZES["explore"]) as opened:
        (PICTURES / "explore.png").write_bytes(small(picture_of_explore(opened, page)))
    with server(str(smollm_path())) as address, tab(SIZES["serve"]) as opened:
        opened.goto(address)
        opened.fill("#temperature", "0")
        asks = ["What is the capital of France?", "Name three things to see there."]
        (PICTURES / "serve.png").write_bytes(small(picture_of_serve(opened, asks)))
    for name in SIZES:
        print(f"docs/pictures/{name}.png: {(PICTURES / f'{name}.png').stat().st_size} bytes")


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit(__doc__)
    write()
