"""The vocabulary in which cases and models are written, once for every library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

Function = Callable[..., Any]
Places = dict[str, tuple[int, ...]]


class Lacks(Exception):
    """Says what a library does not have; its case is left out, not failed."""


@dataclass(frozen=True)
class Laid:
    """An array whose axes each library keeps in the order it likes best.

    Given are images as (batch, channel, row, column), kernels as (out, in, row, column), heads of
    attention as (batch, head, time, size) and weights as (in, out).
    """

    array: np.ndarray
    kind: str


class Library(ABC):
    """One library's words for what cases need; `xp` has those under NumPy's names."""

    name: str
    packages: tuple[str, ...]  # whose versions are told
    xp: Any
    places: ClassVar[Places] = {}
    wait: Any = None  # waits for all arrays of a tree, where statements need it
    precise: bool = False  # computes in float64, to be compared with

    # -- arrays and calls -------------------------------------------------------------------------

    def place(self, x: Any) -> Any:
        """An array of the library, from one of NumPy's."""
        if isinstance(x, Laid):
            axes = self.places.get(x.kind)
            x = x.array if axes is None else np.ascontiguousarray(x.array.transpose(axes))
        if self.precise and x.dtype.kind not in "iub":
            x = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        return self.array(x)

    def taken(self, x: Any, kind: str | None = None) -> np.ndarray:
        """An array of NumPy in the order of `Laid`, from one of the library."""
        made = self.numpy(x)
        axes = self.places.get(kind or "")
        return made if axes is None else made.transpose(np.argsort(axes))

    @abstractmethod
    def array(self, x: np.ndarray) -> Any:
        """An array of the library."""

    @abstractmethod
    def numpy(self, x: Any) -> np.ndarray:
        """An array of NumPy."""

    @abstractmethod
    def compile(self, f: Function, loops: bool = False) -> Function:
        """The function as fast as the library makes it.

        `loops` says that it holds long loops, which a library that unrolls must not record.
        """

    def eager(self, f: Function) -> Function:
        """The function as it is, for libraries that run operations one by one."""
        return f

    def model(self, f: Function) -> Function:
        """The same of a function whose first argument, weights, is never another."""
        return self.compile(f)

    @abstractmethod
    def finished(self, call: str, result: Any) -> str:
        """A statement that makes a call and waits for its result."""

    @abstractmethod
    def gradient(self, f: Function, alone: bool = False) -> Function:
        """The value of `f` and its gradient by the first argument, a tree; or that alone."""

    @abstractmethod
    def stream(self, f: Function, state: Any) -> Function:
        """A function that keeps the state: `f(state, ...)` gives (result, next state)."""

    @abstractmethod
    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        """A step of Adam at each call, which keeps the parameters and gives the loss."""

    @abstractmethod
    def vmap(self, f: Function, axes: tuple[int | None, ...]) -> Function:
        """`f` for batches along those axes of its arguments."""

    @abstractmethod
    def scan(self, f: Function, first: Any, xs: Any) -> tuple[Any, Any]:
        """Call `carry, y = f(carry, x)` along axis 0; the last carry and all y."""

    @abstractmethod
    def lstm(self, p: Any, xs: Any) -> Any:
        """All states of an LSTM that begins at 0; see models/recurrent.py."""

    @abstractmethod
    def rnn(self, p: Any, xs: Any) -> Any:
        """All states of a tanh network that begins at 0; see models/recurrent.py."""

    def wide(self, is_wide: bool) -> None:
        """Allow float64, where it must be allowed."""
        return

    def forget(self) -> None:
        """Drop what was compiled."""
        return

    # -- sums, order, places ----------------------------------------------------------------------

    @abstractmethod
    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """Sums along axes."""

    @abstractmethod
    def variance(self, x: Any) -> Any:
        """Along the last axis."""

    @abstractmethod
    def max(self, x: Any, axis: int) -> Any:
        """The largest along an axis."""

    @abstractmethod
    def sort(self, x: Any) -> Any:
        """Sorted along the last axis."""

    @abstractmethod
    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        """The smallest of each row in order, and their places."""

    @abstractmethod
    def scatter_add(self, x: Any, places: Any, values: Any) -> Any:
        """`x` with values added at places of axis 0, which may repeat."""

    @abstractmethod
    def with_element(self, x: Any, place: int, value: Any) -> Any:
        """A copy of `x` with one element replaced."""

    @abstractmethod
    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        """The sum of the rows of each segment."""

    @abstractmethod
    def transposed(self, x: Any) -> Any:
        """The transposition, moved in memory."""

    @abstractmethod
    def astype(self, x: Any, like: Any) -> Any:
        """Converted to the dtype of another array."""

    # -- products ---------------------------------------------------------------------------------

    @abstractmethod
    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        """`x @ weight + bias`."""

    @abstractmethod
    def int8_product(self, x: Any, y: Any) -> Any:
        """The product of int8 matrices, in int32."""

    @abstractmethod
    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        """A convolution of images."""

    @abstractmethod
    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        """A 3x3 transposed convolution that doubles the size of images."""

    # -- layers -----------------------------------------------------------------------------------

    @abstractmethod
    def softmax(self, x: Any) -> Any:
        """Along the last axis."""

    @abstractmethod
    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Along the last axis."""

    @abstractmethod
    def gelu(self, x: Any) -> Any:
        """Through tanh."""

    @abstractmethod
    def relu(self, x: Any) -> Any:
        """At least 0."""

    @abstractmethod
    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""

    @abstractmethod
    def erf(self, x: Any) -> Any:
        """The error function."""

    @abstractmethod
    def heads(self, x: Any, count: int) -> Any:
        """(batch, time, width) as heads of attention."""

    @abstractmethod
    def merged(self, x: Any) -> Any:
        """Heads of attention as (batch, time, width)."""

    @abstractmethod
    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        """Attention of heads; the bool `mask` is (queries, keys)."""

    @abstractmethod
    def written(self, cache: Any, new: Any, position: Any) -> Any:
        """Heads in which new ones stand from a position of time on."""

    @abstractmethod
    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean over rows."""

    @abstractmethod
    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        """Images normalized by each channel, by their own statistics or by those in `p`."""

    @abstractmethod
    def max_pool(self, x: Any) -> Any:
        """Windows of 3x3, every second."""

    @abstractmethod
    def spatial_mean(self, x: Any) -> Any:
        """(batch, channel) from images."""

    @abstractmethod
    def tokens(self, x: Any) -> Any:
        """(batch, pixel, channel) from images."""
