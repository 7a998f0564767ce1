"""Rotations in 3 dimensions and their interpolation: Rotation, Slerp.

Rotations are unit quaternions (x, y, z, w), one or a batch of them. Both classes are pytrees.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn, final

import numpy as np

from ... import numpy as rnp, random
from ...ir.errors import ArgumentError, ShapeError
from ...trace.apply import as_tensor
from ...trace.arguments import flag, members, wrong
from ...trace.array import Array
from ...trace.attributes import register_attributes
from ..operands import Tensor, floats

SMALL = 1e-3  # of angles below, series have the digits


@final
class Rotation:
    """A rotation in 3 dimensions, or a batch of rotations.

    `quat` are quaternions f[..., 4], the scalar last.

    >>> Rotation.from_euler("z", 90, degrees=True).apply([1.0, 0.0, 0.0]).round(3).tolist()
    [0.0, 1.0, 0.0]
    """

    def __init__(self, quat: Any) -> None:
        self.quat = quat

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Concatenate batches of `rotations` to one, which is returned."""
        rotations = members("Rotation.concatenate: the rotations", rotations)
        for one in rotations:
            if not isinstance(one, Rotation):
                raise wrong("Rotation.concatenate", one, "a rotation", "pass a list of rotations")
        return cls(rnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Tensor, degrees: bool = False) -> Rotation:
        """Rotations from Euler `angles` along the last axis.

        The axes `seq` "xyz" are extrinsic (fixed), "XYZ" intrinsic (moving). Angles are in radians
        or, with `degrees`, in degrees.
        """
        degrees = flag("from_euler: degrees", degrees)
        axes, is_intrinsic = _axes_of(seq, (1, 2, 3))
        (angles,) = floats("Rotation.from_euler", angles)
        angles = rnp.deg2rad(angles) if degrees else angles
        if angles.ndim == 0 or (len(axes) == 1 and angles.shape[-1] != 1):
            angles = angles[..., None]
        if angles.shape[-1] != len(axes):
            _wrong_shape(f"the angles are {angles.type}", f"give {len(axes)} along the last axis")
        return cls(_from_turns(axes, angles, is_intrinsic))

    @classmethod
    def from_matrix(cls, matrix: Tensor) -> Rotation:
        """Rotations from orthogonal matrices of determinant 1: `matrix`, f[..., 3, 3]."""
        (matrix,) = floats("Rotation.from_matrix", matrix)
        return cls(_from_matrix(matrix))

    @classmethod
    def from_mrp(cls, mrp: Tensor) -> Rotation:
        """Rotations from modified Rodrigues parameters axis * tan(angle / 4).

        `mrp` is f[..., 3].
        """
        (mrp,) = floats("Rotation.from_mrp", mrp)
        square = rnp.sum(rnp.square(mrp), axis=-1, keepdims=True)
        return cls(rnp.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Tensor) -> Rotation:
        """Rotations from quaternions, which are normalized: `quat`, f[..., 4]."""
        (quat,) = floats("Rotation.from_quat", quat)
        return cls(_normalized(quat))

    @classmethod
    def from_rotvec(cls, rotvec: Tensor, degrees: bool = False) -> Rotation:
        """Rotations from rotation vectors axis * angle: `rotvec`, f[..., 3].

        Angles are in radians or, with `degrees`, in degrees.
        """
        degrees = flag("from_rotvec: degrees", degrees)
        (rotvec,) = floats("Rotation.from_rotvec", rotvec)
        return cls(_from_vector(rnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = "float32") -> Rotation:
        """The identity rotation, or `num` of them."""
        shape = (4,) if num is None else (num, 4)
        return cls(rnp.broadcast_to(rnp.asarray([0.0, 0.0, 0.0, 1.0], dtype), shape))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Uniformly distributed random rotations, `num` or one, of the key `random_key`."""
        shape = (4,) if num is None else (num, 4)
        return cls(_normalized(random.normal(random_key, shape)))

    def __getitem__(self, indexer: Any) -> Rotation:
        self._check_line("indexed")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        self._check_line("counted")
        return self.quat.shape[0]

    def _check_line(self, what: str) -> None:
        if self.single:
            _wrong_shape(f"one rotation cannot be {what}", "make a line of them")

    def __mul__(self, other: Rotation) -> Rotation:
        """The rotation by `other`, then by this one."""
        return Rotation.from_quat(_product(self.quat, other.quat))

    def apply(self, vectors: Tensor, inverse: bool = False) -> Array:
        """Rotate `vectors` (..., 3), with `inverse` by the inverse rotation."""
        inverse = flag("Rotation.apply: inverse", inverse)
        matrix, vectors = self.as_matrix(), as_tensor(vectors)
        matrix = rnp.matrix_transpose(matrix) if inverse else matrix
        return rnp.sum(matrix * vectors[..., None, :], axis=-1)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The three Euler angles; `seq` and `degrees` are as for `from_euler`."""
        axes, is_intrinsic = _axes_of(seq, (3,))
        angles = _as_turns(self.quat, axes, is_intrinsic)
        return rnp.rad2deg(angles) if flag("as_euler: degrees", degrees) else angles

    def as_matrix(self) -> Array:
        """The rotation matrices."""
        return _as_matrix(self.quat)

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters axis * tan(angle / 4)."""
        w = self.quat[..., 3:]
        sign = rnp.where(w < 0, -1.0, 1.0)
        return sign * self.quat[..., :3] / (1 + sign * w)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The rotation vectors axis * angle, in radians or, with `degrees`, in degrees."""
        vector = _as_vector(self.quat)
        return rnp.rad2deg(vector) if flag("as_rotvec: degrees", degrees) else vector

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions; `canonical` makes w, or the first nonzero component, positive.

        The scalar w is last, or with `scalar_first` first.
        """
        quat = _canonical(self.quat) if flag("as_quat: canonical", canonical) else self.quat
        return rnp.roll(quat, 1, axis=-1) if flag("as_quat: scalar_first", scalar_first) else quat

    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Any:
        """The rotation angles."""
        size = _length(self.quat[..., :3])[..., 0]
        return 2.0 * rnp.arctan2(size, rnp.abs(self.quat[..., 3]))

    def mean(self, weights: Tensor | None = None) -> Rotation:
        """The mean of a batch of rotations, weighted by `weights`."""
        self._check_line("averaged")
        ones = rnp.ones(len(self), self.quat.dtype)
        share = ones if weights is None else as_tensor(weights)
        if share.shape != (len(self),):
            _wrong_shape(f"the weights are {share.type}", f"give {len(self)} of them")
        scatter = (self.quat.T * share) @ self.quat
        return Rotation(rnp.linalg.eigh(scatter)[1][:, -1])

    @property
    def single(self) -> bool:
        """Whether it is one rotation, not a batch."""
        return self.quat.ndim == 1


@final
class Slerp:
    """Spherical linear interpolation: `Slerp.init(times, rotations)(time)`.

    `timedelta` are the differences of the times, `rotvecs` the rotation vectors between neighbours.
    """

    def __init__(self, times: Any, timedelta: Any, rotations: Rotation, rotvecs: Any) -> None:
        self.times, self.timedelta = times, timedelta
        self.rotations, self.rotvecs = rotations, rotvecs

    @classmethod
    def init(cls, times: Tensor, rotations: Rotation) -> Slerp:
        """The interpolation of a batch of rotations at ascending times."""
        times = rnp.astype(as_tensor(times), rotations.quat.dtype)
        if rotations.single or times.shape != (len(rotations),) or len(rotations) < 2:
            _wrong_shape(f"the times are {times.type}", "give two rotations or more, each a time")
        first, second = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, rnp.diff(times), first, (first.inv() * second).as_rotvec())

    def __call__(self, times: Tensor) -> Rotation:
        """The interpolated rotations at one time or a vector of times."""
        given = rnp.astype(as_tensor(times), self.times.dtype)
        if given.ndim > 1:
            _wrong_shape(f"the times are {given.type}", "give one time or a vector")
        line = rnp.atleast_1d(given)
        last = self.times.shape[0] - 2
        i = rnp.clip(rnp.searchsorted(self.times, line) - 1, 0, last)
        share = (line - self.times[i]) / self.timedelta[i]
        made = self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * share[:, None])
        return made[0] if given.ndim == 0 else made


def _axes_of(seq: str, counts: tuple[int, ...]) -> tuple[list[int], bool]:
    """The numbers of axes, and whether they turn along."""
    if not isinstance(seq, str):
        raise wrong("from_euler: seq", seq, "a text of axes", 'write "xyz"')
    is_intrinsic = re.fullmatch("[XYZ]+", seq) is not None
    is_known = is_intrinsic or re.fullmatch("[xyz]+", seq) is not None
    is_twice = any(a == b for a, b in itertools.pairwise(seq))
    if not is_known or is_twice or len(seq) not in counts:
        raise ArgumentError(
            f"Rotation: there are no angles around {seq!r}",
            fix=f"give {' or '.join(map(str, counts))} of the letters xyz, or of XYZ, "
            "none twice in a row",
        )
    return ["xyz".index(letter) for letter in seq.lower()], is_intrinsic


def _wrong_shape(what: str, fix: str) -> NoReturn:
    raise ShapeError(f"Rotation: {what}", fix=fix)


register_attributes(Rotation, ("quat",))
register_attributes(Slerp, ("times", "timedelta", "rotations", "rotvecs"))


# -- unit quaternions (x, y, z, w) along the last axis, and other forms ----------------------------


def _length(x: Any) -> Array:
    """The length along the last axis, which stays; the slope at 0 is 0."""
    square = rnp.sum(rnp.square(x), axis=-1, keepdims=True)
    is_zero = square == 0
    return rnp.where(is_zero, 0.0, rnp.sqrt(rnp.where(is_zero, 1.0, square)))


def _normalized(x: Any) -> Array:
    """The unit quaternion."""
    return x / _length(x)


def _product(p: Any, q: Any) -> Array:
    """The rotation by q, then by p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    u, v = rnp.broadcast_arrays(u, v)
    w = a * b - rnp.sum(u * v, axis=-1, keepdims=True)
    return rnp.concatenate([a * v + b * u + rnp.cross(u, v), w], axis=-1)


def _canonical(x: Any) -> Any:
    """The one of both quaternions whose first nonzero of w, x, y, z is positive."""
    sign = rnp.zeros_like(x[..., :1])
    for i in (3, 0, 1, 2):
        sign = rnp.where(sign == 0, rnp.sign(x[..., i : i + 1]), sign)
    return rnp.where(sign < 0, -x, x)


def _as_matrix(x: Any) -> Array:
    """The orthogonal matrix."""
    a, b, c, w = (x[..., i] for i in range(4))
    rows = [
        [a * a - b * b - c * c + w * w, 2 * (a * b - c * w), 2 * (a * c + b * w)],
        [2 * (a * b + c * w), b * b - a * a - c * c + w * w, 2 * (b * c - a * w)],
        [2 * (a * c - b * w), 2 * (b * c + a * w), c * c - a * a - b * b + w * w],
    ]
    return rnp.stack([rnp.stack(row, axis=-1) for row in rows], axis=-2)


def _from_matrix(m: Any) -> Array:
    """The rotation by a matrix, by the one of four formulas with the largest divisor."""
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
    return _normalized(result)


def _from_vector(v: Any) -> Array:
    """The rotation around a vector by its length."""
    angle = _length(v)
    square = angle * angle
    is_small = angle <= SMALL
    safe = rnp.where(is_small, 1.0, angle)
    series = 0.5 - square / 48 + square * square / 3840
    scale = rnp.where(is_small, series, rnp.sin(safe / 2) / safe)
    return rnp.concatenate([scale * v, rnp.cos(angle / 2)], axis=-1)


def _as_vector(x: Any) -> Array:
    """The axis times the angle, which is at most pi."""
    x = rnp.where(x[..., 3:] < 0, -x, x)
    angle = 2.0 * rnp.arctan2(_length(x[..., :3]), x[..., 3:])
    square = angle * angle
    is_small = angle <= SMALL
    safe = rnp.where(is_small, 1.0, angle)
    series = 2 + square / 12 + 7 * square * square / 2880
    return rnp.where(is_small, series, safe / rnp.sin(safe / 2)) * x[..., :3]


def _from_turns(axes: Sequence[int], angles: Any, is_intrinsic: bool) -> Array:
    """Turns around axes one after another; intrinsic axes turn along."""
    result: Any = None
    for i, axis in enumerate(axes):
        half = angles[..., i : i + 1] / 2
        unit = np.eye(4)[axis].astype(angles.dtype)
        turn = rnp.sin(half) * unit + rnp.cos(half) * np.eye(4)[3].astype(angles.dtype)
        if result is None:
            result = turn
        else:
            result = _product(result, turn) if is_intrinsic else _product(turn, result)
    return result


def _as_turns(x: Any, axes: Sequence[int], is_intrinsic: bool) -> Array:
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
