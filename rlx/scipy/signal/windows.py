"""Windows for spectra, by the names that SciPy gives them.

They continue beyond their end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as rnp
from ...ir.errors import ArgumentError, ShapeError
from ...trace.apply import as_tensor

# the factors of cos(2 * pi * k * x), with changing signs
COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
SHAPES = ("triang", "bartlett", "cosine", "parzen", "bohman")
WITH_NUMBER = ("kaiser", "gaussian", "tukey", "general_hamming")


def window_of(name: str, window: Any, count: int, dtype: Any) -> Any:
    """The numbers of a window: by its name, or a name and a number, or as given.

    `name` is the function for the error.
    """
    if not isinstance(window, str | tuple):
        given = as_tensor(window)
        if given.shape != (count,):
            raise ShapeError(
                f"{name}: the window is {given.type}, the segments have {count} elements",
                fix=f"give a window of shape ({count},)",
            )
        return given
    kind, *numbers = (window,) if isinstance(window, str) else window
    known = (*COSINES, *SHAPES) if not numbers else WITH_NUMBER
    if kind not in known:
        raise ArgumentError(
            f"{name}: there is no window {window!r}",
            fix=f"use one of {', '.join((*COSINES, *SHAPES))}, or (name, number) "
            f"for one of {', '.join(WITH_NUMBER)}",
        )
    return rnp.asarray(_numbers(kind, numbers, count).astype(dtype))


def _numbers(kind: str, numbers: list[float], count: int) -> np.ndarray:
    if count == 1:
        return np.ones(1)
    i = np.arange(count)
    place = i / count  # the window has its end at place 1, which is the next one's start
    offset = i - count / 2
    if kind in COSINES:
        return _cosines(COSINES[kind], place)
    if kind == "general_hamming":
        return _cosines((numbers[0], 1 - numbers[0]), place)
    if kind == "kaiser":
        edge = np.sqrt(np.maximum(0.0, 1 - np.square(2 * place - 1)))
        return np.i0(numbers[0] * edge) / np.i0(numbers[0])
    if kind == "gaussian":
        return np.exp(-0.5 * np.square(offset / numbers[0]))
    if kind == "tukey":
        return _tukey(numbers[0], place)
    return _shape(kind, i, place, count)


def _cosines(factors: tuple[float, ...], place: np.ndarray) -> np.ndarray:
    terms = [(-1) ** k * a * np.cos(2 * math.pi * k * place) for k, a in enumerate(factors)]
    return np.sum(terms, axis=0)


def _tukey(share: float, place: np.ndarray) -> np.ndarray:
    if share <= 0:
        return np.ones(place.shape)
    edge = np.minimum(np.minimum(place, 1 - place) / (min(share, 1.0) / 2), 1.0)
    return 0.5 - 0.5 * np.cos(math.pi * edge)


def _shape(kind: str, i: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    middle = np.abs(2 * place - 1)
    if kind == "bartlett":
        return 1 - middle
    if kind == "cosine":
        return np.sin(math.pi * (i + 0.5) / (count + 1))
    if kind == "bohman":
        return (1 - middle) * np.cos(math.pi * middle) + np.sin(math.pi * middle) / math.pi
    size = count + 1  # of the window with its end
    if kind == "triang":
        turned = np.minimum(i + 1, size - i)
        return 2 * turned / (size + 1) if size % 2 else (2 * turned - 1) / size
    share = np.abs(i - (size - 1) / 2) / (size / 2)  # parzen
    inner = 1 - 6 * np.square(share) * (1 - share)
    return np.where(share <= ((size - 1) // 4) / (size / 2), inner, 2 * (1 - share) ** 3)
