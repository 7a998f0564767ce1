"""The parser of the text that `show` prints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from .dims import Dim, dim, minimum
from .errors import ParseError, RlxError
from .graph import Constant, Graph, Source, Value
from .ops import OPS
from .record import record
from .types import LONG, Type, as_dtype

WORDS = frozenset("graph return dim True False None nan inf complex floordiv minimum".split())
DEPTH = 100  # of nesting; deeper text is not what `show` prints

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<value>%\d+)
    | (?P<python><python\ (?:[^<>\n]|<\w*>)*>)
    | (?P<bytes>0x[0-9a-f]*)
    | (?P<digest>@[0-9a-f]+)
    | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>->|[()\[\]{}=,:*+-])
    | (?P<wrong>.)""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"# (.*):(\d+) in (.*?)(?: \[(.*)\])?")


@record
class Token:
    """A piece of the text, with its line and its place in it."""

    kind: str
    text: str
    line: int


def parse(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """Read a graph. `constants` has the arrays that the text names by digest.

    The types of results may be left out; they are then inferred.
    """
    if not isinstance(text, str):
        raise ParseError(f"a {type(text).__name__} is no text", fix="pass what str(graph) gives")
    parser = _Parser(text, constants or {})
    while parser.at("dim"):
        parser.dim_line()
    graph = parser.graph()
    if parser.token.kind != "end":
        parser.fail("there is text after the graph", "keep one graph in a text")
    return graph


def _tokens(text: str) -> list[Token]:
    tokens, line = [], 1
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup or "wrong", match.group()
        if kind != "space":
            tokens.append(Token(kind, piece, line))
        line += piece.count("\n")
    return [*tokens, Token("end", "", line)]


class _Parser:
    """A recursive descent parser; each method reads one form."""

    def __init__(self, text: str, constants: Mapping[str, np.ndarray]) -> None:
        self.lines = text.split("\n")
        every = _tokens(text)
        self.comments = {t.line: t.text for t in every if t.kind == "comment"}
        self.tokens = [t for t in every if t.kind != "comment"]
        self.place, self.depth = 0, 0
        self.constants = constants
        self.dims: dict[str, Dim] = {}

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def fail(self, what: str, fix: str) -> NoReturn:
        number = self.token.line
        text = self.lines[number - 1].strip() if number <= len(self.lines) else ""
        raise ParseError(what, where=f"line {number}      {text[:100]}", fix=fix)

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("mark", "word")

    def skip(self, text: str) -> bool:
        """Move behind this token if it is the next."""
        if self.at(text):
            self.place += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.skip(text):
            found = self.token.text or "the end"
            self.fail(f"found `{found[:40]}` where `{text}` belongs", f"write `{text}`")

    def take(self, kind: str) -> str:
        if self.token.kind != kind:
            found = self.token.text or "the end"
            self.fail(f"found `{found[:40]}` where a {kind} belongs", f"write a {kind}")
        self.place += 1
        return self.tokens[self.place - 1].text

    def take_string(self) -> str:
        text = self.take("string")
        try:
            return json.loads(text)
        except ValueError:
            self.fail(f"{text[:40]} is no string", "write it as in JSON")

    def many(self, end: str, item: Callable[[], Any]) -> list[Any]:
        """Items with commas between them (one more may follow), up to the mark `end`."""
        found = []
        while not self.skip(end):
            found.append(item())
            if not self.skip(","):
                self.expect(end)
                break
        return found

    # -- graphs and nodes ------------------------------------------------------------------------

    def dim_line(self) -> None:
        self.expect("dim")
        name = self.take_string() if self.token.kind == "string" else self.take("word")
        low, high = self.attr(), self.attr()
        if not isinstance(low, int) or not isinstance(high, int | None):
            self.fail(f"{low!r} to {high!r} is no range", "write two ints, the second may be None")
        self.dims[name] = dim(name, low, high)

    def graph(self) -> Graph:
        self.expect("graph")
        name = self.take_string() if self.token.kind == "string" else self.take("word")
        graph, values = Graph(name), {}
        self.expect("(")
        self.many(")", lambda: self.param(graph, values))
        self.expect("->")
        types = self.many(")", self.type) if self.skip("(") else [self.type()]
        self.expect("{")
        while not self.skip("return"):
            self.node(graph, values)
        while not self.at("}"):
            graph.results.append(self.value(values))
            if not self.skip(","):
                break
        if list(graph.result_types) != types:
            self.fail(f"`{name}` returns other types than it declares", "make them the same")
        self.expect("}")
        return graph

    def param(self, graph: Graph, values: dict[str, Value]) -> None:
        name = self.take("value")
        self.expect(":")
        type = self.type()
        origin = self.take_string() if self.token.kind == "string" else ""
        self.name(values, name, graph.add_param(type, origin))

    def value(self, values: dict[str, Value]) -> Value:
        if self.token.kind == "value" and self.token.text not in values:
            self.fail(f"{self.token.text} is used before it is made", "move the line that makes it")
        return values[self.take("value")]

    def name(self, values: dict[str, Value], name: str, value: Value) -> None:
        if name in values:
            self.fail(f"{name} is made twice", "give each value a number of its own")
        values[name] = value

    def node(self, graph: Graph, values: dict[str, Value]) -> None:
        names, types = self.results()
        self.expect("=")
        op = OPS.get(self.token.text)
        if op is None:
            self.fail(f"there is no op `{self.token.text}`", "use an op of rlx.ir.ops")
        self.take("word")
        args = []
        while self.token.kind == "value":
            args.append(self.value(values))
            if not self.skip(","):
                break
        attrs = dict(self.many("}", self.pair)) if self.skip("{") else {}
        source = self.source(self.tokens[self.place - 1].line)
        try:
            attrs = op.complete(attrs)
            if None in types:
                types = op.infer([a.type for a in args], attrs)
        except RlxError as error:
            self.fail(error.what, error.fix)
        except Exception as error:  # what a type rule makes of senseless attributes
            self.fail(f"{op.name} has no meaning so: {error}", "correct its attributes")
        if len(types) != len(names):
            self.fail(f"{op.name} gives {len(types)} results, not {len(names)}", "name each one")
        made = graph.add_node(op, tuple(args), attrs, tuple(types), source)
        for name, result in zip(names, made.results, strict=True):
            self.name(values, name, result)

    def results(self) -> tuple[list[str], Any]:
        """The names of a node's results and their types, None where one is left out."""
        names: list[str] = []
        types: list[Type | None] = []
        if self.skip("_"):
            return names, types
        while True:
            names.append(self.take("value"))
            types.append(self.type() if self.skip(":") else None)
            if not self.skip(","):
                return names, types

    def source(self, line: int) -> Source | None:
        match = _COMMENT.fullmatch(self.comments.get(line, "").strip())
        return Source(match[1], int(match[2]), match[3], match[4] or "") if match else None

    # -- attributes ------------------------------------------------------------------------------

    def pair(self) -> tuple[str, Any]:
        name = self.take("word")
        self.expect("=")
        return name, self.attr()

    def attr(self) -> Any:
        self.depth += 1
        if self.depth > DEPTH:
            self.fail("the text is nested too deeply", f"nest no deeper than {DEPTH}")
        found = self.plain_attr()
        self.depth -= 1
        return found

    def plain_attr(self) -> Any:
        kind, text = self.token.kind, self.token.text
        if kind == "string":
            return self.take_string()
        if kind == "python":
            self.fail(
                f"the attribute {text} is a Python function, which text cannot hold",
                "parse the text of a graph without custom derivatives, as after lowering",
            )
        if self.at("graph"):
            return self.graph()
        if self.skip("("):
            return tuple(self.many(")", self.attr))
        if self.at("None") or self.at("True") or self.at("False"):
            return {"None": None, "True": True, "False": False}[self.take("word")]
        if kind == "word" and text in LONG:
            return self.dtype_type_or_constant()
        return self.sum()

    def dtype_type_or_constant(self) -> Any:
        if self.tokens[self.place + 1].text != "[":
            return as_dtype(self.take("word"))
        type = self.type()
        return self.constant(type) if self.skip("(") else type

    def type(self) -> Type:
        if self.token.text not in LONG:
            self.fail(f"`{self.token.text[:40]}` is no type", "write one as f32[3, 4]")
        dtype = as_dtype(self.take("word"))
        self.expect("[")
        return Type(dtype, tuple(self.many("]", self.size)))

    def size(self) -> Any:
        size = self.sum()
        if not isinstance(size, int | Dim):
            self.fail(f"{size!r} is no size", "write an int or a sum of declared dims")
        return size

    def constant(self, type: Type) -> Constant:
        shape = [n for n in type.shape if isinstance(n, int)]
        if len(shape) != type.rank:
            self.fail(f"a constant of type {type} has no size", "use static sizes")
        if self.token.kind == "digest":
            return self.named_constant(type)
        if self.token.kind == "bytes":
            data = self.take("bytes")[2:]
            if len(data) != 2 * type.nbytes:
                self.fail(f"{len(data) // 2} bytes are no {type}", f"write {type.nbytes} bytes")
            array = np.frombuffer(bytes.fromhex(data), type.dtype)
            self.expect(")")
            return Constant(array.reshape(shape))
        numbers = self.many(")", self.attr)
        if len(numbers) != type.size:
            self.fail(f"{len(numbers)} numbers are no {type}", f"write {type.size} numbers")
        try:
            return Constant(np.array(numbers, type.dtype).reshape(shape))
        except (TypeError, ValueError, OverflowError):
            self.fail(f"the numbers are no {type}", f"write numbers of {type.dtype.name}")

    def named_constant(self, type: Type) -> Constant:
        digest = self.take("digest")[1:]
        array = self.constants.get(digest)
        if array is None:
            self.fail(
                f"the text names the constant @{digest}, which was not given",
                "pass constants=rlx.ir.text.constants(graph) along with the text",
            )
        if Type(as_dtype(array.dtype), array.shape) != type:
            self.fail(f"the constant @{digest} is no {type}", "pass the array it was printed for")
        self.expect(")")
        return Constant(array)

    # -- numbers and sizes: sums of products -----------------------------------------------------

    def sum(self) -> Any:
        total = self.product()
        while self.at("+") or self.at("-"):
            is_minus = self.take("mark") == "-"
            term = self.product()
            total = total - term if is_minus else total + term
        return total

    def product(self) -> Any:
        is_minus = False
        while self.skip("-"):
            is_minus = not is_minus
        result = self.factor()
        while self.skip("*"):
            result = result * self.factor()
        return -result if is_minus else result

    def factor(self) -> Any:
        if self.token.kind == "number":
            return self.number()
        for name, number in (("nan", math.nan), ("inf", math.inf)):
            if self.skip(name):
                return number
        if self.skip("complex"):
            self.expect("(")
            parts = self.many(")", self.sum)
            if len(parts) != 2 or any(isinstance(p, Dim | complex) for p in parts):
                self.fail("a complex number has two parts", "write complex(1.0, 2.0)")
            return complex(*parts)
        if self.skip("floordiv"):
            return self.quotient()
        if self.skip("minimum"):
            return self.lesser()
        is_quoted = self.at("dim")
        if self.skip("dim"):
            self.expect("(")
        name = self.take_string() if is_quoted else self.take("word")
        if is_quoted:
            self.expect(")")
        if name not in self.dims:
            self.fail(f"`{name}` has no meaning here", f"declare it above: dim {name} 1 None")
        return self.dims[name]

    def quotient(self) -> Any:
        self.expect("(")
        parts = self.many(")", self.sum)
        if [type(part) for part in parts] != [Dim, int] or parts[1] < 1:
            self.fail("a size is divided by a positive number", "write floordiv(n + 1, 2)")
        return parts[0] // parts[1]

    def lesser(self) -> Any:
        self.expect("(")
        parts = self.many(")", self.sum)
        if len(parts) != 2 or any(type(part) not in (Dim, int) for part in parts):
            self.fail("there is a lesser one of two sizes", "write minimum(n, m)")
        return minimum(*parts)

    def number(self) -> int | float:
        text = self.take("number")
        try:
            return int(text) if text.isdigit() else float(text)
        except ValueError:
            self.fail(f"the number {text[:40]}... is too long", "write fewer digits")
