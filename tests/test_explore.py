"""`rlx.explore`: the page's data, its structure, and, where there is a browser, what it does."""

from __future__ import annotations

import inspect
import re
from html.parser import HTMLParser

import browser
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.cli import main as command

R = np.random.default_rng(4)
X, W, U = (rlx.array(R.normal(size=s).astype("f4")) for s in ((128, 64), (64, 192), (64, 64)))


def attention(x, w):
    q, k, v = rnp.split(x @ w, 3, axis=1)
    scores = rnp.exp(q @ k.T / 8)
    return (scores / scores.sum(axis=1, keepdims=True)) @ v


def loss(x, w, u):
    h = attention(x, w)
    h = rnp.tanh(h @ u) + h
    return (h * h).mean()


@pytest.fixture(scope="module")
def explored():
    return rlx.explore(rlx.grad(loss, argnums=(1, 2)))(X, W, U)


class Page(HTMLParser):
    """The elements of a page: name, attributes, texts inside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "option"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closes another element"

    def of(self, role: str) -> list[dict]:
        return [a for _, a in self.elements if a.get("role") == role]


def number_of(fn, text: str) -> int:
    lines, first = inspect.getsourcelines(fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_every_part_names_the_users_lines(explored):
    wanted = {number_of(attention, t) for t in ("split", "rnp.exp", "return")}
    wanted |= {number_of(loss, t) for t in ("h @ u", "mean")}
    assert wanted <= {s.line for s in explored.sources if s.file == __file__}
    assert wanted == {line.source.line for step in explored.steps for line in step.facts.lines}
    graph = explored.stages[next(iter(explored.stages))]
    nodes = [source for text, source in graph if " = " in text]
    assert nodes and all(source is not None for source in nodes)
    assert all(step.seconds > 0 and step.count == explored.runs for step in explored.steps)


def test_kernels_have_their_machine_code(explored):
    names = set(explored.functions)
    for step in explored.steps:
        assert step.facts.functions and set(step.facts.functions) <= names
    assert "main" in names and not any(n.startswith("places") for n in names)
    code = "\n".join(explored.functions.values())
    assert "mul" in code or "fma" in code


def test_the_page_is_whole_and_needs_no_network(explored, tmp_path):
    page = Page(explored.html)
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag != "link" and "src" not in attributes and "href" not in attributes
    addresses = set(re.findall(r"https?://[^\"'\s<]*", explored.html))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    explored.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == explored.html
    assert "<iframe srcdoc" in explored._repr_html_()


def test_what_can_be_chosen_is_marked(explored):
    page = Page(explored.html)
    boxes, items = page.of("listbox"), page.of("option")
    assert len(boxes) == 6 and all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert all(item["tabindex"] == "-1" and "data-l" in item for item in items)
    kernels = {k for item in items for k in item.get("data-k", "").split()}
    assert kernels == {str(i) for i in range(len(explored.steps))}
    lines = {x for item in items for x in item["data-l"].split()}
    files = {x.split(":")[0] for x in lines}
    assert {f"0:{number_of(attention, 'rnp.exp')}", f"0:{number_of(loss, 'h @ u')}"} <= lines
    assert files == {"0"}
    shown = [a for _, a in page.elements if a.get("class") == "pass" and "hidden" not in a]
    assert len(shown) == 1 and shown[0]["data-pass"] == str(len(explored.stages) - 1)


def test_missed_fusions_have_reasons(explored):
    assert explored.missed
    for text, source in explored.missed:
        assert "stored, " in text and (source is None or source.file == __file__)


def test_an_encoder_of_six_layers_is_small():
    keys = rlx.random.split(rlx.random.key(0), 6)
    layers = [nn.TransformerEncoderLayer(64, 4, 128, dropout=0, key=key) for key in keys]

    def encoder(layers, x):
        for layer in layers:
            x = layer(x)
        return x.mean(axis=1)

    found = rlx.explore(encoder)(layers, rlx.spec((2, 32, 64)))
    assert len(found.html.encode()) < 5_000_000
    assert not found.left_out and found.runs == 0
    Page(found.html)


@pytest.mark.parametrize("device", ["reference", "xla", "opencl", "webgpu"])
def test_other_devices_have_no_assembly(device):
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device} is not here")
    found = rlx.explore(rlx.jit(lambda x: rnp.sin(x @ x), device=device))(X[:64])
    assert found.functions == {} and found.call_seconds > 0
    has_timers = device in ("opencl", "webgpu")
    assert all((step.seconds > 0) == has_timers for step in found.steps)
    assert f"{device} gives no assembly" in found.html


def test_donated_arguments_stay_the_callers():
    x = rlx.array(np.ones((8, 8), np.float32))
    step = rlx.jit(lambda tree, y: tree["x"] + y, donate_argnames="tree")
    found = rlx.explore(step)({"x": x}, x)
    assert found.runs and found.steps[0].count == found.runs
    assert x.tolist() == np.ones((8, 8)).tolist()


def test_what_is_compiled_already_is_refused():
    step = rlx.jit(lambda x: x * 2).lower(X).compile()
    with pytest.raises(rlx.ArgumentError, match="compiled already") as caught:
        rlx.explore(step)
    assert "rlx.explore(f)(*args)" in caught.value.fix
    with pytest.raises(rlx.ArgumentError, match="what explore shows is a Lowered, not a function"):
        rlx.explore(rlx.jit(lambda x: x * 2).lower(X))  # type: ignore[arg-type]


def test_open_sizes_are_refused():
    with pytest.raises(rlx.ArgumentError, match="open sizes"):
        rlx.explore(rlx.jit(lambda x: x * 2, dynamic={"x": {0: "n"}}))(X)


def test_texts_are_escaped():
    html = rlx.explore(lambda x: x * 2)(X).html
    assert "&lt;lambda&gt;" in html and "<lambda>" not in html


# -- the command line ------------------------------------------------------------------------------

SCRIPT = """
import rlx.numpy as rnp
def f(x, w):
    return rnp.tanh(x @ w)
def prepared():
    return f, (rnp.ones((8, 4)), rnp.ones((4, 2)))
"""


def test_the_command_writes_a_page(tmp_path, capsys):
    script, page = tmp_path / "model.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    for rest in (["f", "8,4", "f32:4,2"], ["prepared"]):
        name, *shapes = rest
        given = ["explore", f"{script}:{name}", *shapes, "--output", str(page)]
        assert command.main(given) == 0
        assert "explored on cpu" in capsys.readouterr().out and "x @ w" in page.read_text()
    for wrong, said in (
        (["model.py"], "names no function"),
        ([f"{script}:g"], "has no function 'g'"),
        ([f"{script}:f"], "takes x, w"),
        ([f"{script}:f", "a", "b"], "is no shape"),
        ([f"{tmp_path / 'none.py'}:f"], "none.py"),
    ):
        assert command.main(["explore", *wrong]) == 2
        assert said in capsys.readouterr().err


def test_the_command_profiles_scripts(tmp_path, capsys):
    script, trace = tmp_path / "train.py", tmp_path / "trace.json"
    script.write_text(
        "import sys, rlx\nf = rlx.jit(lambda x: x * 2 + 1)\nf(rlx.numpy.ones(9))\n"
        "assert sys.argv[1:] == ['--fast']\n"
    )
    assert command.main(["profile", "--trace", str(trace), str(script), "--fast"]) == 0
    out = capsys.readouterr().out
    assert "1 call of 1 program" in out and "train.py" in out and trace.exists()
    script.write_text("raise SystemExit(3)")
    trace.unlink()
    with pytest.raises(SystemExit):
        command.main(["profile", "--trace", str(trace), str(script)])
    assert "no compiled function was called" in capsys.readouterr().out and trace.exists()
    assert command.main(["profile", str(tmp_path / "none.py")]) == 2
    script.write_text("import rlx.numpy as rnp\nrnp.ones(3) @ rnp.ones(4)\n")
    assert command.main(["profile", str(script)]) == 2
    said = capsys.readouterr().err  # of the script's line, without a traceback
    assert "train.py:2 in <module>" in said and "\nfix: " in said and "Traceback" not in said


@pytest.mark.parametrize("content", [b"def f(x:\n    return x", b"\x7fELF\0\0", b"x = '\xff'"])
def test_what_is_not_python_is_told_in_a_line(tmp_path, capsys, content):
    script = tmp_path / "model.py"
    script.write_bytes(content)
    for given in (["explore", f"{script}:f"], ["profile", str(script)]):
        assert command.main(given) == 2
        said = capsys.readouterr().err.splitlines()[0]
        assert said.startswith(f"rlx: {script}") and "is not Python: " in said


def test_the_command_shows_and_clears_the_cache(tmp_path, capsys, monkeypatch):
    from rlx.backends import disk

    monkeypatch.setattr(disk, "IMPORTED", float("inf"))
    assert command.main(["cache", "size"]) == 0
    assert "nothing is kept" in capsys.readouterr().out
    with rlx.config.using(cache=tmp_path / "cache"):
        rlx.Session("cpu").compile(lambda x: rnp.cos(x), X)
        assert command.main(["cache", "list"]) == 0
        listed = capsys.readouterr().out.splitlines()
        assert len(listed) >= 2 and "entries, " in listed[0]
        assert command.main(["cache", "list", "--most", "-1"]) == 2
        assert "--most is -1" in capsys.readouterr().err
        assert command.main(["cache", "clear"]) == 0
        assert capsys.readouterr().out.startswith("removed ")
        assert command.main(["cache", "size"]) == 0
        assert "0 entries" in capsys.readouterr().out


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab(explored, tmp_path_factory):
    place = tmp_path_factory.mktemp("page") / "page.html"
    explored.save(place)
    with browser.tab() as tab:
        tab.goto(place.as_uri())
        yield tab
        assert tab.asked == [place.as_uri()] and tab.faults == [], "it loads nothing, nothing fails"


def lit(tab, column: str) -> int:
    return tab.locator(f".{column} .i.lit").count()


def line(tab, text: str):
    return tab.locator(".source .i", has_text=text).first


def test_clicking_a_line_lights_all_that_is_made_of_it(tab):
    line(tab, "scores = rnp.exp").click()
    assert all(lit(tab, column) for column in ("source", "graph", "kernels", "assembly"))
    assert tab.locator("svg rect.lit").count() > 0
    kernels = lit(tab, "kernels")
    assert 0 < kernels < tab.locator(".kernels .i").count()
    tab.keyboard.press("Escape")
    assert lit(tab, "kernels") == 0


def test_choosing_a_kernel_lights_its_lines_and_code(tab):
    kernel = tab.locator(".kernels .i", has_text="tanh").first
    kernel.click()
    texts = tab.locator(".source .i.lit").all_inner_texts()
    assert any("rnp.tanh(h @ u)" in text for text in texts)
    assert 1 <= lit(tab, "assembly") < tab.locator(".assembly .i").count()
    assert kernel.get_attribute("aria-selected") == "true"
    tab.keyboard.press("Escape")


def test_pointing_lights_at_once(tab):
    line(tab, "rnp.tanh(h @ u)").hover()
    tab.locator(".kernels .i.lit").first.wait_for()  # with the next picture
    assert lit(tab, "graph") and all(
        not each.is_hidden() for each in tab.locator(".graph .i.lit").all()
    )
    tab.mouse.move(2, 2)
    tab.wait_for_function("!document.querySelector('.lit')")


def test_all_can_be_reached_by_keyboard(tab):
    tab.locator(".source [role=listbox]").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent"
    assert "rnp.exp" in tab.evaluate(focused)
    tab.keyboard.press("Enter")
    assert lit(tab, "kernels") and tab.locator(".source .i.chosen").count() == 1
    tab.keyboard.press("Escape")
    names = "document.activeElement.getAttribute('aria-label')"
    tab.locator("#pass").focus()
    seen = []
    for _ in range(7):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate(names))
    others = ["Memory plan", "Largest arrays", "Fusions that were missed"]
    assert seen == ["Source", "Graph", "Kernels", "Assembly", *others]
    for name in (
        x for x in seen if x != others[1]
    ):  # each begins with its first part, is lit, and is kept
        tab.locator(f"[aria-label='{name}']").focus()
        tab.keyboard.press("Home")
        assert tab.evaluate("document.activeElement.classList.contains('lit')"), name
        tab.keyboard.press(" ")
        assert tab.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
        tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.getAttribute('aria-selected')") == "false"


def test_the_slider_chooses_the_pass(tab, explored):
    names = list(explored.stages)
    tab.locator("#pass").focus()
    tab.keyboard.press("Home")
    assert tab.locator("#passname").inner_text() == names[0]
    first = tab.locator(".pass:not([hidden]) .i").count()
    assert first == len(explored.stages[names[0]])
    line(tab, "rnp.exp").click()
    tab.keyboard.press("]")
    assert tab.locator("#passname").inner_text() == names[1]
    assert tab.locator(".pass:not([hidden])").count() == 1
    assert tab.locator(".pass:not([hidden]) .i.lit").count() > 0  # what was kept, in this pass
    tab.keyboard.press("Escape")
    assert tab.locator(".lit").count() == 0


def test_the_documentation_shows_the_page(tab, tmp_path):
    page, (width, height) = tmp_path / "page.html", browser.SIZES["explore"]
    browser.explored().save(page)
    other = tab.context.browser.new_page(viewport={"width": width, "height": height})
    browser.check_shown("explore", browser.picture_of_explore(other, page))
    other.close()
