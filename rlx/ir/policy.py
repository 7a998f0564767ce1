"""Precision policies: the dtype for each class of work.

A policy says a dtype for each class of ops; `lower/precision.py` puts the casts into a graph. What
class an op is of follows from its body, or its room says so.
"""

from __future__ import annotations

import numpy as np

from .errors import ArgumentError, DtypeError
from .record import fields, record
from .types import DTYPES, NAMES, as_dtype

FLOATS = ("float16", "bfloat16", "float32")
FLOAT_DTYPES = frozenset(DTYPES[name] for name in FLOATS)  # a policy leaves all others alone


@record
class Policy:
    """The dtype for each class of work: float16, bfloat16, float32, or None.

    None takes the widest dtype of the operands.

    contractions     matrix products, convolutions and attention
    sums             their results; None is the operands' dtype (halves are summed in float32)
    pointwise        ops element by element that are not transcendental
    transcendental   ops such as `exp`
    reductions       sums and products along axes
    normalizations   composites with reductions, such as softmax, layer_norm and cross_entropy

    >>> Policy(contractions="bfloat16", reductions="float32")
    Policy(contractions='bfloat16', reductions='float32')
    """

    contractions: str | None = None
    sums: str | None = None
    pointwise: str | None = None
    transcendental: str | None = None
    reductions: str | None = None
    normalizations: str | None = None

    def __post_init__(self) -> None:
        for name in fields(self):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _name_of(name, given))

    def dtype(self, kind: str) -> np.dtype | None:
        """The dtype for a class of work; None for the widest of the operands.

        `kind` is one of the fields of the policy.
        """
        name = getattr(self, kind, None)
        return None if name is None else DTYPES[name]

    @property
    def text(self) -> str:
        """The policy as `policy_of` reads it: its name, or its classes and dtypes."""
        known = next((name for name, policy in POLICIES.items() if policy == self), None)
        return known or ",".join(f"{name}={dtype}" for name, dtype in self._given())

    def _given(self) -> list[tuple[str, str]]:
        pairs = [(name, getattr(self, name)) for name in fields(self)]
        return [(name, dtype) for name, dtype in pairs if dtype is not None]

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={dtype!r}' for name, dtype in self._given())})"


def _name_of(kind: str, given: object) -> str:
    try:
        name = NAMES[as_dtype(given)]
    except DtypeError:
        name = ""
    if name not in FLOATS:
        raise ArgumentError(
            f"Policy: {kind} is {given!r}",
            fix=f"give one of {', '.join(FLOATS)}, or None; a policy leaves other dtypes alone",
        )
    return name


def _always(dtype: str) -> Policy:
    return Policy(dtype, None, dtype, dtype, dtype, dtype)


def _mixed(dtype: str) -> Policy:
    wide = "float32"
    return Policy(dtype, transcendental=wide, reductions=wide, normalizations=wide)


def _conservative(dtype: str) -> Policy:
    wide = "float32"
    return Policy(dtype, wide, wide, wide, wide, wide)


POLICIES = {
    "as_written": Policy(),
    "always_f32": _always("float32"),
    "always_f16": _always("float16"),
    "always_bf16": _always("bfloat16"),
    "mixed_f16": _mixed("float16"),
    "mixed_bf16": _mixed("bfloat16"),
    "mixed_f16_conservative": _conservative("float16"),
    "mixed_bf16_conservative": _conservative("bfloat16"),
}
SHORT = {"f32": "always_f32", "f16": "always_f16", "bf16": "always_bf16"}
AS_WRITTEN = POLICIES["as_written"]


def policy_of(given: Policy | str) -> Policy:
    """The policy of a name, or of a text as `contractions=bf16,sums=f32`.

    >>> policy_of("mixed_bf16").contractions
    'bfloat16'
    """
    if isinstance(given, Policy):
        return given
    name = SHORT.get(given, given) if isinstance(given, str) else ""
    if name in POLICIES:
        return POLICIES[name]
    pairs = [part.partition("=") for part in name.split(",")]
    classes = set(fields(Policy))
    if name and all(sign and kind.strip() in classes for kind, sign, _ in pairs):
        return Policy(**{kind.strip(): dtype.strip() for kind, _, dtype in pairs})
    import difflib

    near = difflib.get_close_matches(name, POLICIES, 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise ArgumentError(
        f"there is no precision {given!r}",
        fix=f"{guess}give one of {', '.join(POLICIES)}, or a rlx.Policy",
    )
