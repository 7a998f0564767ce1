"""Which devices a program brings, and what a device makes of ops before they are compiled."""

import numpy as np
import pytest
from boxed_backend import BoxedBackend
from hypothesis import given, settings, strategies as st

import rlx
import rlx.numpy as rnp
from rlx.backends.backend import Availability
from rlx.backends.reference.backend import ReferenceBackend
from rlx.ir.errors import ArgumentError, UnknownDeviceError, UnsupportedOp
from rlx.ir.graph import OPS
from rlx.lower.target import EXPANDED, LIBRARY, NATIVE, Target

X = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)


class Mine(ReferenceBackend):
    name = "mine"


class Narrow(BoxedBackend):
    """A device without double precision, and without a host to fall back to."""

    name = "narrow"
    target = Target("narrow", stored=frozenset({"float32", "int32", "bool"}), has_library=False)


@pytest.fixture
def narrow():
    yield rlx.register_backend("narrow", Narrow)
    rlx.unregister_backend("narrow")


def test_a_program_brings_a_device_and_takes_it_away():
    mine = rlx.register_backend("mine", Mine())
    try:
        assert mine in rlx.devices() and mine.is_available()
        np.testing.assert_array_equal(rlx.jit(lambda x: x + 1, device="mine")(X), X + 1)
        first = rlx.Session("mine").backend
        with pytest.raises(ArgumentError, match="'mine' is taken"):
            rlx.register_backend("mine", Mine)
    finally:
        rlx.unregister_backend("mine")
    assert "mine" not in rlx.devices()
    with pytest.raises(UnknownDeviceError, match="there is no device 'mine'"):
        rlx.Session("mine")
    rlx.register_backend("mine", Mine)
    try:
        assert rlx.Session("mine").backend is not first
        assert rlx.jit(lambda x: x + 2, device="mine").lower(X).compile()(X)[0, 0] == 1
        assert rlx.runtime.default_session("mine").backend is rlx.Session("mine").backend
    finally:
        rlx.unregister_backend("mine")
    with pytest.raises(ArgumentError, match="'mine' was not registered"):
        rlx.unregister_backend("mine")


def test_a_device_of_a_program_may_be_absent():
    class Absent(Mine):
        name = "absent"

        def availability(self):
            return Availability(False, "it is far away", "walk")

    absent = rlx.register_backend("absent", Absent)
    try:
        assert not rlx.supports(absent, rnp.sin, X)
        with pytest.raises(rlx.DeviceUnavailable, match="far away"):
            rlx.Session("absent")
    finally:
        rlx.unregister_backend("absent")


@pytest.mark.parametrize("name", ["cpu", "gpu", "a:b", "", "a b", 3])
def test_names_that_cannot_be_registered(name):
    with pytest.raises(ArgumentError, match="register_backend: "):
        rlx.register_backend(name, Mine)


def test_backends_that_cannot_be_registered():
    for wrong in (object, object(), Mine.compile, rlx.Session):
        with pytest.raises(ArgumentError, match="is no rlx"):
            rlx.register_backend("wrong", wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="calls itself 'mine'"):
        rlx.register_backend("other", Mine)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["cpu", "xla", "opencl", "reference"]), st.data())
def test_a_name_in_capitals_is_guessed(name, data):
    capitals = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    spelled = "".join(c.upper() if up else c for c, up in zip(name, capitals, strict=True))
    if spelled == name:
        return
    with pytest.raises(UnknownDeviceError) as caught:
        rlx.Device(spelled)
    assert f"did you mean {name!r}?" in caught.value.fix


# -- supports -------------------------------------------------------------------------------------


def mixed(x):
    ranked = rnp.sort(rlx.nn.softmax(x), axis=-1)
    return rlx.fori_loop(0, 2, lambda i, c: rnp.tanh(c), ranked) @ rnp.linalg.inv(x)


@pytest.mark.parametrize("device", ["cpu", "reference", "xla", "mlx"])
def test_what_is_told_is_what_a_compile_reports(device):
    if not rlx.Device(device).is_available():
        pytest.skip(rlx.Device(device).reason)
    told = rlx.supports(device, mixed, X)
    assert told, str(told)
    report = rlx.jit(mixed, device=device).lower(X).compile().report()
    for op in told.ways.get(LIBRARY, ()):
        assert op in report and "library" in report
    if device == "cpu":
        assert {"sort", "tanh"} <= set(told.ways[NATIVE]) and "softmax" in told.ways[EXPANDED]


@pytest.mark.parametrize("name", ["sin", "svd", "softmax", "while_loop", "sort", "eig"])
def test_ops_of_the_cpu_are_told_as_they_are_compiled(name):
    told = rlx.Device("cpu").supports(name)
    assert told and told.reason == ""
    assert rlx.Device("cpu").supports(OPS[name]).ways == told.ways
    on_host = name in told.ways[LIBRARY]
    assert on_host == (name in ("svd", "eig"))


def test_a_device_that_lacks_something(narrow):
    assert rlx.supports(narrow, rnp.sin, X)
    double = rlx.supports(narrow, rnp.sin, rlx.spec((3,), "float64"))
    assert not double and "narrow has no float64" in double.reason
    lacking = rlx.supports(narrow, mixed, X)
    assert not lacking and "narrow cannot run it" in str(lacking)
    assert not narrow.supports("svd") and narrow.supports("sin")


def test_open_sizes_are_refused_where_a_compile_refuses_them(narrow):
    spec = rlx.spec(("n",))
    assert rlx.supports("cpu", rnp.sin, spec)

    class Known(Narrow):
        name = "known"
        target = Target("known", has_symbolic_sizes=False)

    known = rlx.register_backend("known", Known)
    try:
        told = rlx.supports(known, rnp.sin, spec)
        assert not told and "known sizes only" in told.reason
    finally:
        rlx.unregister_backend("known")


def test_nothing_is_compiled_to_tell(monkeypatch):
    def compile(*args, **kwargs):
        raise UnsupportedOp("compiled", fix="do not")

    monkeypatch.setattr("rlx.backends.cpu.backend.CpuBackend.compile", compile)
    graph = rlx.make_graph(mixed)(X)
    assert rlx.supports("cpu", mixed, X).ways == rlx.supports("cpu", graph).ways


def test_wrong_questions():
    with pytest.raises(UnknownDeviceError):
        rlx.supports("cpuu", rnp.sin, X)
    for op in ("sinn", 3, None):
        with pytest.raises(ArgumentError, match="there is no op"):
            rlx.Device("cpu").supports(op)
    placed = rlx.jit(lambda x: x + 1, device="reference")
    told = rlx.supports("cpu", lambda x: placed(x), X)
    assert not told and "reference" in told.reason
