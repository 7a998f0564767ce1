"""What `fuzz_signatures.py` puts in the place of arguments, and calls that it starts from."""

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

CALLS = """
rlx.array(a)
rlx.asarray(a)
rlx.asarray(a, 'float32', copy=True)
rlx.jit(sin)
rlx.jit(sin, static_argnums=(), donate_argnums=(), dynamic=None, device='cpu')
rlx.jit(sin)(a)
rlx.jit(lambda x, n: x * n, static_argnums=1)(a, 2)
rlx.jit(lambda x, n: x * n, static_argnames='n')(a, n=2)
rlx.jit(sin, dynamic={'x': {0: 'n'}})(a)
rlx.jit(sin).lower(a)
rlx.jit(sin).lower(a).compile()
rlx.grad(square_sum)
rlx.grad(square_sum, argnums=0, has_aux=False)(a)
rlx.grad(square_sum)(a)
rlx.value_and_grad(square_sum)(a)
rlx.vmap(sin)
rlx.vmap(sin, in_axes=0, out_axes=0, axis_size=3, axis_name='i')(a)
rlx.vmap(sin)(a)
rlx.jvp(sin, (a,), (a,))
rlx.vjp(sin, a)
rlx.vjp(sin, a)[1](a)
rlx.linearize(sin, a)
rlx.linearize(sin, a)[1](a)
rlx.linear_transpose(lambda x: x * 2, a)(a)
rlx.jacfwd(sin)(b)
rlx.jacrev(sin, argnums=0)(b)
rlx.hessian(square_sum, argnums=0)(b)
rlx.hvp(square_sum, (a,), (a,))
rlx.checkpoint(sin, policy=None)(a)
rlx.remat(sin)(a)
rlx.stop_gradient(a)
rlx.checkpoint_name(a, 'x')
rlx.custom_jvp(sin)(a)
rlx.custom_vjp(sin)
rlx.custom_gradient(lambda x: (x, lambda g: g))(a)
rlx.custom_root(lambda x: x * x - 2, v, lambda f, x: x, lambda g, y: y / 2)
rlx.custom_linear_solve(lambda x: 2 * x, v, lambda f, b: b / 2)
rlx.custom_op(np_sin, elementwise=True)
rlx.closure_convert(sin, a)
rlx.fwd_and_bwd(sin, (0,))
rlx.cond(m[0, 0], sin, sin, a)
rlx.switch(si, [sin, sin, sin], a)
rlx.while_loop(lambda x: x < 3, lambda x: x + 1, 0)
rlx.while_loop(lambda x: x < 3, lambda x: x + 1, 0, max_steps=5)
rlx.fori_loop(0, 3, lambda i, x: x + i, 0)
rlx.scan(lambda c, x: (c + x, c), b, a)
rlx.scan(lambda c, x: (c + x, c), b, a, length=3, reverse=False, unroll=1)
rlx.map(sin, a)
rlx.map(sin, a, batch_size=2)
rlx.associative_scan(rnp.add, a, reverse=False, axis=0)
rlx.make_graph(sin)(a)
rlx.make_jaxpr(sin)(a)
rlx.eval_shape(sin, a)
rlx.spec((2, 3), 'float32')
rlx.typeof(a)
rlx.dim('n', min=1, max=9)
rlx.named_call(sin, name='x')(a)
rlx.named_scope('x')
rlx.check(m[0, 0] | True, 'text')
rlx.pure_callback(np_sin, rlx.spec((3, 4)), a)
rlx.io_callback(np_sin, rlx.spec((3, 4)), a, ordered=False)
rlx.disable_jit(True)
rlx.no_recompile(sin)
rlx.device_get(a)
rlx.device_put(a, 'cpu')
rlx.block_until_ready(a)
rlx.device('cpu')
rlx.devices()
rlx.precision('mixed_bf16')
rlx.nan_check(sin)(a)
rlx.show(sin)(a)
rlx.verify(sin)(a)
rlx.time_ns(lambda: 1, 1)
rlx.explain_device(sin, a)
rlx.Policy('float32')
rlx.P('x', None)
rlx.Mesh((1,), ('x',))
rlx.NamedSharding(rlx.Mesh((1,), ('x',)), rlx.P('x'))
rlx.CompileOptions()
rlx.Session('cpu', capacity=3)
rlx.Session('cpu').compile(sin, a)
rlx.Session('cpu').compile(sin, a)(a)
rlx.Tick()
rlx.debug(1)
rlx.debug.print('x {}', a)
rlx.debug.callback(lambda x: None, a)
rlx.export(sin, rlx.spec((3, 4)))
rlx.load_exported('missing.rlx')
rlx.from_jax(sin)
rlx.to_jax(sin)
rlx.to_stablehlo(sin, rlx.spec((3, 4)))
rlx.testing.check_grads(sin, (a,))
rlx.testing.check_op(rlx.custom_op(np_sin, elementwise=True), i, order=1)
rlx.testing.check_grads(sin, (a,), order=1, modes=('fwd',), atol=1e-2, rtol=1e-2)
rlx.tree.map(sin, {'w': a})
rlx.tree.map(rnp.add, {'w': a}, {'w': a})
rlx.tree.map(sin, {'w': a}, is_leaf=lambda x: False)
rlx.tree.leaves({'w': a}, is_leaf=lambda x: False)
rlx.tree.flatten({'w': a})
rlx.tree.unflatten(rlx.tree.structure({'w': 0}), [a])
rlx.tree.structure({'w': a})
rlx.tree.reduce(rnp.add, {'w': a}, 0)
rlx.tree.reduce(rnp.add, [a, a])
rlx.tree.all({'w': True})
rlx.tree.transpose(rlx.tree.structure([0, 0]), rlx.tree.structure({'a': 0}), [{'a': 1}, {'a': 2}])
rlx.tree.map_with_path(lambda p, x: x, {'w': a})
rlx.tree.leaves_with_path({'w': a})
rlx.tree.flatten_with_path({'w': a})
rlx.tree.broadcast(1, {'w': a})
rlx.tree_util.tree_map(sin, {'w': a})
rlx.tree_util.tree_flatten({'w': a})
rlx.tree_util.tree_unflatten(rlx.tree_util.tree_structure({'w': 0}), [a])
rlx.tree_util.tree_leaves({'w': a}, lambda x: False)
rlx.tree_util.tree_structure({'w': a})
rlx.tree_util.tree_all({'w': True})
rlx.tree_util.tree_transpose(rlx.tree.structure([0]), rlx.tree.structure({'a': 0}), [{'a': 1}])
rlx.tree_util.tree_reduce(rnp.add, {'w': a}, 0)
rlx.tree_util.tree_reduce_associative(rnp.add, {'w': a})
rlx.tree_util.tree_broadcast(1, {'w': a})
rlx.tree_util.tree_map_with_path(lambda p, x: x, {'w': a})
rlx.tree_util.tree_flatten_with_path({'w': a})
rlx.tree_util.tree_leaves_with_path({'w': a})
rlx.tree_util.treedef_children(rlx.tree_util.tree_structure({'w': 0}))
rlx.tree_util.treedef_is_leaf(rlx.tree_util.tree_structure({'w': 0}))
rlx.tree_util.treedef_tuple([rlx.tree_util.tree_structure({'w': 0})])
rlx.tree_util.all_leaves([1, 2])
rlx.tree_util.keystr((rlx.tree_util.DictKey('a'),))
rlx.tree_util.Partial(sin, a)
rlx.tree_util.register_dataclass(Plain, ['x'], [])
rlx.tree_util.register_static(Plain2)
rlx.tree_util.register_pytree_node(type('P', (), {}), lambda x: ((), None), lambda *x: None)
rlx.tree_util.register_pytree_with_keys(type('P', (), {}), lambda x: ((), None), lambda *x: None)
rlx.clear_caches()
rlx.flatten_util.ravel_pytree({'w': a})
rlx.flatten_util.ravel_pytree({'w': a})[1](rnp.ones(12))
rlx.image.resize(a, (5, 5), 'linear')
rlx.image.scale_and_translate(a, (5, 5), (0, 1), b[:2], b[:2], 'linear')
rlx.ops.segment_sum(v, k4, 3)
rlx.ops.segment_sum(v[:4], k4, num_segments=3, indices_are_sorted=False, mode=None)
rlx.ops.segment_max(v[:4], k4, num_segments=3)
rlx.ops.segment_min(v[:4], k4, num_segments=3)
rlx.ops.segment_prod(v[:4], k4, num_segments=3)
rlx.nn.Linear(3, 4, key=K)
rlx.nn.Linear(3, 4, key=K)(t3[:, :, :3])
rlx.nn.Conv(3, 4, 3, key=K)
rlx.nn.Conv(3, 4, 3, stride=1, padding='SAME', key=K)(img)
rlx.nn.ConvTranspose(3, 4, 3, key=K)
rlx.nn.AvgPool(2)(img)
rlx.nn.MaxPool(2, stride=2)(img)
rlx.nn.Dropout(0.5)(a, key=K)
rlx.nn.Embedding(5, 4, key=K)
rlx.nn.Embedding(5, 4, key=K)(k)
rlx.nn.LayerNorm(4)(a)
rlx.nn.RMSNorm(4)(a)
rlx.nn.MLP(4, 5, 2, key=K)
rlx.nn.MLP([4, 5, 2], key=K)
rlx.nn.Sequential([sin])
rlx.nn.Sequential([sin])(a)
rlx.nn.Lambda(sin)(a)
rlx.nn.avg_pool(img, 2)
rlx.nn.max_pool(img, (2, 2))
rlx.nn.min_pool(img, (2, 2))
rlx.nn.layer_norm(a, b, b, 1e-5)
rlx.nn.rms_norm(a, b)
rlx.nn.quantize(a, s)
rlx.nn.dequantize(i8, s)
rlx.nn.fake_quantize(a, s)
rlx.nn.quantization_scale(a)
rlx.nn.losses.cross_entropy(a, k)
rlx.nn.losses.binary_cross_entropy(a, up)
rlx.nn.losses.huber(a, p)
rlx.nn.losses.mean_absolute_error(a, p)
rlx.nn.losses.mean_squared_error(a, p)
rlx.optim.sgd(0.1)
rlx.optim.sgd(0.1, momentum=0.9).init({'w': a})
rlx.optim.sgd(0.1).update({'w': a}, rlx.optim.sgd(0.1).init({'w': a}), {'w': a})
rlx.optim.adam(0.1, b1=0.9, b2=0.99, eps=1e-8)
rlx.optim.adam(0.1).init({'w': a})
rlx.optim.adam(0.1).update({'w': a}, rlx.optim.adam(0.1).init({'w': a}), {'w': a})
rlx.optim.adamw(0.1, weight_decay=0.1)
rlx.optim.adamw(0.1, weight_decay=0.1, mask=None).init({'w': a})
rlx.optim.rmsprop(0.1)
rlx.optim.chain(rlx.optim.scale(0.1), rlx.optim.sgd(0.1))
rlx.optim.apply_updates({'w': a}, {'w': a})
rlx.optim.clip_by_global_norm(1.0)
rlx.optim.clip_by_value(1.0)
rlx.optim.global_norm({'w': a})
rlx.optim.scale(0.1)
rlx.optim.all_finite({'w': a})
rlx.optim.choose(True, {'w': a}, {'w': a})
rlx.optim.add_decay(0.1)
rlx.optim.add_momentum(0.9)
rlx.optim.scale_by_adam(0.9, 0.99)
rlx.optim.scale_by_rms(0.9)
rlx.optim.scale_by_learning_rate(0.9)
rlx.optim.DynamicLossScale()
rlx.optim.StaticLossScale(8.0)
rlx.optim.schedules.constant(0.1)
rlx.optim.schedules.cosine(0.1, 10)(3)
rlx.optim.schedules.exponential(0.1, 0.5, 10)(3)
rlx.optim.schedules.linear(0.1, 0.2, 10)(3)
rlx.optim.schedules.piecewise([0.1, 0.2], [5])
rlx.optim.schedules.warmup(0.1, 10)
rlx.optim.schedules.warmup_cosine(0.1, 10, 100)
rlx.random.key(0)
rlx.random.key(0, impl='threefry2x32')
rlx.random.stream(K)
rlx.random.wrap_key_data(K)
rlx.random.key_impl(K)
rlx.scipy.signal.convolve(v, r)
rlx.scipy.signal.convolve2d(a, A)
rlx.scipy.signal.correlate(v, r, 'same')
rlx.scipy.signal.csd(v, v)
rlx.scipy.signal.welch(v, 1.0, 'hann', 4)
rlx.scipy.signal.stft(v, nperseg=4)
rlx.scipy.signal.istft(c, nperseg=4)
rlx.scipy.signal.detrend(v)
rlx.scipy.signal.fftconvolve(v, r)
rlx.scipy.cluster.vq.vq(a, p)
rlx.scipy.fft.dct(a, 2, 4, -1, 'ortho')
rlx.scipy.fft.idct(a)
rlx.scipy.fft.dctn(a, axes=(0, 1))
rlx.scipy.fft.idctn(a)
rlx.scipy.integrate.trapezoid(v, dx=1.0, axis=-1)
rlx.scipy.interpolate.RegularGridInterpolator((o,), o)
rlx.scipy.interpolate.RegularGridInterpolator((o,), o)(o)
rlx.scipy.ndimage.map_coordinates(a, [v, v], 1)
rlx.scipy.optimize.minimize(lambda x: (x * x).sum(), v, method='BFGS', tol=1e-3)
rlx.scipy.stats.mode(i)
rlx.scipy.stats.rankdata(v)
rlx.scipy.stats.sem(a)
rlx.scipy.stats.gaussian_kde(v)
rlx.scipy.stats.gaussian_kde(v)(v)
rlx.scipy.stats.norm.logpdf(a, 0.0, 1.0)
rlx.scipy.stats.norm.cdf(a)
rlx.scipy.stats.gamma.logpdf(p, 2.0)
rlx.scipy.stats.beta.logpdf(up, 2.0, 3.0)
rlx.scipy.stats.binom.logpmf(n, 8, 0.5)
rlx.scipy.stats.multivariate_normal.logpdf(y3, y3, S)
rlx.scipy.stats.dirichlet.logpdf(y3, y3)
rlx.scipy.sparse.linalg.cg(S, y3)
rlx.scipy.sparse.linalg.gmres(S, y3)
rlx.scipy.sparse.linalg.bicgstab(S, y3)
rlx.scipy.spatial.transform.Rotation.from_quat(a[:, :4])
rlx.scipy.spatial.transform.Rotation.from_euler('xyz', y3)
rlx.scipy.spatial.transform.Rotation.from_rotvec(y3)
rlx.scipy.spatial.transform.Rotation.from_quat(a[:, :4]).apply(y3)
rlx.scipy.spatial.transform.Slerp(y3, rlx.scipy.spatial.transform.Rotation.from_quat(a))
rlx.scipy.linalg.circulant(v)
rlx.scipy.linalg.companion(v)
rlx.scipy.linalg.convolution_matrix(v, 4)
rlx.scipy.linalg.dft(4)
rlx.scipy.linalg.eigh_tridiagonal(v, v[1:])
rlx.scipy.linalg.expm_frechet(A, S)
rlx.scipy.linalg.fiedler(v)
rlx.scipy.linalg.fiedler_companion(v)
rlx.scipy.linalg.funm(A, sin)
rlx.scipy.linalg.hadamard(4)
rlx.scipy.linalg.hankel(v, v)
rlx.scipy.linalg.helmert(4)
rlx.scipy.linalg.hessenberg(A)
rlx.scipy.linalg.hilbert(4)
rlx.scipy.linalg.invhilbert(4)
rlx.scipy.linalg.invpascal(4)
rlx.scipy.linalg.pascal(4)
rlx.scipy.linalg.leslie(v, v[1:])
rlx.scipy.linalg.polar(A)
rlx.scipy.linalg.qr_multiply(A, A)
rlx.scipy.linalg.rsf2csf(A, A)
rlx.scipy.linalg.schur(A)
rlx.scipy.linalg.solve_sylvester(A, A, A)
rlx.scipy.linalg.sqrtm(S)
rlx.scipy.linalg.toeplitz(v, v)
rnp.load('missing.npz')
rnp.savez('out.npz', a=a)
rnp.save('out.npy', a)
rnp.fromiter([1, 2], 'float32')
rnp.fromfile('missing', 'float32')
rnp.view(a, 'int32')
rnp.putmask(a, m, 1)
rnp.printoptions(precision=3)
rnp.ufunc(sin, 1, 1)
a.sum(axis=0)
a.mean(axis=0, dtype='float32')
a.reshape(4, 3)
a.reshape((4, 3))
a.transpose(1, 0)
a.astype('float16')
a.at[0].set(b)
a.at[0, k].add(1.0)
a.at[0].get(mode='fill', fill_value=0)
a.at[0].apply(sin)
a.to('cpu')
a.argmax(axis=1)
a.max(axis=1)
a.std(axis=1, ddof=1)
a.sort(axis=1)
a.take(k, axis=0)
a.repeat(2, axis=0)
a.squeeze(axis=())
a.round(2)
a.clip(0, 1)
a.dot(w)
a.flatten()
a.ravel()
a.view('int32')
a.item(0)
a.swapaxes(0, 1)
a.cumsum(axis=0)
a.__getitem__(0)
a.__add__(b)
a.__matmul__(w)
a.__pow__(2)
a.__setitem__(0, 1.0)
"""
