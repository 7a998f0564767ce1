"""Print it, parse it, it is the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.dims import dim
from rlx.ir.errors import ParseError
from rlx.ir.fingerprint import fingerprint, is_portable
from rlx.ir.graph import OPS, Graph
from rlx.ir.interpret import interpret
from rlx.ir.ops.custom import Rule
from rlx.ir.text import constants, equal, parse, show
from rlx.ir.types import DTYPES, Type, as_dtype, type_of

F32 = as_dtype("f32")
PYTHON_RULES = {"custom_jvp_call", "custom_vjp_call", "custom_pullback"}
CALLBACKS = {"pure_callback", "io_callback", "debug_callback"}


def sample_graphs():
    for name, op in OPS.items():
        for i, sample in enumerate(op.sample_list):
            if name not in PYTHON_RULES | CALLBACKS:
                yield pytest.param(op, sample, id=f"{name}-{i}")


def as_type(arg) -> Type:
    if isinstance(arg, Type):
        return arg
    return Type(DTYPES["float64"], arg) if isinstance(arg, tuple) else type_of(np.asarray(arg))


def nested() -> Graph:
    inner = build(lambda x: ops.sin(x) * 2, [Type(F32, (3,))], "inner <lambda>")

    def loss(x, y):
        z = x * y + ops.constant.lift(np.array([1, np.nan, 3], np.float32))
        (w,) = ops.call(z, graph=inner, name='the "inner"')
        return ops.reduce_sum(w, axes=(0,)), w

    origins = ["argument 0 of loss", 'params["w"]']
    return build(loss, [Type(F32, (3,))] * 2, "loss", origins)


def test_text_is_as_documented():
    graph = build(
        lambda x, y: ops.reduce_sum(x * y, axes=(0,)), [Type(F32, (3,))] * 2, "loss", ["argument 0"]
    )
    assert show(graph, sources=False) == "\n".join(
        [
            'graph loss(%0: f32[3] "argument 0", %1: f32[3]) -> f32[] {',
            "  %2: f32[3] = mul %0, %1",
            "  %3: f32[] = reduce_sum %2 {axes=(0,)}",
            "  return %3",
            "}",
        ]
    )
    assert "# test_text.py:" in str(graph)


@pytest.mark.parametrize(("op", "sample"), list(sample_graphs()))
def test_parse_undoes_show(op, sample):
    types = [as_type(a) for a in sample.args]
    graph = build(lambda *xs: op(*xs, **sample.attrs), types, op.name)
    again = parse(str(graph), constants(graph))
    assert str(again) == str(graph)
    assert equal(again, graph)
    by_digest = show(graph, small=0)
    assert equal(parse(by_digest, constants(graph, small=0)), graph)


def test_nested_graphs_names_and_lines_survive():
    graph = nested()
    again = parse(str(graph))
    assert str(again) == str(graph)
    assert again.params[1].origin == 'params["w"]'
    x = np.array([1.0, 2.0, 3.0], np.float32)
    for a, b in zip(interpret(graph, [x, x]), interpret(again, [x, x]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_constants_of_every_dtype_survive_bit_for_bit(dtype):
    numbers = np.array([0, 1, 0.1, 3.3, 100]).astype(dtype)
    if dtype.kind not in "biu":
        numbers = np.concatenate([numbers, np.array([-0.0, -1e-3]).astype(dtype)])
    if dtype.kind == "c":
        numbers = numbers + np.array(1.5j, dtype)
    graph = build(lambda: [ops.constant.lift(numbers)], [])
    array = parse(str(graph)).results[0].constant
    assert array is not None
    assert array.tobytes() == numbers.tobytes()


def test_special_numbers_as_attributes_survive():
    for value in (np.nan, np.inf, -np.inf, -0.0, 1e-300, 1 + 2j, complex(-0.0, np.inf), True, -3):
        dtype = "complex64" if isinstance(value, complex) else "float32"
        graph = build(lambda v=value, d=dtype: [ops.full(shape=(), value=v, dtype=d)], [])
        assert equal(parse(str(graph)), graph), value


def test_symbolic_sizes_keep_their_ranges():
    seq, odd = dim("seq", 1, 128), dim("batch size")
    graph = build(
        lambda x: ops.reshape(x, shape=(odd, 2 * seq + 2)), [Type(F32, (odd, 2, seq + 1))], "f"
    )
    again = parse(str(graph))
    assert str(again) == str(graph)
    assert again.params[0].type == graph.params[0].type
    assert str(graph).startswith('dim "batch size" 1 None\ndim seq 1 128\n')


def test_symbolic_sizes_are_divided():
    size = (3 * dim("seq") + 1) // 4 * 2 + dim("batch size") // 2
    graph = build(lambda x: ops.reshape(x, shape=(1, size)), [Type(F32, (size, 1))], "f")
    again = parse(str(graph))
    assert 'f32[2*floordiv(3*seq + 1, 4) + floordiv(dim("batch size"), 2), 1]' in str(graph)
    assert str(again) == str(graph)
    assert again.params[0].type == graph.params[0].type


def test_large_constants_go_into_a_table():
    array = np.arange(100, dtype=np.float32)
    graph = build(lambda x: x + ops.constant.lift(array), [Type(F32, (100,))])
    assert len(str(graph)) < 400
    with pytest.raises(ParseError, match="names the constant"):
        parse(str(graph))
    assert equal(parse(str(graph), constants(graph)), graph)


def test_types_may_be_left_out():
    graph = parse("graph f(%0: f32[3]) -> f32[3] { %1 = sin %0  %2 = mul %1, %0  return %2 }")
    assert graph.result_types == (Type(F32, (3,)),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "where `graph` belongs"),
        ("graph f(", "where a value belongs"),
        ("graph f() -> () { %0: f32[] = nonsense  return }", "no op `nonsense`"),
        ("graph f() -> f32[] { return %0 }", "before it is made"),
        ("graph f(%0: f32[]) -> f32[2] { return %0 }", "other types"),
        ("graph f(%0: f31[]) -> f32[2] { return %0 }", "is no type"),
        ("graph f(%0: f32[n]) -> () { return }", "`n` has no meaning"),
        ("dim n 1 None graph f(%0: f32[floordiv(n, 0)]) -> () { return }", "positive number"),
        ("graph f(%0: f32[floordiv(4, 2)]) -> () { return }", "positive number"),
        ("graph f(%0: f32[2], %0: f32[2]) -> () { return }", "made twice"),
        ("graph f(%0: f32[2]) -> () { %1 = sin %0 {a=1} return }", "no keyword 'a'"),
        ("graph f(%0: f32[2]) -> () { %1 = sin %0, %0 return }", "takes 1 operands"),
        ("graph f() -> () { return } more", "after the graph"),
        ('graph f() -> () { %0 = full {shape="x" return }', "where `}` belongs"),
        ("graph f() -> () { %0 = full {shape=" + "(" * 999 + "return }", "too deeply"),
        ("graph f(%0: f32[2]) -> () { %1 = reshape %0 {shape=None} return }", "no meaning so"),
        ("graph f() -> () { %0 = constant {value=u8[1](300)} return }", "the numbers are no"),
        ("graph f() -> () { %0 = constant {value=u8[2](0x00)} return }", "bytes are no"),
        ("graph f() -> () { %0 = constant {value=u8[2](1)} return }", "1 numbers are no"),
    ],
)
def test_wrong_text_is_a_parse_error(text, what):
    with pytest.raises(ParseError, match=what) as caught:
        parse(text)
    assert "line 1" in str(caught.value.where)


def with_rule(rule: Rule) -> Graph:
    double = build(lambda x: x + x, [Type(F32)], "double")
    return build(lambda x: list(ops.custom_jvp_call(x, graph=double, rule=rule)), [Type(F32)])


def test_python_functions_print_but_do_not_parse():
    def push(primals, tangents):
        return primals, tangents

    graph = with_rule(Rule(push))
    assert "rule=<python push>" in str(graph)
    with pytest.raises(ParseError, match="Python function"):
        parse(str(graph))
    assert not is_portable(graph)
    assert is_portable(nested())
    assert equal(graph, with_rule(Rule(push)))
    assert not equal(graph, with_rule(Rule(lambda primals, tangents: (primals, tangents))))


def test_fingerprint_sees_everything_that_matters():
    def made(shape=(3,), dtype="f32", value=1.0, op=ops.add, array=None):
        array = np.full(shape, 2, dtype=as_dtype(dtype)) if array is None else array

        def run(x):
            y = op(x, ops.full(shape=shape, value=value, dtype=dtype))
            return y * ops.constant.lift(array)

        return build(run, [Type(as_dtype(dtype), shape)])

    changed = np.array([2, 2, 3], np.float32)
    graphs = [
        made(),
        made(shape=(4,)),
        made(dtype="f64"),
        made(value=2.0),
        made(value=1),
        made(value=True),
        made(op=ops.sub),
        made(array=changed),
    ]
    assert len({fingerprint(g) for g in graphs}) == len(graphs)
    assert fingerprint(made()) == fingerprint(made())


def test_bfloat16_prints_as_numbers():
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    graph = build(lambda: [ops.constant.lift(array)], [])
    assert "bf16[2](1.5, -2.0)" in str(graph)
