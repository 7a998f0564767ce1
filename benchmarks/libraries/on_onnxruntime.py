"""ONNX Runtime in the words of the benchmarks: programs are recorded as ONNX graphs.

It runs models, so it knows the words of models only. What a tree of inputs holds are weights, which
become part of the model; arrays that stand alone are its inputs.
"""

from __future__ import annotations

from typing import Any, NoReturn, final

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from ..trees import leaves, tree_map
from .library import Function, Lacks, Library

OPSET = 23
NO_WORD = "ONNX Runtime runs models; it is given no other programs here"
NAMED = {"tanh": "Tanh", "exp": "Exp", "sin": "Sin", "sqrt": "Sqrt", "abs": "Abs"}


def lacks(*args: Any, **options: Any) -> NoReturn:
    """Stands for the words it does not know."""
    raise Lacks(NO_WORD)


class Recording:
    """A graph while it is recorded."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def constant(self, x: Any) -> Tensor:
        """A weight."""
        array = np.asarray(x, order="C")
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return Tensor(self, name, array)

    def apply(self, op: str, *inputs: Any, like: np.ndarray, **attributes: Any) -> Tensor:
        """A node whose result has the shape and dtype of an array."""
        named = [x if isinstance(x, Tensor) else self.constant(x) for x in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [x.name for x in named], [name], **attributes))
        return Tensor(self, name, like)


def blank(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array that takes no memory, for its shape and dtype."""
    return np.broadcast_to(np.zeros((), dtype), shape)


@final
class Tensor:
    """A value of the graph; `like` is an array of its shape and dtype."""

    def __init__(self, graph: Recording, name: str, like: np.ndarray) -> None:
        self.graph, self.name, self.like = graph, name, like
        self.shape, self.dtype, self.ndim = like.shape, like.dtype, like.ndim

    def _with(self, op: str, other: Any, swapped: bool = False) -> Tensor:
        other = other if isinstance(other, Tensor) else np.asarray(other, self.dtype)
        pair = (other, self) if swapped else (self, other)
        shape = np.broadcast_shapes(self.shape, other.shape)
        return self.graph.apply(op, *pair, like=blank(shape, self.dtype))

    def __add__(self, other: Any) -> Tensor:
        return self._with("Add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._with("Add", other, True)

    def __sub__(self, other: Any) -> Tensor:
        return self._with("Sub", other)

    def __mul__(self, other: Any) -> Tensor:
        return self._with("Mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._with("Mul", other, True)

    def __truediv__(self, other: Any) -> Tensor:
        return self._with("Div", other)

    def __neg__(self) -> Tensor:
        return self.graph.apply("Neg", self, like=self.like)

    def __matmul__(self, other: Any) -> Tensor:
        rows = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        shape = (*rows, self.shape[-2], other.shape[-1])
        return self.graph.apply("MatMul", self, other, like=blank(shape, self.dtype))

    @property
    def T(self) -> Tensor:
        """The transposition of a matrix."""
        return self.transposed(1, 0)

    def transposed(self, *axes: int) -> Tensor:
        """The axes in another order."""
        return self.graph.apply("Transpose", self, like=self.like.transpose(axes), perm=axes)

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        """The same numbers in another shape."""
        like = blank(shape, self.dtype)
        return self.graph.apply("Reshape", self, np.array(shape, np.int64), like=like)

    def __getitem__(self, item: Any) -> Tensor:
        if isinstance(item, Tensor):
            like = blank((*item.shape, *self.shape[1:]), self.dtype)
            return self.graph.apply("Gather", self, item, like=like)
        items = item if isinstance(item, tuple) else (item,)
        if None in items:
            lacks()
        before = self.ndim - len(items) + 1 if items[0] is ... else 0
        places = range(before, self.ndim) if items[0] is ... else range(len(items))
        made = self
        for axis, one in reversed(
            list(zip(places, [i for i in items if i is not ...], strict=False))
        ):
            made = made._taken(axis, one)
        return made

    def _taken(self, axis: int, item: Any) -> Tensor:
        """An integer or a slice along one axis."""
        if isinstance(item, int):
            like = self.like.take(item, axis)
            return self.graph.apply("Gather", self, np.array(item, np.int64), like=like, axis=axis)
        start, stop, _ = item.indices(self.shape[axis])
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        if shape == self.shape:
            return self
        bounds = [np.array([n], np.int64) for n in (start, stop, axis)]
        return self.graph.apply("Slice", self, *bounds, like=blank(shape, self.dtype))


class Names:
    """The names of NumPy that models use."""

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in NAMED:
            raise Lacks(NO_WORD)
        return lambda x: x.graph.apply(NAMED[name], x, like=x.like)

    def mean(self, x: Tensor, axis: int) -> Tensor:
        """Along one axis."""
        axes = np.array([axis], np.int64)
        return x.graph.apply("ReduceMean", x, axes, like=x.like.mean(axis), keepdims=0)

    def broadcast_to(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The same numbers for every new place."""
        return x.graph.apply("Expand", x, np.array(shape, np.int64), like=blank(shape))

    def concatenate(self, xs: list[Tensor], axis: int) -> Tensor:
        """One behind the other."""
        like = np.concatenate([x.like for x in xs], axis)
        return xs[0].graph.apply("Concat", *xs, like=like, axis=axis)


def recorded(f: Function, given: tuple[Any, ...]) -> bytes:
    """The model of a function, for arguments like these."""
    graph, inputs, args = Recording(), [], []
    for i, x in enumerate(given):
        if isinstance(x, np.ndarray):
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            inputs.append(helper.make_tensor_value_info(f"x{i}", kind, x.shape))
            args.append(Tensor(graph, f"x{i}", x))
        else:
            args.append(tree_map(graph.constant, x))
    outputs = [
        helper.make_tensor_value_info(y.name, helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
        for y in leaves(f(*args))
    ]
    made = helper.make_graph(graph.nodes, "program", inputs, outputs, graph.weights)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@final
class Onnxruntime(Library):
    """Models whose inputs and results are arrays of NumPy."""

    name, packages = "onnxruntime", ("onnxruntime",)
    xp = Names()

    def array(self, x: np.ndarray) -> Any:
        return np.array(x)

    def numpy(self, x: Any) -> np.ndarray:
        return x

    def compile(self, f: Function, loops: bool = False) -> Function:
        if loops:
            lacks()
        kept: list[Any] = []

        def call(*args: Any) -> Any:
            if not kept:
                kept.append(onnxruntime.InferenceSession(recorded(f, args)))
            feeds = {f"x{i}": x for i, x in enumerate(args) if isinstance(x, np.ndarray)}
            return kept[0].run(None, feeds)

        return call

    def finished(self, call: str, result: Any) -> str:
        return call

    eager = vmap = gradient = stream = trainer = scan = lstm = rnn = lacks
    with_element = variance = sum = max = sort = smallest = scatter_add = segment_sum = lacks
    int8_product = written = cross_entropy = lacks

    def transposed(self, x: Any) -> Any:
        return x.T

    def astype(self, x: Any, like: Any) -> Any:
        return x

    # -- products ---------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return x @ weight + bias

    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        rows, columns = ((n + 2 * pad - kernel.shape[2]) // stride + 1 for n in x.shape[2:])
        return x.graph.apply(
            "Conv",
            x,
            kernel,
            like=blank((x.shape[0], kernel.shape[0], rows, columns)),
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
        )

    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        shape = (x.shape[0], kernel.shape[1], 2 * x.shape[2], 2 * x.shape[3])
        pads = {"pads": [1] * 4, "output_padding": [1, 1], "strides": [2, 2]}
        return x.graph.apply("ConvTranspose", x, kernel, like=blank(shape), **pads)

    # -- layers -----------------------------------------------------------------------------------

    def softmax(self, x: Any) -> Any:
        return x.graph.apply("Softmax", x, like=x.like, axis=-1)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return x.graph.apply("LayerNormalization", x, scale, bias, like=x.like, epsilon=1e-5)

    def gelu(self, x: Any) -> Any:
        return x.graph.apply("Gelu", x, like=x.like, approximate="tanh")

    def relu(self, x: Any) -> Any:
        return x.graph.apply("Relu", x, like=x.like)

    def sigmoid(self, x: Any) -> Any:
        return x.graph.apply("Sigmoid", x, like=x.like)

    def erf(self, x: Any) -> Any:
        return x.graph.apply("Erf", x, like=x.like)

    def heads(self, x: Any, count: int) -> Any:
        parts = x.reshape((*x.shape[:2], count, x.shape[2] // count))
        return parts.transposed(0, 2, 1, 3)

    def merged(self, x: Any) -> Any:
        batch, count, time, size = x.shape
        return x.transposed(0, 2, 1, 3).reshape((batch, time, count * size))

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        if mask is not None:
            lacks()
        return q.graph.apply("Attention", q, k, v, like=q.like, is_causal=int(causal))

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        parts = [p[key] for key in ("scale", "bias", "mean", "var")]
        return x.graph.apply("BatchNormalization", x, *parts, like=x.like, epsilon=1e-5)

    def max_pool(self, x: Any) -> Any:
        like = blank((*x.shape[:2], (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2))
        windows = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        return x.graph.apply("MaxPool", x, like=like, **windows)

    def spatial_mean(self, x: Any) -> Any:
        mean = x.graph.apply("GlobalAveragePool", x, like=blank((*x.shape[:2], 1, 1)))
        return mean.reshape(x.shape[:2])

    def tokens(self, x: Any) -> Any:
        batch, channels, rows, columns = x.shape
        return x.reshape((batch, channels, rows * columns)).transposed(0, 2, 1)
