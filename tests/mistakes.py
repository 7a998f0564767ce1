"""docs/mistakes.md: what beginners write, what rlx and JAX say to it, and the right code.

    python -m tests.mistakes          print the page
    python -m tests.mistakes --write  write it (make pages)
    python -m tests.mistakes --jax    run the mistakes in JAX, too, and keep what it says

Each wrong program runs in rlx whenever the page is made. What JAX says to the same program, with
its names, is kept in mistakes_jax.json; layers are those of Flax NNX there.
"""

from __future__ import annotations

import json
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "mistakes.md"
OF_JAX = Path(__file__).with_name("mistakes_jax.json")
FILE = "program.py"  # as which programs run
LONGEST = 900  # letters of a message that are shown
HEAD = """\
# Mistakes and their errors

What beginners write, what to write instead, and what rlx and JAX say. `make pages` writes this
page: it runs each wrong program in rlx. What JAX says to the same program was kept from
{version}; layers are those of Flax there.

In every message of rlx, *where* is your line with the operands that matter, and *fix* is what to
write. The first ten are those that newcomers meet first. The table says what is in the message
itself; Python's traceback above it shows your line in both.

| mistake | rlx: your line | operands, argument | a fix | JAX: your line | a fix |
| --- | :-: | :-: | :-: | :-: | :-: |
{rows}
"""


class Mistake(NamedTuple):
    """A wrong program and the right one; `jax` if JAX needs other names than those replaced."""

    title: str
    wrong: str
    right: str
    jax_has_fix: bool  # whether JAX's message says what to write instead
    jax: str | None = None


def _mistakes() -> Iterator[Mistake]:
    """Read the programs: titles, then wrong code, right code and maybe JAX's, between marks."""
    text = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
    for part in text.split("\n=== ")[1:]:
        title, _, rest = part.partition("\n")
        codes = dict(re.findall(r"^--- (\w+)\n(.*?)(?=^--- |\Z)", rest, re.MULTILINE | re.DOTALL))
        codes = {name: code.strip("\n") for name, code in codes.items()}
        title, _, marks = title.partition(" [")
        yield Mistake(title, codes["wrong"], codes["right"], "fix" in marks, codes.get("jax"))


MISTAKES = list(_mistakes())


class Outcome(NamedTuple):
    """What a program did: the error with its message, or what it gave."""

    kind: str | None
    text: str

    @property
    def message(self) -> str:
        """As Python prints it."""
        if self.kind is None:
            return f"no error: y is {self.text}"
        shown = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]} ..."
        return f"{self.kind}: {shown}" if shown else self.kind


def run(code: str, names: dict[str, Any]) -> Outcome:
    """Run a program that leaves its result in `y`."""
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    try:
        exec(compile(code, FILE, "exec"), names)
    except Exception as error:
        kind = type(error)
        home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return Outcome(f"{home}{kind.__qualname__}", str(error))
    finally:
        del linecache.cache[FILE]
    return Outcome(None, re.sub(r"\s+", " ", repr(names.get("y"))))


def in_rlx(code: str) -> Outcome:
    """What a program does in rlx."""
    import rlx
    import rlx.numpy as rnp
    from rlx import nn

    return run(code, {"rlx": rlx, "rnp": rnp, "nn": nn, "np": np})


def in_jax(mistake: Mistake) -> Outcome:
    """What the wrong program does in JAX."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    code = mistake.jax or mistake.wrong
    for old, new in (
        (r"rlx\.(scan|cond|fori_loop)", r"jax.lax.\1"), (r"rlx\.", "jax."), (r"rnp\.", "jnp.")
    ):  # fmt: skip
        code = re.sub(old, new, code)
    jax.config.update("jax_traceback_filtering", "off")
    return run(code, {"jax": jax, "jnp": jnp, "nnx": nnx, "np": np})


def kept() -> dict[str, Any]:
    """What JAX said, by the title of the mistake."""
    return json.loads(OF_JAX.read_text(encoding="utf-8"))


def page() -> str:
    """The page."""
    of_jax = kept()
    rows, parts = [], []
    for number, mistake in enumerate(MISTAKES, 1):
        ours, theirs = in_rlx(mistake.wrong), Outcome(*of_jax["messages"][mistake.title])
        rows.append(_row(number, mistake, ours, theirs))
        parts.append(_part(number, mistake, ours, theirs))
    head = HEAD.format(version=of_jax["version"], rows="\n".join(rows))
    return "\n".join([head, *parts])


def _row(number: int, mistake: Mistake, ours: Outcome, theirs: Outcome) -> str:
    where, fix = f"{FILE}:" in ours.text, "\n  fix    " in ours.text
    operands = len(re.findall(r"^         \S", ours.text.partition("\n  fix")[0], re.MULTILINE)) > 0
    names = re.search(r"argument|'\w+'|\w+\[[\d, ]*\]|`\w+`", ours.text) is not None
    marks = ["✓" if x else "" for x in (where, operands or names, fix, FILE in theirs.text)]
    jax = [marks[3], "✓" if mistake.jax_has_fix else ""]
    if ours.kind is None:
        marks[:3] = ["works", "works", "works"]
    if theirs.kind is None:
        jax = ["no error", ""]
    anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", f"{number} {mistake.title}").lower())
    return f"| [{number}. {mistake.title}](#{anchor}) | {' | '.join([*marks[:3], *jax])} |"


def _part(number: int, mistake: Mistake, ours: Outcome, theirs: Outcome) -> str:
    blocks = "\n\n".join(
        f"```python\n# {name}\n{code}\n```"
        for name, code in (("wrong", mistake.wrong), ("right", mistake.right))
    )
    messages = "\n\n".join(
        f"{name} says:\n\n```text\n{textwrap.dedent(outcome.message).rstrip()}\n```"
        for name, outcome in (("rlx", ours), ("JAX", theirs))
    )
    grid = f'<div class="grid" markdown>\n\n{blocks}\n\n</div>'
    return f"## {number}. {mistake.title}\n\n{grid}\n\n{messages}\n"


def keep_jax() -> None:
    """Run the mistakes in JAX and keep what it says."""
    import flax
    import jax

    messages = {m.title: list(in_jax(m)) for m in MISTAKES}
    made = {"version": f"JAX {jax.__version__}, Flax {flax.__version__}", "messages": messages}
    OF_JAX.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--jax" in sys.argv:
        keep_jax()
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
