"""The API reference of the documentation site holds every public name, and its links lead there."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests import api_reference
from tests.public_names import public_values


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return api_reference.pages()


def anchors(page: str) -> set[str]:
    return set(re.findall(r"\{ #([\w.]+) \}$", page, re.MULTILINE))


def test_every_public_name_has_an_entry(pages: dict[str, str]):
    found = set().union(*map(anchors, pages.values()))
    inherited = {
        place
        for place, value in public_values()
        if not isinstance(value, ModuleType) and place not in found
    }
    # a member that a class inherits stands with the class that defines it
    assert not [place for place in inherited if place.rpartition(".")[0] not in found]


def test_links_lead_to_entries(pages: dict[str, str]):
    for name, page in pages.items():
        for home, anchor in re.findall(r"\]\(([\w.]+)\.md(?:#([\w.]+))?\)", page):
            assert not anchor or anchor in anchors(pages[home]), f"{name}: {home}.md#{anchor}"


def test_an_entry_lists_parameters_and_errors(pages: dict[str, str]):
    entry = pages["rlx.optim"].partition("{ #rlx.optim.adamw }")[2].partition("\n## ")[0]
    assert "weight_decay=0.0001,\n" in entry and ") -> Optimizer" in entry
    assert "- `weight_decay` (`LearningRate`, default `0.0001`): Parameters shrink by" in entry
    assert "- `b1` (`float`, default `0.9`): how much of the running means" in entry
    assert "```pycon\n>>> " in entry and "Source: `rlx/optim/" in entry
    entry = pages["rlx"].partition("{ #rlx.save }")[2].partition("\n## ")[0]
    assert "**Raises** [`DtypeError`](rlx.md#rlx.DtypeError)" in entry


def test_signs_of_markdown_mean_themselves():
    text = "x**2 * y**2 of `<lambda>` and <lambda>\n\n>>> 2 * 3\n6\n\nafter"
    assert api_reference.prose(text) == (
        "x\\**2 * y\\**2 of `<lambda>` and \\<lambda>\n\n\n```pycon\n>>> 2 * 3\n6\n```\n\nafter"
    )
