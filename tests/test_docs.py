"""The documentation: links lead somewhere, pages are found, README fits on two screens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from tests import mistakes

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
BLOCKS = re.MULTILINE | re.DOTALL
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MOST_LINES, FIRST_SCREEN = 120, 40  # of README.md
DIFFERS = "A device that is not there"  # by what is installed
OPENS_NOTHING = {"Assignment to an array"}  # wrong in JAX only


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """The names of a page's headings, as browsers find them."""
    text = re.sub(r"^```.*?^```", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    bare = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in bare
    }


def is_made(path: Path) -> bool:
    """Whether a page of the site is made when that is built."""
    return path.parent == DOCS / "api"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    dead = []
    for link in LINK.findall(CODE.sub("", text_of(page))):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not (target.exists() or is_made(target)) or (
            anchor and target.suffix == ".md" and anchor not in anchors(target)
        ):
            dead.append(link)
    assert not dead


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r"(\w+\.md)$", text_of(ROOT / "mkdocs.yml"), re.MULTILINE))
    missing = {page.name for page in DOCS.glob("*.md")} - named
    assert not missing, f"mkdocs.yml: give {missing} a place in the navigation"


def test_readme_is_short_and_begins_with_what_matters():
    lines = text_of(ROOT / "README.md").splitlines()
    assert len(lines) <= MOST_LINES
    first = "\n".join(lines[:FIRST_SCREEN])
    for words in ("Why", ">>> step(w, x, y)", "Array([", "make demo", "make test"):
        assert words in first, words


def test_every_setting_is_on_its_page():
    page = text_of(DOCS / "settings.md")
    sources = "\n".join(text_of(path) for path in (ROOT / "rlx").rglob("*.py"))
    settings = set(re.findall(r"\bRLX_[A-Z_]*[A-Z]\b", sources))
    missing = sorted(name for name in settings if f"`{name}=" not in page)
    assert not missing, f"docs/settings.md: {missing}"


@pytest.mark.parametrize("name", ["deployment", "from_jax", "from_pytorch"])
def test_programs_of_guides_run(name: str):
    """Doctest runs the sessions of all pages; here are programs after them, in their names."""
    names: dict[str, Any] = {}
    for kind, code in re.findall(r"^```(\w+)\n(.*?)^```", text_of(DOCS / f"{name}.md"), BLOCKS):
        if kind == "python":
            for library in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
                pytest.importorskip(library, reason=f"needs {library}")
        if kind in ("python", "pycon"):
            exec(doctest.script_from_examples(code) if kind == "pycon" else code, names)


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=lambda mistake: mistake.title)
def test_wrong_code_is_told_and_right_code_runs(mistake: mistakes.Mistake):
    wrong = mistakes.in_rlx(mistake.wrong)
    if mistake.title == DIFFERS and wrong.kind is None:
        pytest.skip("the device is there")
    assert (wrong.kind is None) == (mistake.title in OPENS_NOTHING), wrong
    assert wrong.kind is None or "\n  fix    " in wrong.text or "x.to(" in wrong.text
    assert mistakes.in_rlx(mistake.right).kind is None


def test_the_page_of_mistakes_is_what_happens():
    def told(page: str) -> list[str]:
        return [part for part in page.split("\n## ")[1:] if DIFFERS not in part.splitlines()[0]]

    assert told(text_of(mistakes.PAGE)) == told(mistakes.page()), "run make pages"
