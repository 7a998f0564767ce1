"""The page of `rlx.explore`: HTML in one piece, whose parts light up together."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from ..ir.source import Source
from ..lower.step_facts import Line
from .explore import Explored, called_by
from .profile import bytes_text, rate_text, seconds_text

NEAR = 6  # lines between two that compute something, which are shown, too
HERE = Path(__file__)
HINT = (
    "Point at a line, a node, a kernel or a function: what belongs to it lights up. Click, or "
    "press Enter, to keep it; Escape lets go. Tab goes from column to column, arrows within one; "
    "the slider, or [ and ], choose the pass."
)


class Keys:
    """Short names of the user's lines: `0:12` is line 12 of the first file."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.files = list(dict.fromkeys(source.file for source in sources))

    def of(self, source: Source | None) -> str:
        """The name of a line; empty if it is not known."""
        if source is None or source.file not in self.files:
            return ""
        return f"{self.files.index(source.file)}:{source.line}"

    def all(self, lines: Iterable[Line]) -> str:
        """The names of several lines."""
        return " ".join(dict.fromkeys(filter(None, (self.of(line.source) for line in lines))))


def page(explored: Explored) -> str:
    """The page as one text, without any network."""
    keys = Keys(explored.sources)
    style, script = (HERE.with_name(f"page.{kind}").read_text() for kind in ("css", "js"))
    passes = list(explored.stages)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(explored.name)} - rlx explore</title>",
        f"<style>\n{style}</style></head><body>",
        f"<header><h1>{escape(explored.signature)}</h1>",
        f"<p>{escape(_summary(explored))}</p><p class=hint>{escape(HINT)}</p>",
        _slider(passes),
        "</header><main>",
        _column("source", "Source", _source(explored, keys)),
        _column("graph", "Graph", _graphs(explored, keys)),
        _column("kernels", "Kernels", _kernels(explored, keys)),
        _column("assembly", "Assembly", _assembly(explored, keys)),
        "</main><section class=memory><h2>Memory</h2>",
        _memory(explored, keys),
        "</section><section class=missed><h2>Stored, not fused</h2><div role=listbox "
        'tabindex=0 aria-label="Fusions that were missed">',
        *_missed(explored, keys),
        f"</div></section><script>\n{script}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def framed(html: str) -> str:
    """The page in a frame, for notebooks."""
    style = "width:100%;height:640px;border:1px solid #8884"
    return f'<iframe srcdoc="{escape(html)}" style="{style}"></iframe>'


def _summary(explored: Explored) -> str:
    steps = f"{len(explored.steps)} kernels on {explored.device}"
    time = f", {seconds_text(explored.call_seconds)} a call" if explored.runs else ""
    told = f"{steps}{time}, {bytes_text(explored.plan.peak_bytes)} of memory"
    if explored.left_out:
        told += f"; too long to show: {', '.join(explored.left_out)}"
    return told


def _slider(passes: list[str]) -> str:
    names = "".join(f"<option value={i} label='{escape(p)}'>" for i, p in enumerate(passes))
    last = len(passes) - 1
    return (
        f"<label>pass <input id=pass type=range min=0 max={last} value={last} list=passes "
        f'aria-valuetext="{escape(passes[-1])}"> <output id=passname>{escape(passes[-1])}</output>'
        f"</label><datalist id=passes>{names}</datalist>"
    )


def _column(name: str, title: str, items: Iterable[str]) -> str:
    inside = "\n".join(items)
    return (
        f'<section class="column {name}"><h2>{title}</h2>\n'
        f'<div role=listbox tabindex=0 aria-label="{title}">\n{inside}\n</div></section>'
    )


def _item(text: str, lines: str = "", kernels: str = "", kind: str = "") -> str:
    """Something that can be chosen; `text` is HTML."""
    marks = f'data-l="{lines}"' + (f' data-k="{kernels}"' if kernels else "")
    return f'<div class="i {kind}" role=option tabindex=-1 {marks}>{text}</div>'


def _source(explored: Explored, keys: Keys) -> Iterator[str]:
    spent = _by_line(explored)
    whole = sum(seconds for seconds, _ in spent.values()) or 1.0
    for file in keys.files:
        yield f"<h3>{escape(_place(file))}</h3>"
        known = {s.line: s for s in explored.sources if s.file == file}
        before = None
        for number in sorted(known):
            if before is not None and number - before > NEAR:
                yield "<div class=gap>...</div>"
            elif before is not None:
                for between in range(before + 1, number):
                    yield f"<div class=plain>{_line(file, between)}</div>"
            before = number
            seconds, nbytes = spent.get((file, number), (0.0, 0.0))
            cost = f"{seconds_text(seconds)} {100 * seconds / whole:.0f} %" if seconds else ""
            bar = f'<b style="width:{100 * seconds / whole:.1f}%"></b>' if seconds else ""
            told = f"{cost} {bytes_text(nbytes) if nbytes else ''}".strip()
            below = f"<small>{told}</small>" if told else ""
            yield _item(bar + _line(file, number) + below, keys.of(known[number]))


def _place(file: str) -> str:
    """A file as one would name it here."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _by_line(explored: Explored) -> dict[tuple[str, int], tuple[float, float]]:
    """Seconds and bytes of a call, by file and line."""
    found: dict[tuple[str, int], tuple[float, float]] = {}
    inner = _inner_seconds(explored)
    for step in explored.steps:
        own = max(step.seconds - inner.get(step.number, 0.0), 0.0)
        times = step.count / explored.runs if explored.runs else 1.0
        for line in step.facts.lines:
            key = line.source.file, line.source.line
            seconds, nbytes = found.get(key, (0.0, 0.0))
            moved = 0.0 if step.number in inner else step.facts.nbytes * times
            found[key] = seconds + own * line.share, nbytes + moved * line.share
    return found


def _inner_seconds(explored: Explored) -> dict[int, float]:
    """What the steps inside of a loop or a branch took, by the number of that."""
    found: dict[int, float] = {}
    for step in explored.steps:
        outer = step.facts.parent
        if outer is not None:
            found[outer] = found.get(outer, 0.0) + step.seconds
    return found


def _line(file: str, number: int) -> str:
    text = escape(linecache.getline(file, number).rstrip())
    return f"<i>{number}</i><code>{text}</code>"


def _graphs(explored: Explored, keys: Keys) -> Iterator[str]:
    last = len(explored.stages) - 1
    for number, lines in enumerate(explored.stages.values()):
        yield f"<div class=pass data-pass={number}{'' if number == last else ' hidden'}>"
        for text, source in lines:
            yield _item(f"<code>{escape(text)}</code>", keys.of(source))
        yield "</div>"


def _kernels(explored: Explored, keys: Keys) -> Iterator[str]:
    for number, step in enumerate(explored.steps):
        facts = step.facts
        told = [f"<b>{escape(facts.name)}</b>"]
        if step.seconds:
            runs = step.count / explored.runs
            many = f", {runs:.0f} times" if runs > 1 else ""
            told.append(f"<small>{seconds_text(step.seconds)}{many}</small>")
            rates = ((facts.flops, "FLOP/s"), (facts.nbytes, "B/s"))
            rate = [rate_text(count * runs / step.seconds, unit) for count, unit in rates]
            told.append(f"<small>{' '.join(rate)}</small>")
        told.append(f"<small>{bytes_text(facts.nbytes)}</small>")
        kind = "inner" if facts.parent is not None else ""
        yield _item(" ".join(told), keys.all(facts.lines), str(number), kind)


def _assembly(explored: Explored, keys: Keys) -> Iterator[str]:
    users: dict[str, list[int]] = {}
    for number, step in enumerate(explored.steps):
        for name in called_by(step.facts.functions, explored.functions):
            users.setdefault(name, []).append(number)
    for name, text in explored.functions.items():
        numbers = users.get(name, [])
        lines = keys.all(line for n in numbers for line in explored.steps[n].facts.lines)
        count = text.count("\n") + 1
        head = f"<h3>{escape(name)} <small>{count} instructions</small></h3>"
        body = f"<pre tabindex=-1>{escape(text)}</pre>"  # or Tab stops at each
        yield _item(head + body, lines, " ".join(map(str, numbers)), "function")
    if not explored.functions:
        yield f"<p>{escape(explored.device)} gives no assembly</p>"


def _memory(explored: Explored, keys: Keys) -> str:
    """The picture of the memory plan, whose rectangles can be chosen."""

    def chosen(found: re.Match[str]) -> str:
        file, _, line = found[1].rpartition(":")
        key = keys.of(Source(file, int(line), "")) if line else ""
        return f'class=i role=option tabindex=-1 data-l="{key}"'

    picture = re.sub(r'data-line="([^"]*)"', chosen, explored.plan.svg())
    text = escape("\n".join(str(explored.plan).splitlines()[:12]))
    label = 'role=listbox tabindex=0 aria-label="Memory plan"'
    largest = 'tabindex=0 role=region aria-label="Largest arrays"'
    return f"<div class=plan><div {label}>{picture}</div><pre {largest}>{text}</pre></div>"


def _missed(explored: Explored, keys: Keys) -> Iterator[str]:
    for text, source in explored.missed:
        where = f"<small>{escape(str(source))}</small>" if source else ""
        yield _item(f"<code>{escape(text)}</code> {where}", keys.of(source))
    if not explored.missed:
        yield "<p>All that could be fused is.</p>"
