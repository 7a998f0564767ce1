"""Rewriting a function: statements become calls, lines stay where they are."""

from __future__ import annotations
import __future__ as futures

import ast
import copy
import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from ..ir.errors import ArgumentError

LEAVES = (ast.Break, ast.Continue, ast.Return)
FUTURES = sum(getattr(futures, x).compiler_flag for x in set(futures.all_feature_names))
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.MatchAs, ast.MatchStar)
MOST_COPIES = 64  # of statements behind an `if` that returns
SIMPLE = (ast.Name, ast.Constant, ast.Attribute)


def rewritten(fn: Callable[..., Any], helpers: str) -> CodeType:
    """The code of a function in which statements call the module of this name."""
    tree, first = _source(fn)
    _check(fn, tree)
    tree.decorator_list = []
    tree.returns = None
    for argument in ast.walk(tree.args):  # annotations and defaults are those of the function
        if isinstance(argument, ast.arg):
            argument.annotation = None
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [d and ast.Constant(None) for d in tree.args.kw_defaults]
    own = next((a.arg for a in (*tree.args.posonlyargs, *tree.args.args)), "")
    code, free = fn.__code__, [*fn.__code__.co_freevars, helpers]
    rewriter = _Rewriter(helpers, own if "__class__" in free else "")
    tree.body = rewriter.block(tree.body, is_function=True)
    around = fn.__qualname__.split(".")[-2:-1]  # a class, by which `self.__x` is called
    # later Pythons have one more field, which may be left out, as the stubs of these do not know
    inside = [ast.ClassDef(x, [], [], [tree], [], lineno=1) for x in around if x.isidentifier()]  # type: ignore[call-overload]
    outer = ast.FunctionDef("_rlx_outer", _arguments(free), inside or [tree], [], lineno=1)  # type: ignore[call-overload]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(module, first - 1)
    flags = code.co_flags & FUTURES  # its imports from `__future__`, not those of this file
    found = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    for name in ("_rlx_outer", *(each.name for each in inside), tree.name):
        found = _inner(found, name)
    return _renamed(found, code.co_name)


def _source(fn: Callable[..., Any]) -> tuple[ast.FunctionDef, int]:
    """The syntax of a function, and the number of its first line."""
    try:
        linecache.checkcache(fn.__code__.co_filename)
        # of the code: `functools.wraps` would lead to another function
        lines, first = inspect.getsourcelines(fn.__code__)
        text = "".join(lines)
        is_inside = text[:1].isspace()  # it is not dedented, for texts in it would change
        tree: Any = ast.parse("if True:\n" + text if is_inside else text)
    except (OSError, TypeError, SyntaxError):
        raise _refused(fn, "its source cannot be read", "write it in a file") from None
    if is_inside:
        tree, first = tree.body[0], first - 1
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        fix = "write it as `def`, not as lambda or `async def`"
        raise _refused(fn, "it is no plain function", fix)
    return tree.body[0], first


def _check(fn: Callable[..., Any], tree: ast.FunctionDef) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            word = type(node).__name__.lower()
            fix = "give the variable as an argument, and return it"
            raise _refused(fn, f"it has `{word} {', '.join(node.names)}`", fix)
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise _refused(fn, "it is a generator", "rewrite the functions that it calls instead")


def _refused(fn: Callable[..., Any], why: str, fix: str) -> ArgumentError:
    place = f"{fn.__code__.co_filename.rsplit('/', 1)[-1]}:{fn.__code__.co_firstlineno}"
    where = f"{place} in {fn.__name__}"
    return ArgumentError(f"rlx.autograph cannot rewrite {fn.__name__}: {why}", where=where, fix=fix)


def _inner(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _renamed(code: CodeType, name: str) -> CodeType:
    """The code, in which functions that were made have the name of the user's."""
    constants = tuple(_renamed(c, name) if isinstance(c, CodeType) else c for c in code.co_consts)
    own = name if code.co_name.startswith("_rlx_") else code.co_name
    return code.replace(co_consts=constants, co_name=own)


def _arguments(names: Sequence[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


# -- which variables a part sets -------------------------------------------------------------------


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The variables that are set, by names or by items, in order."""
    found: dict[str, None] = {}
    for node in nodes:
        for inner in _own(node):
            found |= dict.fromkeys(x for x in _targets(inner) if not x.startswith("_rlx_"))
    return list(found)


def by_items(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables of which items are set."""
    every = (inner for node in nodes for inner in _own(node))
    items = (n for n in every if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
    return {name for n in items if (name := _base(n))}


def _targets(node: ast.AST) -> list[str]:
    names: list[str | None] = []
    if isinstance(node, ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        names = [_base(node)]
    elif isinstance(node, NAMED):
        names = [node.name]  # type: ignore[attr-defined]
    elif isinstance(node, ast.MatchMapping):
        names = [node.rest]
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names = [x.asname or x.name.partition(".")[0] for x in node.names]
    return [name for name in names if name]


def _base(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _own(node: ast.AST) -> Iterable[ast.AST]:
    """A node and those in it that belong to the same function."""
    yield node
    if isinstance(node, COMPREHENSIONS):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield from (inner, inner.target)
    if isinstance(node, (*SCOPES, *COMPREHENSIONS)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own(child)


def _has(nodes: Iterable[ast.AST], kinds: tuple[type, ...]) -> bool:
    return any(isinstance(inner, kinds) for node in nodes for inner in _own(node))


def _always_returns(block: Sequence[ast.stmt]) -> bool:
    """Whether a block never reaches its end."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


# -- the statements --------------------------------------------------------------------------------


class _Rewriter(ast.NodeTransformer):
    """Rewrites the statements of one function, and of those that are defined in it."""

    def __init__(self, helpers: str, own: str) -> None:
        self.helpers, self.count, self.copies = helpers, 0, 0
        self.own = own  # the object of a method that asks for `super()`

    def block(self, block: Sequence[ast.stmt], is_function: bool = False) -> list[ast.stmt]:
        """Statements in order; what follows an `if` that returns goes into its branches."""
        made: list[ast.stmt] = []
        for place, statement in enumerate(block):
            can_return = isinstance(statement, ast.If) and _has([statement], (ast.Return,))
            is_plain = not _has([statement], (ast.Break, ast.Continue))
            if is_function and can_return and is_plain and self.copies < MOST_COPIES:
                made += self._returning(statement, block[place + 1 :])  # type: ignore[arg-type]
                return made
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def _returning(self, node: ast.If, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
        branches = []
        for branch in (node.body, node.orelse):
            whole = list(branch)
            if not _always_returns(whole):
                self.copies += 1
                whole += copy.deepcopy(list(rest))
            if not _always_returns(whole):
                whole.append(_at(ast.Return(ast.Constant(None)), node))
            branches.append(whole)
        names = assigned([*branches[0], *branches[1]])
        test = self.visit(node.test)
        true, false = (self.block(branch, is_function=True) for branch in branches)
        functions = [self._function(names, x, node) for x in (true, false)]
        call = self._call("returned", test, *map(_read, functions), self._values(names))
        return [*functions, _at(ast.Return(call), node)]

    def visit_If(self, node: ast.If) -> Any:
        """`if` as a call of `choose`."""
        parts = [*node.body, *node.orelse]
        if _has(parts, LEAVES):
            return self._inside(node)
        names, items = assigned(parts), by_items(parts)
        sides = set(assigned(node.body)) - items, set(assigned(node.orelse)) - items
        test = self.visit(node.test)
        functions = [
            self._function(names, self.block(x), node, returns=True, items=items)
            for x in (node.body, node.orelse)
        ]
        both = ast.Tuple([ast.Constant(all(n in s for s in sides)) for n in names], ast.Load())
        call = self._call(
            "choose",
            test,
            *map(_read, functions),
            self._values(names),
            _texts(names),
            both,
        )
        return [*functions, *self._set(names, call, node)]

    def visit_While(self, node: ast.While) -> Any:
        """`while` as a call of `repeat`."""
        if _has(node.body, LEAVES) or node.orelse:
            return self._inside(node)
        names, items = assigned([node.test, *node.body]), by_items(node.body)
        test = _at(ast.Return(self.visit(node.test)), node)
        asks = self._function(names, [test], node)
        does = self._function(names, self.block(node.body), node, returns=True, items=items)
        call = self._call("repeat", _read(asks), _read(does), self._values(names), _texts(names))
        return [asks, does, *self._set(names, call, node)]

    def visit_For(self, node: ast.For) -> Any:
        """`for` as a call of `each`."""
        if _has(node.body, LEAVES) or node.orelse:
            return self._inside(node)
        names, items = assigned([node.target, *node.body]), by_items(node.body)
        item = f"_rlx_item_{self.count}"
        takes = ast.Assign([node.target], ast.Name(item, ast.Load()), lineno=node.lineno)
        body = [_at(takes, node), *self.block(node.body)]
        does = self._function(names, body, node, returns=True, items=items, first=item)
        over = self.visit(node.iter)
        is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name)
        if is_range and over.func.id == "range" and not over.keywords:  # type: ignore[attr-defined]
            over = self._call("range", *over.args)  # type: ignore[attr-defined]
        call = self._call("each", over, _read(does), self._values(names), _texts(names))
        return [does, *self._set(names, call, node)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A function inside: its statements, too."""
        node.body = self.block(node.body, is_function=True)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """An anonymous function: its expression."""
        node.body = self.visit(node.body)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        """A `return` of variables: they must be set."""
        value = node.value and self.visit(node.value)
        if isinstance(value, ast.Name | ast.Tuple):
            value = _at(self._call("used", value), node)
        node.value = value
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        """`super()` with its arguments: in a part of the function they are not found."""
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super"
        if self.own and is_super and not node.args:
            node.args = [ast.Name(name, ast.Load()) for name in ("__class__", self.own)]
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """A class inside stays as it is."""
        return node

    def visit_With(self, node: ast.With) -> Any:
        """A `with` block: its statements."""
        return self._inside(node)

    def visit_Try(self, node: ast.Try) -> Any:
        """A `try` block: its statements."""
        return self._inside(node)

    def _inside(self, node: Any) -> Any:
        """The statement as it is, with the statements and expressions inside of it rewritten."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self.block(value))
            elif isinstance(value, list):
                setattr(node, name, [self.visit(x) for x in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    # -- expressions ---------------------------------------------------------------------------

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if c else b` as a call of `either`."""
        if _has([node], (ast.NamedExpr,)):
            return self.generic_visit(node)
        sides = [_later(self.visit(x)) for x in (node.body, node.orelse)]
        return _at(self._call("either", self.visit(node.test), *sides), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and`, `or` as calls."""
        if _has(node.values, (ast.NamedExpr,)):
            return self.generic_visit(node)
        first, *others = (self.visit(x) for x in node.values)
        name = "both" if isinstance(node.op, ast.And) else "some"
        return _at(self._call(name, first, *map(_later, others)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not` as a call."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _at(self._call("invert", operand), node)
        node.operand = operand
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """`a < b < c` as `a < b and b < c`, where what stands between is simple."""
        parts = [node.left, *node.comparators]
        if len(parts) == 2 or not all(isinstance(x, SIMPLE) for x in parts[1:-1]):
            return self.generic_visit(node)
        pairs = [
            _at(ast.Compare(copy.deepcopy(a), [op], [copy.deepcopy(b)]), node)
            for a, op, b in zip(parts, node.ops, parts[1:], strict=False)
        ]
        return self.visit(_at(ast.BoolOp(ast.And(), pairs), node))

    # -- pieces --------------------------------------------------------------------------------

    def _call(self, name: str, *args: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(self.helpers, ast.Load()), name, ast.Load())
        return ast.Call(function, list(args), [])

    def _values(self, names: Sequence[str]) -> ast.expr:
        """The variables as they are, or what stands for those that are not set."""
        local = ast.Call(ast.Name("locals", ast.Load()), [], [])
        return ast.Tuple(
            [self._call("get", local, ast.Constant(name)) for name in names], ast.Load()
        )

    def _function(
        self,
        names: Sequence[str],
        body: Sequence[ast.stmt],
        node: ast.stmt,
        returns: bool = False,
        items: Iterable[str] = (),
        first: str = "",
    ) -> ast.FunctionDef:
        """A function of the variables, which gives them after its statements."""
        self.count += 1
        whole = [*self._unset(names, node), *body]
        if returns:
            whole.append(_at(ast.Return(self._values(names)), node))
        changed = [name in set(items) for name in names]
        if any(changed):
            values = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
            flags = ast.Tuple([ast.Constant(x) for x in changed], ast.Load())
            whole.insert(0, self._assign(names, self._call("own", values, flags), node))
        arguments = _arguments([*([first] if first else []), *names])
        name = f"_rlx_part_{self.count}"
        made = ast.FunctionDef(name, arguments, whole, [], lineno=node.lineno)  # type: ignore[call-overload]
        return _at(made, node)

    def _set(self, names: Sequence[str], call: ast.expr, node: ast.stmt) -> Iterable[ast.stmt]:
        """Set variables to what a call gives; those that are not set are none again."""
        yield self._assign(names, call, node)
        yield from self._unset(names, node)

    def _unset(self, names: Sequence[str], node: ast.stmt) -> Iterable[ast.stmt]:
        for name in names:
            test = self._call("is_missing", ast.Name(name, ast.Load()))
            yield _at(ast.If(test, [_at(ast.Delete([ast.Name(name, ast.Del())]), node)], []), node)

    def _assign(self, names: Sequence[str], call: ast.expr, node: ast.stmt) -> ast.stmt:
        if not names:
            return _at(ast.Expr(call), node)
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        return _at(ast.Assign([target], call, lineno=node.lineno), node)


def _at(made: Any, node: ast.AST) -> Any:
    """A node in the first line of another: that is the line of its calls in errors."""
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    made.lineno, made.col_offset, made.end_lineno, made.end_col_offset = line, column, line, column
    return made


def _read(function: ast.FunctionDef) -> ast.expr:
    return ast.Name(function.name, ast.Load())


def _later(value: ast.expr) -> ast.expr:
    return _at(ast.Lambda(_arguments([]), value), value)


def _texts(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())
