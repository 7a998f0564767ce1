"""Unit quaternions (x, y, z, w) along the last axis, and other forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as rnp

SMALL = 1e-3  # of angles below, series have the digits


def length(x: Any) -> Any:
    """The length along the last axis, which stays; the slope at 0 is 0."""
    square = rnp.sum(rnp.square(x), axis=-1, keepdims=True)
    is_zero = square == 0
    return rnp.where(is_zero, 0.0, rnp.sqrt(rnp.where(is_zero, 1.0, square)))


def normalized(x: Any) -> Any:
    """The quaternion of length 1."""
    return x / length(x)


def product(p: Any, q: Any) -> Any:
    """The rotation by q, then by p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    u, v = rnp.broadcast_arrays(u, v)
    w = a * b - rnp.sum(u * v, axis=-1, keepdims=True)
    return rnp.concatenate([a * v + b * u + rnp.cross(u, v), w], axis=-1)


def canonical(x: Any) -> Any:
    """Of two that are one rotation the one with the first sign plus.

    The numbers go in the order w, x, y, z.
    """
    sign = rnp.zeros_like(x[..., :1])
    for i in (3, 0, 1, 2):
        sign = rnp.where(sign == 0, rnp.sign(x[..., i : i + 1]), sign)
    return rnp.where(sign < 0, -x, x)


# -- matrices and vectors -------------------------------------------------------------------------


def as_matrix(x: Any) -> Any:
    """The orthogonal matrix."""
    a, b, c, w = (x[..., i] for i in range(4))
    rows = [
        [a * a - b * b - c * c + w * w, 2 * (a * b - c * w), 2 * (a * c + b * w)],
        [2 * (a * b + c * w), b * b - a * a - c * c + w * w, 2 * (b * c - a * w)],
        [2 * (a * c - b * w), 2 * (b * c + a * w), c * c - a * a - b * b + w * w],
    ]
    return rnp.stack([rnp.stack(row, axis=-1) for row in rows], axis=-2)


def from_matrix(m: Any) -> Any:
    """The rotation by a matrix.

    Of four formulas it is the one that divides by the greatest number.
    """
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    off = [m[..., k, j] - m[..., j, k] for j, k in ((1, 2), (2, 0), (0, 1))]
    made = [rnp.stack([*off, 1 + trace], axis=-1)]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = [rnp.zeros_like(trace)] * 4
        parts[i] = 1 - trace + 2 * m[..., i, i]
        parts[j], parts[k] = m[..., j, i] + m[..., i, j], m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        made.append(rnp.stack(parts, axis=-1))
    sizes = rnp.stack([trace, *(m[..., i, i] for i in range(3))], axis=-1)
    # of equal ones that of a diagonal element
    best = (rnp.argmax(rnp.roll(sizes, -1, axis=-1), axis=-1) + 1) % 4
    result = made[0]
    for i in (1, 2, 3):
        result = rnp.where((best == i)[..., None], made[i], result)
    return normalized(result)


def from_vector(v: Any) -> Any:
    """The rotation around a vector by its length."""
    angle = length(v)
    square = angle * angle
    is_small = angle <= SMALL
    safe = rnp.where(is_small, 1.0, angle)
    series = 0.5 - square / 48 + square * square / 3840
    scale = rnp.where(is_small, series, rnp.sin(safe / 2) / safe)
    return rnp.concatenate([scale * v, rnp.cos(angle / 2)], axis=-1)


def as_vector(x: Any) -> Any:
    """The axis times the angle, which is at most pi."""
    x = rnp.where(x[..., 3:] < 0, -x, x)
    angle = 2.0 * rnp.arctan2(length(x[..., :3]), x[..., 3:])
    square = angle * angle
    is_small = angle <= SMALL
    safe = rnp.where(is_small, 1.0, angle)
    series = 2 + square / 12 + 7 * square * square / 2880
    return rnp.where(is_small, series, safe / rnp.sin(safe / 2)) * x[..., :3]


# -- angles ---------------------------------------------------------------------------------------


def from_turns(axes: Sequence[int], angles: Any, is_intrinsic: bool) -> Any:
    """Turns around axes one after another; intrinsic axes turn along."""
    result = None
    for i, axis in enumerate(axes):
        half = angles[..., i : i + 1] / 2
        unit = np.eye(4)[axis].astype(angles.dtype)
        turn = rnp.sin(half) * unit + rnp.cos(half) * np.eye(4)[3].astype(angles.dtype)
        if result is None:
            result = turn
        else:
            result = product(result, turn) if is_intrinsic else product(turn, result)
    return result


def as_turns(x: Any, axes: Sequence[int], is_intrinsic: bool) -> Any:
    """Three angles around axes that make the rotation.

    Bernardes and Viollet, "Quaternion to Euler angles conversion", 2022. Where two axes fall
    together, the third angle (of extrinsic turns; the first of intrinsic ones) is 0.
    """
    i, j, k = axes[::-1] if is_intrinsic else axes
    is_symmetric = i == k
    k = 3 - i - j if is_symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    qi, qj, qk, qw = x[..., i], x[..., j], sign * x[..., k], x[..., 3]
    a, b, c, d = (qw, qi, qj, qk) if is_symmetric else (qw - qj, qi + qk, qj + qw, qk - qi)
    middle = 2 * rnp.arctan2(rnp.hypot(c, d), rnp.hypot(a, b))
    half_sum, half_difference = rnp.arctan2(b, a), rnp.arctan2(d, c)
    is_flat, is_turned = rnp.abs(middle) <= 1e-7, rnp.abs(middle - math.pi) <= 1e-7
    way = 1.0 if is_intrinsic else -1.0
    # of the angles that only count together the last (or first) one is 0
    alone = rnp.where(is_flat, 2 * half_sum, 2 * way * half_difference)
    is_locked = is_flat | is_turned
    first = half_sum - half_difference
    third = half_sum + half_difference
    if is_intrinsic:
        first, third = rnp.where(is_locked, 0.0, first), rnp.where(is_locked, alone, third)
    else:
        first, third = rnp.where(is_locked, alone, first), rnp.where(is_locked, 0.0, third)
    if not is_symmetric:
        third, middle = third * sign, middle - math.pi / 2
    order = [third, middle, first] if is_intrinsic else [first, middle, third]
    turns = rnp.stack(order, axis=-1)
    return (turns + math.pi) % (2 * math.pi) - math.pi
