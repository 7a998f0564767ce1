"""How large pages of `rlx.explore` are, and how fast: `python -m benchmarks.exploring`.

The mouse is put on lines, nodes, kernels and functions of the page of an encoder of six layers, and
of its gradient, in a Chromium without a window. Measured is the time in the page from the event
until the picture after it is drawn.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import rlx
from rlx import nn
from tests import browser

HOVERS = 60  # of each column, spread over it
ANSWER = """([column, most]) => new Promise(done => {
  const shown = [...document.querySelectorAll(`.${column} .i`)].filter(x => !x.closest('[hidden]'))
  const step = Math.max(1, Math.floor(shown.length / most)), found = []
  const items = shown.filter((_, i) => i % step === 0).slice(0, most)
  const channel = new MessageChannel()
  let began
  channel.port1.onmessage = () => { found.push(performance.now() - began); next() }
  const next = () => {
    const item = items.shift()
    if (!item) return done(found)
    item.scrollIntoView({block: 'center'})
    requestAnimationFrame(() => requestAnimationFrame(() => {  // the scrolling is drawn
      began = performance.now()
      item.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))
      requestAnimationFrame(() => channel.port2.postMessage(0))  // arrives after style and layout
    }))
  }
  next()
})"""


def encoder(layers: list[nn.TransformerEncoderLayer], x: Any) -> Any:
    """Six layers and a mean."""
    for layer in layers:
        x = layer(x)
    return x.mean()


def main() -> None:
    """Measure, and print sizes and times."""
    keys = rlx.random.split(rlx.random.key(0), 6)
    layers = [nn.TransformerEncoderLayer(64, 4, 128, dropout=0, key=key) for key in keys]
    x = rlx.random.normal(rlx.random.key(1), (2, 32, 64))
    functions = {"an encoder of six layers": encoder, "its gradient": rlx.grad(encoder)}
    with tempfile.TemporaryDirectory() as folder, browser.tab() as opened:
        for name, function in functions.items():
            path = Path(folder, "page.html")
            rlx.explore(function)(layers, x).save(path)
            opened.goto(path.as_uri())
            count = opened.locator(".i").count()
            print(f"{name}: {path.stat().st_size / 1e6:.2f} MB, {count} items")
            for column in ("source", "graph", "kernels", "assembly"):
                times = opened.evaluate(ANSWER, [column, HOVERS])
                print(
                    f"  {column:9} {len(times):3} hovers: median {statistics.median(times):.1f} ms,"
                    f" most {max(times):.1f} ms"
                )


if __name__ == "__main__":
    main()
