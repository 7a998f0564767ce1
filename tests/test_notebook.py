"""What notebooks show: `_repr_html_` of arrays, graphs and modules."""

from html.parser import HTMLParser

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir import notebook


class Whole(HTMLParser):
    """Checks that elements close in order; keeps the names of all, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.names: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.stack.append(tag)
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (40, 50), (2, 0), (2, 2, 2), (11, 12)])
def test_arrays(shape):
    shown = Whole(rnp.ones(shape)._repr_html_())
    assert f"f32[{', '.join(map(str, shape))}] on the host" in shown.text
    rows = shown.names.count("tr")
    assert rows == (min(shape[0], 11) if len(shape) == 2 and shape[1] else 0)


def test_numbers_of_matrices_are_theirs():
    x = np.arange(6.0).reshape(2, 3)
    assert Whole(rlx.array(x)._repr_html_()).text.endswith("0.1.2.3.4.5.")


def test_graphs_name_their_lines(monkeypatch):
    graph = rlx.make_graph(lambda x: (x < 1) * x)(rnp.ones(3))
    shown = Whole(graph._repr_html_())
    assert str(graph) in shown.text and "test_notebook.py" in shown.text
    assert f"{len(graph.nodes)} nodes" in shown.text
    monkeypatch.setattr(notebook, "MOST_LINES", 4)
    many = rlx.make_graph(lambda x: sum((x * i for i in range(9)), x))(rnp.ones(3))
    assert "more lines" in Whole(many._repr_html_()).text


def test_modules_fold():
    keys = rlx.random.split(rlx.random.key(0))
    model = nn.Sequential([nn.Linear(3, 4, key=keys[0]), nn.relu, nn.Linear(4, 2, key=keys[1])])
    shown = Whole(model._repr_html_())
    assert shown.names.count("details") >= 3
    assert "weight=f32[3, 4]" in shown.text and "4 arrays, 26 numbers" in shown.text
    assert "relu" in shown.text


def test_memory_plans_are_pictures():
    plan = rlx.memory_plan(lambda x: rnp.tanh(x @ x) @ x)(rlx.spec((64, 64)))
    assert plan._repr_svg_().startswith("<svg")
