"""The texts of docs/tour.md are what the code makes; test_house.py holds its lists of files."""

from __future__ import annotations

import pytest
import tour

PAGE = tour.PAGE.read_text(encoding="utf-8")


def test_every_text_stands_on_the_page_once():
    assert sorted(name for _, name, _, _ in tour.BLOCK.findall(PAGE)) == sorted(tour.TEXTS)


@pytest.mark.parametrize("name", tour.TEXTS)
def test_a_text_is_what_the_code_makes(name: str):
    if not tour.made_here(name):
        pytest.skip("another LLVM than that of the page")
    shown = {block: text for _, block, text, _ in tour.BLOCK.findall(PAGE)}[name]
    assert shown.strip("\n") == tour.TEXTS[name]().strip("\n"), "run make pages"
