"""Exported functions that are called, or jitted, in other ways than they were exported for."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

IMAGES = np.ones((5, 4, 4, 1), np.float32)
SPEC = rlx.spec(("n", 4, 4, 1))


def loaded(*specs, **named):
    weights = rnp.ones((16, 3))

    def predict(images):
        return rnp.tanh(images.reshape(images.shape[0], 16) @ weights)

    return rlx.load_exported(rlx.export(predict, *specs, **named).serialize())


CALLS = {
    "by place": (
        lambda: loaded(images=SPEC)(IMAGES),
        """StructureError: predict takes images=f32[n, 4, 4, 1] by keyword; it was given \
1 positional argument
  where  WHERE
  fix    call it as predict(images=...)""",
    ),
    "by name": (
        lambda: loaded(SPEC)(images=IMAGES),
        """StructureError: predict takes images: f32[n, 4, 4, 1] by position; it was given \
images by keyword
  where  WHERE
  fix    call it as predict(images)""",
    ),
    "nothing": (
        lambda: loaded(images=SPEC)(),
        """StructureError: predict takes images=f32[n, 4, 4, 1] by keyword; it was given \
no arguments
  where  WHERE
  fix    call it as predict(images=...)""",
    ),
    "rank": (
        lambda: loaded(images=SPEC)(images=IMAGES[0]),
        """ShapeError: predict was exported for images: f32[n, 4, 4, 1], it was given f32[4, 4, 1]
  where  WHERE
  fix    pass an array of 4 axes; x[None] has one more in front""",
    ),
    "rank in a trace": (
        lambda: rlx.jit(loaded(SPEC))(IMAGES[0, 0]),
        """ShapeError: predict was exported for images: f32[n, 4, 4, 1], it was given f32[4, 1]
  where  WHERE
  fix    pass an array of 4 axes""",
    ),
    "size": (
        lambda: loaded(SPEC)(IMAGES[:, :3]),
        """ShapeError: predict was exported for images: f32[n, 4, 4, 1], it was given \
f32[5, 3, 4, 1]
  where  WHERE
  fix    pass an array whose axis 1 has the size 4""",
    ),
    "dtype": (
        lambda: loaded(SPEC)(IMAGES.astype("float64")),
        """DtypeError: predict was exported for images: f32[n, 4, 4, 1], it was given \
f64[5, 4, 4, 1]
  where  WHERE
  fix    convert it: x.astype('float32')""",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_wrong_call_is_told(name):
    call, text = CALLS[name]
    with pytest.raises(rlx.RlxError) as caught:
        call()
    error = caught.value
    found = re.sub(r"(?m)^  where  test_export_calls\.py.*$", "  where  WHERE", str(error))
    assert f"{type(error).__name__}: {found}" == text


@pytest.mark.parametrize("names", [(), ("images",)])
def test_open_sizes_of_an_export_stay_open_in_a_jit(names):
    exported = loaded(**{"images": SPEC}) if names else loaded(SPEC)
    assert list(inspect.signature(exported).parameters) == ["images"]
    jitted = rlx.jit(exported, dynamic={"images": {0: "rows"}})
    wanted = np.tanh(np.full((1, 3), 16.0, np.float32))
    for count in (5, 2, 3):
        args = ((), {"images": IMAGES[:count]}) if names else ((IMAGES[:count],), {})
        if count > len(IMAGES):
            continue
        found = jitted(*args[0], **args[1])
        np.testing.assert_allclose(np.asarray(found), np.repeat(wanted, count, 0), 1e-6)
    assert jitted.cache_info().compiles == 1


def test_an_open_size_may_be_an_expression_of_another():
    doubled = rlx.load_exported(
        rlx.export(
            lambda x: x.reshape(2, -1).sum(0) * x.shape[0], rlx.spec((2 * rlx.dim("n"),))
        ).serialize()
    )
    jitted = rlx.jit(lambda x: doubled(rnp.concatenate([x, x])), dynamic={"x": {0: "m"}})
    for count in (3, 5):
        assert jitted(np.ones(count, np.float32)).tolist() == [4.0 * count] * count
    assert jitted.cache_info().compiles == 1


def test_arguments_have_names_where_the_export_had_some():
    def score(params, x, *rest, scale):
        return (x @ params["w"] + rest[0]) * scale

    spec = rlx.spec((2, 2))
    made = rlx.export(score, {"w": spec, "b": spec}, spec, spec, scale=rlx.spec(()))
    exported = rlx.load_exported(made.serialize())
    parameters = inspect.signature(exported).parameters
    assert list(parameters) == ["params", "x", "rest", "scale"]
    assert [p.kind.name for p in parameters.values()][2:] == ["POSITIONAL_ONLY", "KEYWORD_ONLY"]
    with pytest.raises(rlx.StructureError, match="params: a dict of 2 arrays, x: f32"):
        exported(1.0)
    x = np.ones((2, 2), np.float32)
    with pytest.raises(rlx.StructureError, match="other containers"):
        exported({"w": x}, x, x, scale=1.0)
