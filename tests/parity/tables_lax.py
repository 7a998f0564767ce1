"""`jax.lax`: nothing is promoted there."""

LAX: dict[str, str] = {}

LAX["elements"] = """
abs: a ; c ; i ; h ; s
acos: u ; s
acosh: big
asin: u
asinh: a ; h
atan: a ; h
atanh: u
bitwise_not: i ; m ; q
cbrt: a ; h
ceil: a ; h
clz: i ; q
cos: a ; c ; h
cosh: a ; c
erf: a ; h ; s
erf_inv: u
erfc: a ; h
exp: a ; c ; h ; z
exp2: a ; h
expm1: a ; h
floor: a ; h
imag: c
is_finite: F
log: p ; c ; hp
log1p: p ; hp
logistic: a ; h ; c
neg: a ; i ; c ; q
population_count: q ; uw
real: c
reciprocal: p ; hp
rsqrt: p ; hp ; c
sign: a ; i ; c
sin: a ; c ; h
sinh: a ; h
sqrt: p ; c ; hp
square: a ; i ; c
tan: u ; h
tanh: a ; h ; c
conj: c ; a
integer_pow: a, 3 ; p, -2 ; i, 2 ; c, 3 ; a, 0
round: half ; half, RoundingMethod.TO_NEAREST_EVEN ; h
add: a, p ; a, 1.0 ; i, 3 ; c, c ; h, h ; s, a ; 1, 2
sub: a, p ; i, j ; c, c ; a, 1.0
mul: a, p ; i, j ; c, c ; h, h ; 2, i
div: a, p ; i, j ; c, c ; 1.0, p ; q, q[::-1] + 1
rem: a, p ; i, j
max: a, p ; i, j ; a, 0.0 ; m, m ; c, c
min: a, p ; i, j ; F, 1.0
pow: p, a ; a, 2 ; p, i ; c, c ; a, i
atan2: a, p ; h, hp
complex: a, p ; a, 0.0
nextafter: a, p
bitwise_and: i, j ; m, m ; i, 7
bitwise_or: i, j ; m, m
bitwise_xor: i, j ; m, m
shift_left: i, 2 ; q, q
shift_right_arithmetic: i, 2 ; i, 40
shift_right_logical: i, 2 ; uw, xp.uint32(3)
eq: a, p ; i, j ; c, c ; m, m
ne: a, p ; i, j
lt: a, p ; i, 0
le: a, p
gt: a, 0.0
ge: i, j
select: m, a, p ; si < 5, a, p ; m, i, j ; m, c, c
select_n: m, a, p ; rem(abs(i), 3), a, p, u ; si, a, p, u
clamp: -0.5, a, 0.5 ; neg(abs(a)), u, abs(a) ; 0, i, 4 ; s, a, p
convert_element_type: a, 'int32' ; i, 'float16' ; m, 'float32' ; a, bool ; 2, 'float32'
bitcast_convert_type: a, 'int32' ; i, 'uint8' ; q, 'int8' ; a, 'uint16'
reduce_precision: a, 5, 10 ; a, 8, 7 ; h, 4, 3
lgamma: p ; a ; hp
digamma: p ; a ; hp
polygamma: full_like(p, 2.0), p ; full_like(p, 1.0), p
zeta: add(p, 1.0), p
igamma: p, abs(a)
igammac: p, abs(a)
igamma_grad_a: p, abs(a)
random_gamma_grad: p, abs(a)
betainc: p, p2, up
bessel_i0e: a ; hp
bessel_i1e: a
mulhi: i, j ; uw, uw
"""

LAX["shapes"] = """
broadcast: a, (2,) ; s, (2, 3)
broadcast_in_dim: b, (3, 4), (1,) ; col, (3, 4, 2), (0, 1)
broadcast_shapes: (2, 1), (1, 3)
broadcast_to_rank: a, 4
broadcast_like: b, a
broadcasted_iota: 'int32', (2, 3), 1 ; 'float32', (2, 3), 0
iota: 'float32', 4 ; 'int32', 3
collapse: t3, 1 ; t3, 0, 2
concatenate: [a, p], 1 ; [i, j], 0 ; [z, a], 0
expand_dims: a, (0, 2) ; a, (-1,)
full: (2, 2), 3.0 ; (2,), 3, 'uint8' ; (2,), s ; (3,), 2
full_like: a, 7 ; i, 2, shape=(3,) ; a, 1, 'int32'
empty: (2, 2), 'int32'
index_in_dim: t3, 1, 1 ; t3, -1, 2, keepdims=False
pad: a, 1.0, [(1, 0, 0), (0, 2, 1)] ; i, 0, [(-1, 0, 0), (0, -1, 2)] ; a, s, [(0, 0, 0), (1, 1, 0)]
reshape: t3, (4, 6) ; a, (12,), (1, 0) ; z, (0,)
rev: t3, (0, 2) ; i, (1,)
slice: t3, (0, 1, 0), (2, 3, 4), (1, 1, 2) ; a, (1, 0), (2, 2)
slice_in_dim: v, 1, -1, 2 ; t3, None, 2, axis=-1
split: v, (2, 4) ; t3, (1, 3), axis=2
squeeze: col, (1,) ; col, (-1,)
stack: [a, p], 1
unstack: t3, 1
tile: a, (2, 1)
transpose: t3, (2, 0, 1) ; c, (1, 0)
conv_dimension_numbers: (2, 3, 6, 7), (4, 3, 3, 2), None ; (2, 6, 7, 3), (3, 2, 3, 4), ('NHWC',
    'HWIO', 'NHWC')
padtype_to_pads: (5, 6), (3, 3), (1, 2), 'SAME' ; (5,), (2,), (1,), 'VALID'
conv_shape_tuple: (2, 3, 6, 7), (4, 3, 3, 2), (1, 1), 'SAME'
conv_general_shape_tuple: (2, 6, 7, 3), (3, 2, 3, 4), (1, 2), 'VALID', ('NHWC', 'HWIO', 'NHWC')
conv_transpose_shape_tuple: (2, 6, 7, 3), (3, 2, 4, 3), (2, 2), 'SAME', ('NHWC', 'HWOI', 'NHWC')
conv_general_permutations: ('NHWC', 'HWIO', 'NHWC')
reduce_window_shape_tuple: (5, 6), (3, 3), (1, 2), [(0, 0), (1, 1)]
shape_as_value: (2, 3)
"""

LAX["reductions"] = """
reduce_sum: t3, (0, 2) ; i, (0,) ; c, (1,) ; h, (0,)
reduce_prod: a, (1,) ; i, (0, 1) ; c, (0,)
reduce_max: t3, (1,) ; i, (0,)
reduce_min: t3, (0, 1, 2)
reduce_and: m, (0,) ; i, (1,)
reduce_or: m, (1,) ; i, (0,)
reduce_xor: i, (0,) ; m, (1,)
reduce: a, np.float32(0), add, (0,) ; a, np.float32(1), mul, (0, 1) ; i, np.int32(-100), max, (1,) ;
    a, np.float32(0), lambda x, y: x + y - 0.0 * y, (0,) ; (v, iota('int32', 6)), (np.float32(9),
    np.int32(-1)), lambda x, y: (min(x[0], y[0]), select(x[0] < y[0], x[1], y[1])), (0,)
argmax: t3, 1, 'int32' ; i, 0, 'int32' ; N, 1, 'int32'
argmin: a, 0, 'uint8'
cumsum: t3, 1 ; i, 0, reverse=True ; c, 0 ; h, 1
cumprod: a, 1 ; a, 0, True
cummax: a, 1 ; i
cummin: i ; a, 1, reverse=True
cumlogsumexp: t3, 2 ; a, 1, reverse=True
sort: a ; i, 0 ; (i, a), num_keys=1 ; [i, j], 0, num_keys=2 ; F ; h
sort_key_val: v, iota('int32', 6) ; r, b[:1].repeat(5)
top_k: a, 2 ; t3, 1, axis=0 ; i, 2 ; N, 2
approx_max_k: v, 2 ; a, 2, reduction_dimension=0
approx_min_k: v, 2
reduce_window: a, -np.inf, max, (2, 2), (1, 1), 'VALID' ; a, 0.0, add, (2, 3), (1, 2), 'SAME' ; i,
    0, add, (2, 2), (2, 2), 'VALID' ; a, 1.0, mul, (2, 1), (1, 1), 'VALID' ; a, np.inf, min, (2, 2),
    (1, 1), [(1, 0), (0, 1)], (1, 1), (1, 2)
dot: a, w ; v, v ; w, r ; i8, i8.T, preferred_element_type='int32' ; c, c.T ; h, h.T
batch_matmul: t3, t4
dot_general: t3, t3, (((2,), (2,)), ((0,), (0,))) ; t3, t4, (((2,), (1,)), ((0,), (0,))) ; i, j,
    (((1,), (1,)), ((), ()))
ragged_dot: a, xp.stack([w, 2 * w]), xp.array([1, 2])
fft: c, 'FFT', (4,) ; a, 'RFFT', (3, 4) ; c, FftType.IFFT, (4,) ; c, 'IRFFT', (6,)
conv: img, ker, (1, 1), 'SAME' ; img, ker, (2, 1), 'VALID' ; sig, tap, (1,), 'SAME'
conv_with_general_padding: img, ker, (1, 1), [(1, 0), (0, 2)], None, None ; img, ker, (1, 1), [(0,
    1), (1, 0)], (2, 1), (1, 2)
conv_general_dilated: img, ker, (1, 2), 'SAME' ; img, ker, (1, 1), [(0, 1), (1, 0)], (2, 1), (1, 2)
    ; img, ker[:3, :1], (1, 1), 'SAME', feature_group_count=3 ; xp.transpose(img, (0, 2, 3, 1)),
    xp.transpose(ker, (2, 3, 1, 0)), (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC') ;
    img, ker, (1, 1), 'SAME_LOWER' ; img, ker, (1, 1), 'SAME', batch_group_count=2
conv_transpose: xp.transpose(sig, (0, 2, 1)), xp.transpose(tap, (2, 1, 0)), (2,), 'SAME' ;
    xp.transpose(sig, (0, 2, 1)), xp.transpose(tap, (2, 1, 0)), (2,), 'VALID',
    transpose_kernel=False
conv_general_dilated_patches: img, (2, 2), (1, 1), 'VALID' ; sig, (3,), (2,), 'SAME'
conv_general_dilated_local: sig, xp.ones((4, 9, 7)) * s, (1,), 'VALID', (3,)
"""

LAX["indices and control"] = """
dynamic_slice: t3, (0, si, -2), (1, 1, 2) ; v, [7], (3,) ; w, k[:2], (2, 2)
dynamic_slice_in_dim: w, si, 2, 1
dynamic_index_in_dim: t3, si, 1 ; t3, neg(si), -1, keepdims=False
dynamic_update_slice: w, a[:, :2], (1, si)
dynamic_update_slice_in_dim: v, v[:2], 4, 0
dynamic_update_index_in_dim: w, b[:1] + w[0], si, 0
index_take: t3, (k[:2] - 1, k[:2]), (1, 2)
gather: w, k[:, None], GatherDimensionNumbers((1,), (0,), (0,)), (1, 4) ; w, k[:, None] + 2,
    GatherDimensionNumbers((1,), (0,), (0,)), (1, 2), mode='clip' ; w, k[:, None] + 3,
    GatherDimensionNumbers((1,), (0,), (0,)), (1, 5), mode='fill', fill_value=7.0
scatter: w, k[:, None], w[:3], ScatterDimensionNumbers((1,), (0,), (0,))
scatter_add: w, k[:, None] + 2, w[:3], ScatterDimensionNumbers((1,), (0,), (0,)), mode='clip' ; w,
    k[:, None] * 0, w[:3], ScatterDimensionNumbers((1,), (0,), (0,))
scatter_sub: w, k[:, None] * 0, w[:3], ScatterDimensionNumbers((1,), (0,), (0,))
scatter_mul: w, k[:, None], w[:3], ScatterDimensionNumbers((1,), (0,), (0,)), unique_indices=True
scatter_min: w, k[:, None], 0 * w[:3], ScatterDimensionNumbers((1,), (0,), (0,))
scatter_max: w, k[:, None], 0 * w[:3], ScatterDimensionNumbers((1,), (0,), (0,)),
    unique_indices=True
scatter_apply: w, k[:, None], exp, ScatterDimensionNumbers((1,), (0,), (0,)), update_shape=(3, 5),
    unique_indices=True
cond: si > 1, lambda x: x + 1, lambda x: x - 1, a ; False, exp, neg, a ; s > 0, lambda x, y: x * y,
    lambda x, y: x, a, p
switch: si, [neg, exp, square], a ; 9, [neg, exp], a
while_loop: lambda x: xp.sum(x) < 50, lambda x: x * 2 + 1, p
fori_loop: 0, 3, lambda at, x: x * at + 1, a ; 0, si, lambda at, x: x * 2, i
scan: lambda carry, x: (carry + x, carry * x), b, a ; lambda carry, x: (carry * x, None), s, v,
    reverse=True ; lambda carry, x: (carry + 1, carry), 0, None, 3
map: lambda x: x * 2, a ; lambda x: xp.sum(x), t3, batch_size=1
associative_scan: add, a ; mul, p, axis=1 ; max, v, reverse=True
stop_gradient: a ; (a, i)
optimization_barrier: a ; (a, i)
custom_root: lambda x: x * x - s, 1.0 + 0 * s, lambda f, x: fori_loop(0, 20, lambda at, y: y - f(y)
    / (2 * y), x), lambda f, y: y / f(1.0)
custom_linear_solve: lambda x: p[0] * x, b, lambda f, x: x / f(xp.ones(4)), symmetric=True
platform_dependent: a, cpu=exp, default=neg
"""

LAX_LINALG: dict[str, str] = {
    "linear algebra": """
cholesky: S ; S, symmetrize_input=False
cholesky_update: L.T, y3
eig: S ; S, compute_left_eigenvectors=False
eigh: S ; S, lower=False, symmetrize_input=False
householder_product: xp.tril(A, -1), y3
lu: A ; As
lu_pivots_to_permutation: xp.array([1, 2, 2]), 3
qr: A ; a.T, full_matrices=False
svd: a ; a, full_matrices=False ; a, compute_uv=False
symmetric_product: A, S ; A, S, symmetrize_output=True
triangular_solve: L, Y, left_side=True, lower=True ; L, y3[None], lower=True ; L, Y, left_side=True,
    lower=True, transpose_a=True, unit_diagonal=True
tridiagonal_solve: xp.array([0., 1, 2]) * s, y3 + 5, xp.array([1., 2, 0]), Y
"""
}
