"""The text of errors, word for word: what, where in the user's code, how to fix it."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.backends.backend import Availability
from rlx.ir import errors
from rlx.lower.pipeline import lower
from rlx.lower.target import Target
from rlx.serve import WeightRegistry
from rlx.transforms.transpose import transpose_graph

DTYPES = (
    "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, "
    "float16, bfloat16, float32, float64, complex64, complex128"
)


class Holder:
    """Something that outlives a trace."""


def check_text(kind: type[Exception], text: str, fn: Callable[..., Any], *args: Any) -> None:
    """Compare an error with `text`; the line numbers of this file become N."""
    with pytest.raises(kind) as caught:
        fn(*args)
    assert type(caught.value) is kind
    found = re.sub(r"(test_errors\.py):\d+", r"\1:N", str(caught.value))
    assert found == inspect.cleandoc(text)


def test_shape_mismatch_in_matmul_names_the_pytree_path():
    @rlx.jit
    def loss(x, params):
        return x @ params["head"]["w"]

    check_text(
        errors.ShapeError,
        """
        matmul: the inner sizes differ, 4 and 5
          where  test_errors.py:N in loss      return x @ params["head"]["w"]
                 x: f32[3, 4]   argument 0 of loss, x
                 y: f32[5, 2]   argument 1 of loss, params["head"]["w"]
          fix    give x a last axis of 5, or y 4 rows
        """,
        *(loss, rnp.zeros((3, 4)), {"head": {"w": rnp.zeros((5, 2))}}),
    )


def test_shapes_that_do_not_broadcast():
    check_text(
        errors.ShapeError,
        """
        add: the shapes (3,), (4,) do not broadcast
          where  test_errors.py:N in <lambda>      lambda: rnp.ones(3) + rnp.ones(4),
                 x: f32[3]
                 y: f32[4]
          fix    sizes must be equal or 1, counted from the last axis
        """,
        lambda: rnp.ones(3) + rnp.ones(4),
    )


def test_dtype_mismatch():
    @rlx.jit
    def bits(flags, x):
        return flags["mask"] & x

    check_text(
        errors.DtypeError,
        """
        bitwise_and: float32 has no bits to combine
          where  test_errors.py:N in bits      return flags["mask"] & x
                 x: f32[3]   argument 0 of bits, flags["mask"]
                 y: i32[3]   argument 1 of bits, x
          fix    convert the operands to integers, or compare them first: (x > 0) & (y > 0)
        """,
        *(bits, {"mask": rnp.ones(3)}, rnp.ones(3, "int32")),
    )


def test_dtype_mismatch_of_a_carry():
    def total(xs):
        return rlx.scan(lambda c, x: ((c + x).astype("int32"), x), xs[0], xs)

    check_text(
        errors.DtypeError,
        """
        scan: carry is f32[] before the body and i32[] after it
          where  test_errors.py:N in total      """
        """return rlx.scan(lambda c, x: ((c + x).astype("int32"), x), xs[0], xs)
          fix    convert the new value: .astype('float32'), or start with int32
        """,
        *(rlx.jit(total), rnp.ones(3)),
    )


def test_value_dependent_if_under_jit():
    @rlx.jit
    def f(x):
        if x > 0:
            return x
        return -x

    check_text(
        errors.ConcretizationError,
        """
        bool() needs the numbers of a tensor, which it has not while `f` is traced
          where  test_errors.py:N in f      if x > 0:
                 bool[]   made by gt at test_errors.py:N in f      if x > 0:
          fix    use rlx.cond(test, yes, no, *operands) to run one of two functions, """
        """rlx.numpy.where(test, a, b) to
                 choose elementwise, or @rlx.autograph below @rlx.jit, which rewrites `if`; """
        """or make the argument
                 a Python value with static_argnames
        """,
        *(f, 1.0),
    )


def test_value_dependent_while_and_assert_under_jit():
    @rlx.jit
    def f(x):
        while x < 3:
            x = x + 1
        return x

    @rlx.jit
    def g(x):
        assert x > 0
        return x

    for fn, advice in (
        (f, "use rlx.while_loop(test, body, value), or @rlx.autograph"),
        (g, "use rlx.check"),
    ):
        with pytest.raises(errors.ConcretizationError) as caught:
            fn(1.0)
        assert caught.value.fix.startswith(advice)


def test_leaked_tracer_names_its_line_and_holder():
    model = Holder()

    @rlx.jit
    def layer(x):
        model.hidden = x * 2
        return x

    layer(1.0)
    check_text(
        errors.LeakedTracerError,
        """
        a traced tensor of `layer` was used after its trace had ended
          where  test_errors.py:N in <lambda>      lambda: model.hidden + 1,
                 f32[] made at test_errors.py:N in layer      model.hidden = x * 2
                 held by the attribute .hidden of a Holder
          fix    return the tensor from the traced function instead of storing it outside
        """,
        lambda: model.hidden + 1,
    )


def test_non_scalar_grad():
    def loss(w):
        return w * 2

    check_text(
        errors.GradientError,
        """
        grad needs a scalar loss, loss returned f32[2]
          where  test_errors.py:N in <lambda>      lambda: rlx.grad(loss)(rnp.ones(2)),
          fix    return a float such as y.sum() or y.mean(), or use rlx.jacrev
        """,
        lambda: rlx.grad(loss)(rnp.ones(2)),
    )


def test_bad_axis():
    check_text(
        errors.AxisError,
        """
        sum: axis 5 is outside an array with 2 axes
          where  test_errors.py:N in <lambda>      lambda: rnp.sum(rnp.zeros((2, 3)), axis=5),
          fix    pick an axis from -2 to 1
        """,
        lambda: rnp.sum(rnp.zeros((2, 3)), axis=5),
    )


def test_unknown_device():
    check_text(
        errors.UnknownDeviceError,
        f"""
        there is no device 'cpuu'
          where  test_errors.py:N in <lambda>      lambda: rlx.jit(lambda x: x, device="cpuu"),
          fix    did you mean 'cpu'? the devices are {", ".join(registry.names())}
        """,
        lambda: rlx.jit(lambda x: x, device="cpuu"),
    )


def test_unknown_name():
    check_text(
        errors.UnknownNameError,
        """
        no weights are named 'w'
          where  test_errors.py:N in <lambda>      lambda: WeightRegistry()["w"],
          fix    there are: none; add them first
        """,
        lambda: WeightRegistry()["w"],
    )


def test_unsupported_dtype():
    check_text(
        errors.DtypeError,
        f"""
        rlx has no dtype longdouble
          where  test_errors.py:N in <lambda>      lambda: rlx.array(np.ones(3, "longdouble")),
          fix    convert it to one of {DTYPES}
        """.replace("longdouble\n", np.dtype("longdouble").name + "\n"),
        lambda: rlx.array(np.ones(3, "longdouble")),
    )


def test_text_is_no_argument():
    @rlx.jit
    def greet(names):
        return names

    check_text(
        errors.DtypeError,
        """
        values of dtype <U3 are text, not numbers
          where  test_errors.py:N in <lambda>      lambda: greet({"first": "Ada"}),
                 argument 0 of greet, names["first"]
          fix    leave it out of the tree, or keep it in a static field of a module,
                 name: str = rlx.nn.field(static=True)
        """,
        lambda: greet({"first": "Ada"}),
    )


def test_unknown_dtype():
    check_text(
        errors.DtypeError,
        f"""
        there is no dtype 'float19'
          where  test_errors.py:N in <lambda>      lambda: rnp.ones(3, "float19"),
          fix    use one of {DTYPES}
        """,
        lambda: rnp.ones(3, "float19"),
    )


def test_dtype_that_a_device_lacks():
    small = Target("toy", stored=frozenset(["float32", "bool"]))

    def curve(x):
        return rnp.exp(x.astype("float64"))

    graph = rlx.make_graph(curve)(rlx.spec((3,)))
    check_text(
        errors.UnsupportedDtype,
        """
        convert: toy has no float64
          where  test_errors.py:N in curve      return rnp.exp(x.astype("float64"))
                 the value is f64[3]
          fix    convert it to float32, or run on another device
        """,
        *(lower, graph, small),
    )


def test_device_that_cannot_run_here(monkeypatch):
    absent = Availability(False, "no driver was found", "install the driver, then start again")
    monkeypatch.setattr(registry._open("reference"), "availability", lambda: absent)
    check_text(
        errors.DeviceUnavailable,
        """
        the device 'reference' cannot run: no driver was found
          where  test_errors.py:N in <lambda>      lambda: rlx.Session("reference"),
          fix    install the driver, then start again
        """,
        lambda: rlx.Session("reference"),
    )


def test_number_that_does_not_fit():
    check_text(
        errors.DtypeError,
        """
        the Python float nan does not fit int32
          where  test_errors.py:N in <lambda>      lambda: rnp.full(3, float("nan"), "int32"),
          fix    convert the array first, or write rlx.array(x, dtype="int64")
        """,
        lambda: rnp.full(3, float("nan"), "int32"),
    )


def test_result_without_gradient():
    def count(x):
        return x.astype("int32")

    check_text(
        errors.GradientError,
        """
        jacrev: result of count is i32[3], and integers have no gradient
          where  test_errors.py:N in <lambda>      lambda: rlx.jacrev(count)(rnp.ones(3)),
          fix    convert it with astype('float32'), or leave it out
        """,
        lambda: rlx.jacrev(count)(rnp.ones(3)),
    )


@pytest.mark.parametrize("op", ["mul", "div", "exp"])
def test_transpose_of_what_is_not_linear(op):
    square = {"mul": lambda x: x * x, "div": lambda x: 1 / x, "exp": rnp.exp}[op]
    graph = rlx.make_graph(square)(rlx.spec((3,)))
    with pytest.raises(errors.GradientError, match="not linear") as caught:
        transpose_graph(graph, [True])
    assert "test_errors.py" in caught.value.where


def test_elements_are_not_deleted():
    def shorten(x):
        del x[0]

    for fn in (shorten, rlx.jit(shorten)):
        check_text(
            errors.ImmutableError,
            """
            del x[i] would change the number of elements, which an array keeps
              where  test_errors.py:N in shorten      del x[0]
                     x: f32[3]
              fix    make another array without them, x = rlx.numpy.delete(x, i, axis=0)
            """,
            *(fn, rnp.ones(3)),
        )


class Counting(rlx.nn.Module):
    """Sets what it does not declare: when it is made and when it is called."""

    weight: rlx.Array

    def __init__(self, size=None):
        self.weight = rnp.ones(2)
        if size is not None:
            self.size = size

    def __call__(self, x):
        self.seen = x
        return (self.weight * x).sum()


def test_undeclared_fields_of_a_module():
    for fn in (lambda m: m(rnp.ones(2)), rlx.jit(lambda m: m(2.0)), rlx.grad(lambda m: m(2.0))):
        with pytest.raises(errors.ImmutableError, match="declare it in the class Counting: seen"):
            fn(Counting())
    check_text(
        errors.ArgumentError,
        """
        Counting.size is set, but it is no field
          where  test_errors.py:N in __init__      self.size = size
          fix    declare it in the class Counting: size: int = rlx.nn.field(static=True)
        """,
        *(Counting, 3),
    )
    check_text(
        errors.ImmutableError,
        """
        modules are immutable: Counting.seen cannot be changed
          where  test_errors.py:N in __call__      self.seen = x
          fix    declare it in the class Counting: seen: rlx.Array, """
        """and make another one: module = module.replace(seen=...)
        """,
        *(Counting(), rnp.ones(2)),
    )


def test_unhashable_static_argument():
    def repeat(x, times):
        return x

    f = rlx.jit(repeat, static_argnames="times")
    check_text(
        errors.StaticArgumentError,
        """
        the static argument 'times' of repeat is a list, which cannot be hashed
          where  test_errors.py:N in <lambda>      lambda: f(rnp.ones(1), [3]),
          fix    pass a hashable value (a tuple for a list), or make the argument not static
        """,
        lambda: f(rnp.ones(1), [3]),
    )


def test_wrong_argument_structure():
    def layer(params, x):
        return params["w"] * x

    compiled = rlx.jit(layer).lower({"w": 1.0}, 2.0).compile()
    check_text(
        errors.StructureError,
        """
        layer was compiled for other arguments: """
        """argument 0 has 'w' in the compiled ones, 'v' in this call
          where  test_errors.py:N in <lambda>      lambda: compiled({"v": 1.0}, 2.0),
          fix    pass arguments with the containers, keys and static values it was compiled for
        """,
        lambda: compiled({"v": 1.0}, 2.0),
    )


def test_wrong_structure_of_tangents():
    check_text(
        errors.StructureError,
        """
        jvp: the primals and the tangents differ in structure: """
        """[0] has 'w' in the primals, 'v' in the tangents
          where  test_errors.py:N in <lambda>      """
        """lambda: rlx.jvp(lambda p: p["w"], ({"w": 1.0},), ({"v": 1.0},)),
          fix    give trees with the same containers, keys and lengths
        """,
        lambda: rlx.jvp(lambda p: p["w"], ({"w": 1.0},), ({"v": 1.0},)),
    )


CLASSES = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.RlxError) and kind is not errors.RlxError
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_raised_somewhere(name):
    sources = "".join(path.read_text() for path in Path(rlx.__file__).parent.rglob("*.py"))
    assert re.search(rf"(raise|return|error =) (errors\.)?{name}\(", sources)


@pytest.mark.parametrize("name", [n for n in vars(errors) if n.endswith("Error")])
def test_errors_travel_between_processes(name: str) -> None:
    kind = getattr(errors, name)
    assert getattr(rlx, name) is kind
    error = kind("what", fix="do", where="here", notes=["a note"])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
