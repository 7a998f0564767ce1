"""The tour of the compiler is true: its files, its texts and its table of folders."""

from __future__ import annotations

import re

import pytest
import tour

PAGE = tour.PAGE.read_text(encoding="utf-8")
FILES = re.findall(r"^\d+\. `(rlx/\S+\.py)`", PAGE, re.MULTILINE)
ROWS = re.findall(r"^\| `(rlx[\w/]*)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
FEW, SHORT = 12, 3000


def test_the_files_to_read_are_few_and_short():
    assert len(FILES) == FEW
    lines = sum((tour.ROOT / name).read_text(encoding="utf-8").count("\n") for name in FILES)
    assert lines <= SHORT, f"the files of the tour have {lines} lines"


def test_every_folder_is_listed_with_what_to_read_first():
    folders = {path.parent for path in (tour.ROOT / "rlx").rglob("*.py")}
    listed = [row[0] for row in ROWS]
    assert sorted(listed) == sorted(str(f.relative_to(tour.ROOT)) for f in folders)
    for folder, enters, leaves, first in ROWS:
        assert enters.strip() and leaves.strip()
        names = re.findall(r"`(\w+\.py)`", first)
        assert names, f"{folder}: say what to read first"
        for name in names:
            assert (tour.ROOT / folder / name).is_file(), f"{folder} has no {name}"


def test_every_text_stands_on_the_page_once():
    assert sorted(name for _, name, _, _ in tour.BLOCK.findall(PAGE)) == sorted(tour.TEXTS)


@pytest.mark.parametrize("name", tour.TEXTS)
def test_a_text_is_what_the_code_makes(name: str):
    if not tour.made_here(name):
        pytest.skip("another LLVM than that of the page")
    shown = {block: text for _, block, text, _ in tour.BLOCK.findall(PAGE)}[name]
    assert shown.strip("\n") == tour.TEXTS[name]().strip("\n"), "run make docs"
