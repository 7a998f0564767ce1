"""What `fuzz_signatures.py` puts in the place of arguments."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp


class Stranger:
    """A class that no function knows."""


def _recursive() -> list[Any]:
    deep: list[Any] = []
    deep.append(deep)
    return deep


def _read_only() -> np.ndarray:
    array = np.ones((3, 4), np.float32)
    array.flags.writeable = False
    return array


# each makes its value anew: a generator is spent by the first who reads it
JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "'x'": lambda: "x",
    "''": lambda: "",
    "'float32'": lambda: "float32",
    "b'ab'": lambda: b"ab",
    "-1": lambda: -1,
    "0": lambda: 0,
    "7": lambda: 7,
    "2**70": lambda: 2**70,
    "2**45": lambda: 2**45,
    "-2**63": lambda: -(2**63),
    "1.5": lambda: 1.5,
    "inf": lambda: float("inf"),
    "nan": lambda: float("nan"),
    "1j": lambda: 1j,
    "True": lambda: True,
    "object()": object,
    "Stranger": lambda: Stranger,
    "int": lambda: int,
    "lambda": lambda: lambda *args, **keywords: None,
    "len": lambda: len,
    "[]": list,
    "()": tuple,
    "{}": dict,
    "{'a': 1}": lambda: {"a": 1},
    "{1, 2}": lambda: {1, 2},
    "[[1], [1, 2]]": lambda: [[1], [1, 2]],
    "[None, 1]": lambda: [None, 1],
    "['a', 'b']": lambda: ["a", "b"],
    "(0, 0)": lambda: (0, 0),
    "(9, -9)": lambda: (9, -9),
    "(2**40, 2**40)": lambda: (2**40, 2**40),
    "(1,) * 65": lambda: (1,) * 65,
    "recursive": _recursive,
    "generator": lambda: (i for i in range(3)),
    "range(3)": lambda: range(3),
    "slice": lambda: slice(0, 2),
    "...": lambda: ...,
    "Fraction": lambda: Fraction(1, 3),
    "Decimal": lambda: Decimal("1.5"),
    "date": lambda: datetime.date(2020, 1, 2),
    "np.int8(3)": lambda: np.int8(3),
    "np.float64(2.5)": lambda: np.float64(2.5),
    "np.bool_": lambda: np.bool_(True),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "text array": lambda: np.array(["a", "bc"]),
    "object array": lambda: np.array([None, 1], object),
    "structured array": lambda: np.zeros(3, [("a", "i4"), ("b", "f4")]),
    "masked array": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "0-d": lambda: rnp.asarray(np.float32(1.5)),
    "bool 0-d": lambda: rnp.asarray(np.bool_(True)),
    "empty": lambda: rnp.zeros((0,)),
    "empty matrix": lambda: rnp.zeros((0, 3)),
    "vector": lambda: rnp.arange(5.0),
    "int vector": lambda: rnp.asarray(np.array([1, -9, 99], np.int32)),
    "3-d": lambda: rnp.ones((2, 3, 2)),
    "5-d": lambda: rnp.ones((1, 2, 1, 2, 1)),
    "uint8": lambda: np.array([[1, 2], [3, 4]], np.uint8),
    "int64": lambda: np.array([2**40, -(2**40)]),
    "complex array": lambda: rnp.asarray(np.array([1j, 2.0], np.complex64)),
    "NaN array": lambda: rnp.asarray(np.full((3, 3), np.nan, np.float32)),
    "not contiguous": lambda: np.ones((6, 8), np.float32)[::2, ::-2],
    "read-only": _read_only,
    "big-endian": lambda: np.ones((3, 3), ">f4"),
    "dtype": lambda: np.dtype("int8"),
    "spec": lambda: rlx.spec((2, 3)),
    "dim": lambda: rlx.dim("n"),
    "key": lambda: rlx.random.key(1),
}

# arguments with these names in calls that are known from nothing but a signature
BY_NAME: dict[str, str] = {
    "key": "K",
    "shape": "(2, 3)",
    "axis": "0",
    "dtype": "'float32'",
    "axes": "(0,)",
    "n": "3",
    "N": "3",
    "M": "3",
    "fun": "sin",
    "fn": "sin",
    "f": "sin",
    "tree": "{'w': a}",
    "params": "{'w': a}",
    "updates": "{'w': a}",
    "grads": "{'w': a}",
    "learning_rate": "0.1",
    "labels": "k",
    "size": "3",
    "device": "'cpu'",
    "start": "0",
    "rate": "0.5",
    "steps": "10",
    "begin": "0.1",
    "end": "0.2",
    "step": "2",
    "axis_name": "'i'",
    "features": "4",
    "is_leaf": "None",
    "name": "'thing'",
}
