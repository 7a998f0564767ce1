"""`jax.numpy`: elements, reductions, shapes, indices.

A line `clip: a, -1, 1 ; i, 0, 3` stands for `clip(a, -1, 1)` and `clip(i, 0, 3)`; a line without a
name before a colon has whole expressions. An indented line goes on with the one before.
"""

NUMPY: dict[str, str] = {}

NUMPY["one number"] = """
exp: a ; h ; i ; c ; s ; z ; m ; g ; 0.5 ; 2
exp2: a ; h ; i ; c ; s ; 2
expm1: a ; h ; i ; c
log: p ; hp ; q ; c ; s ; 2.0
log2: p ; hp ; q ; c
log10: p ; hp ; q ; c
log1p: p ; u ; hp ; q ; c
sqrt: p ; hp ; q ; c ; s ; z ; 4
cbrt: a ; h ; i
sin: a ; h ; i ; c ; s ; z ; m ; g ; 0.5 ; 2
cos: a ; h ; i ; c ; s ; 2
tan: u ; h ; i ; c ; s
arcsin: u ; m ; c
asin: u ; s
arccos: u ; m ; c
acos: u ; s
arctan: a ; h ; i ; c
atan: a ; s
sinh: a ; h ; c
cosh: a ; h ; c
tanh: a ; h ; i ; c ; z
arcsinh: a ; h ; i ; c
asinh: a ; s
arccosh: big ; c
acosh: big
arctanh: u ; m ; c
atanh: u
sinc: a ; h ; i ; c ; o
abs: a ; i ; c ; h ; m ; q ; z ; -2 ; -2.5
absolute: a ; i ; c
fabs: a ; i ; h
sign: a ; i ; c ; h ; q ; 2
square: a ; i ; c ; h ; z
reciprocal: p ; c ; hp
negative: a ; i ; c ; h ; q ; 2
positive: a ; i ; c
signbit: F ; a ; i ; h
floor: a ; h ; i ; half
ceil: a ; h ; i ; half
trunc: a ; h ; i ; half
rint: half ; h ; a ; i
round: half ; a, 2 ; i ; h, 1 ; a, -1 ; c, 1
around: half ; a, 1
isnan: F ; i ; c ; N ; h
isinf: F ; i ; c
isfinite: F ; i ; c
isposinf: F ; i
isneginf: F ; i
isreal: c ; a
iscomplex: c ; a
logical_not: a ; i ; m
invert: i ; m ; q
bitwise_not: i ; m
bitwise_invert: i ; m
bitwise_count: q ; uw ; i
deg2rad: a ; i
rad2deg: a ; i
radians: a
degrees: a
real: c ; a ; i
imag: c ; a
conj: c ; a
conjugate: c ; i
angle: c ; a ; c, deg=True
nan_to_num: F ; N ; i ; F, nan=1.0, posinf=2.0, neginf=-2.0
modf: a ; half ; h
frexp: a ; p ; h
i0: a ; i
spacing: p ; hp
"""

NUMPY["two numbers"] = """
add: a, b ; a, col ; i, 2 ; i, 2.5 ; h, 1.5 ; h, a ; c, 1 ; m, m4 ; i, c ; q, i8 ; s, 1 ; z, b ; 1,
    2 ; i, True
subtract: a, b ; i, j ; h, 1 ; c, a ; q, 3 ; 1, 2.5
multiply: a, b ; i, 2.5 ; m, a ; c, 1j ; h, i ; m, m4 ; a, 1j ; s, s
divide: a, p ; i, j ; i, 2 ; h, 2 ; c, c ; 1, 2
true_divide: a, p ; i, j
floor_divide: a, p ; i, j ; i, 2 ; h, hp ; a, 0.7
remainder: a, p ; i, j ; i, 3 ; h, hp ; a, 0.7
mod: a, p ; i, j
fmod: a, p ; i, j ; h, hp
divmod: a, p ; i, j
power: p, a ; p, 2 ; a, 3 ; i, 2 ; i, k4 ; c, 2 ; hp, h ; 2, a ; p, -1 ; c, c
pow: p, a ; a, 2 ; i, 3
float_power: p, a ; i, 2
arctan2: a, b ; h, 1.5 ; i, j
atan2: a, b
hypot: a, b ; i, j ; h, h
logaddexp: a, b ; h, h ; i, 1.5
logaddexp2: a, b ; h, h
maximum: a, b ; i, 2 ; N, 2 ; h, 0 ; m, m4 ; c, c4
minimum: a, b ; i, 2 ; N, 2 ; h, 0 ; m, m4
fmax: a, b ; N, 2 ; i, 2
fmin: a, b ; N, 2 ; i, 2
copysign: a, b ; i, a ; h, -1.0
nextafter: a, b ; h, h ; p, 0
ldexp: a, k4 ; h, 2
heaviside: a, 0.5 ; i, 1
equal: a, b ; i, 3 ; c, c ; m, m4
not_equal: a, b ; i, 3 ; c, c
less: a, b ; i, 2 ; h, 0.5
less_equal: a, b ; i, j
greater: a, b ; i, 0
greater_equal: a, b ; i, 0
logical_and: a, m ; i, j ; m, True
logical_or: a, m ; i, j
logical_xor: a, m ; i, j
bitwise_and: i, j ; i, 1 ; m, m4 ; q, 15
bitwise_or: i, j ; m, m4
bitwise_xor: i, j ; m, m4
left_shift: i, 2 ; q, k4 ; k4, k4
bitwise_left_shift: i, 2
right_shift: i, 2 ; q, 1 ; uw, 3
bitwise_right_shift: i, 2
gcd: i, j ; i, 6 ; q, q
lcm: i, j ; i, 6
isclose: a, b ; a, a ; F, F, equal_nan=True ; i, j ; a, b, rtol=1.0
allclose: a, a ; a, b ; F, F
array_equal: a, a ; a, b ; F, F ; F, F, equal_nan=True ; i, m
array_equiv: a, b ; a, a[None]
clip: a, -0.5, 0.5 ; a, -1, b ; i, 0, 3 ; h, min=0 ; a, max=0.2 ; a ; i, 0.5, 2
where: m, a, b ; m, a, 0 ; m, 1, 2.5 ; m, 1., 0. ; m, i, h ; m, c, a ; a > 0, 1, i ; m, size=3 ; m,
    size=8, fill_value=-1
select: [m, a > 0], [a, 2 * a], 7.0 ; [m, a > 0], [i, 2 * i] ; [m], [h], 1
piecewise: a, [a < 0, a > 1], [-1, lambda x: x * x, 0.5] ; a, [m], [lambda x: x + 1] ; i, [i < 0],
    [0, lambda x: 2 * x]
unwrap: v ; 3 * a ; i, period=4 ; 3 * a, axis=0, discont=2.0
"""

NUMPY["operators"] = """
a + b ; i - 1 ; a * 2 ; i / 2 ; i // 2 ; i % 3 ; a ** 2 ; p ** 0.5 ; 2 ** k ; 2.0 ** a ; -a ; ~m ;
    +i
a < b ; i >= 0 ; i == 3 ; a != b ; i & 1 ; m | m4 ; i ^ j ; i << k4 ; q >> 1 ; 1 - i ; 3 / p ; 7 //
    j ; 7 % j ; divmod(7, j)
m * a ; h + 1 ; h * i ; q + i8 ; m + m ; a + 1j ; i + 1.5 ; a @ w ; t3 @ w ; c @ a.T ; h + a ; g + h
    ; g * 2.5
a.T ; c.real ; c.imag ; a.mT ; t3[0] ; a[1:, ::2] ; a[k] ; a[:, m4] ; i[i[0, 0] - 3] ; a[..., None]
    ; t3[:, k4[:2]]
a.sum() ; a.mean(0) ; a.max(1, keepdims=True) ; a.argmax(1) ; a.reshape(4, 3) ; a.reshape(-1) ;
    a.astype('int32') ; a.round(1)
a.cumsum(0) ; a.clip(-1, 1) ; a.dot(w) ; a.flatten() ; a.ravel() ; a.transpose(1, 0) ; a.swapaxes(0,
    1) ; a.squeeze() ; a.std()
a.var(0) ; a.prod(1) ; a.min() ; m.all(1) ; m.any() ; a.argsort(1) ; a.take(k, 0) ; a.repeat(2, 1) ;
    a.trace() ; a.diagonal()
a.ptp(0) ; a.conj() ; o.searchsorted(0.5) ; a.item(0) ; a.compress(m4, 1) ; a.nonzero()[0] ;
    a.view('int32') ; a.copy() ; v.sort()
a.at[0].set(b) ; a.at[:, k].add(1.0) ; a.at[k, k].mul(2.0) ; a.at[0].min(b) ; a.at[m].set(0) ;
    a.at[1].get() ; a.at[k].max(0.5)
a.at[k].divide(p[k]) ; p.at[0].power(2) ; i.at[k].add(j[k]) ; a.at[k].subtract(b) ;
    a.at[9].get(mode='fill', fill_value=0)
"""

NUMPY["reductions"] = """
sum: a ; a, 0 ; a, (0, 1) ; a, -1, keepdims=True ; i ; m ; h ; h, 1 ; c, 0 ; z ; z, 1 ; s ; a,
    where=m ; a, initial=2.0 ; q ; i8, 1 ; a, dtype='int32' ; t3, (0, 2)
prod: a ; a, 0 ; i, 1 ; m ; h, 1 ; c, 0 ; z ; a, where=m ; a, initial=2.0
max: a ; a, 0 ; i, 1 ; h ; m ; a, where=m, initial=-9.0 ; N ; a, 1, keepdims=True ; s ; q
min: a ; a, 0 ; i, 1 ; h ; N ; a, where=m, initial=9.0
amax: a ; a, 0
amin: a ; a, 1
mean: a ; a, 0 ; i ; i, 1 ; m ; h ; h, 0 ; c, 0 ; a, where=m ; i, dtype='float16' ; a, keepdims=True
    ; s ; t3, (0, 2)
var: a ; a, 0 ; i ; h, 1 ; c, 0 ; a, ddof=1 ; a, where=m ; a, 1, keepdims=True ; a, 1, correction=1
std: a ; a, 0 ; i ; h, 1 ; c, 0 ; a, ddof=1 ; a, where=m
average: a ; a, 0 ; a, 1, b ; a, 0, weights=p ; a, 1, b, True ; i
median: a ; a, 0 ; a, 1 ; i, 0 ; h ; N ; v ; a, (0, 1), keepdims=True
quantile: a, 0.3 ; a, 0.3, 1 ; v, s ; a, xp.array([0.1, 0.9]), 0 ; v, 0.3, method='lower' ; v, 0.3,
    method='nearest' ; v, 0.4, method='midpoint' ; v, 0.4, method='higher' ; a, 0.5, 0,
    keepdims=True ; i, 0.4
percentile: a, 30 ; a, 30, 1 ; v, 45.0 ; v, 45.0, method='lower'
nanmedian: N ; N, 1 ; N, 0
nanquantile: N, 0.3 ; N, 0.3, 1
nanpercentile: N, 30 ; N, 30, 1
ptp: a ; a, 0 ; i, 1
all: m ; m, 0 ; i ; a, 1, keepdims=True ; z
any: m ; m, 0 ; i ; a, 1 ; z
count_nonzero: i ; i, 0 ; m, 1, keepdims=True
argmax: a ; a, 0 ; i, 1 ; N ; a, 1, keepdims=True ; m, 1
argmin: a ; a, 0 ; i, 1 ; N
nansum: N ; N, 1 ; i ; N, where=N > 0
nanprod: N ; N, 1
nanmean: N ; N, 1 ; i
nanvar: N ; N, 1 ; N, 1, ddof=1
nanstd: N ; N, 1
nanmax: N ; N, 1 ; i
nanmin: N ; N, 1
nanargmax: N ; N, 1
nanargmin: N ; N, 1
nancumsum: N ; N, 1
nancumprod: N ; N, 1
cumsum: a ; a, 0 ; a, 1 ; i, 1 ; m, 0 ; h, 0 ; c, 0 ; z, 1 ; q, 0 ; a, 0, 'float16'
cumprod: a ; a, 0 ; i, 1 ; c, 0 ; m, 0
cumulative_sum: v ; a, axis=1 ; a, axis=0, include_initial=True
cumulative_prod: v ; a, axis=1 ; a, axis=0, include_initial=True
diff: a ; a, 2 ; a, 1, 0 ; i ; m ; v, prepend=0.0 ; a, append=col
ediff1d: v ; v, 9.0 ; v, to_begin=b ; i
trapezoid: v ; r, o ; a, dx=0.5 ; a, axis=0 ; i
gradient: v ; a ; a, axis=1 ; a, 2.0 ; o, o * 2 ; a, 2.0, 3.0
cov: a ; a, ddof=0 ; a, p ; v ; a, rowvar=False ; a, fweights=k4 + 1 ; a, aweights=p[0] ; c ; a,
    bias=True
corrcoef: a ; v, v * v ; c
histogram: v ; v, 4 ; v, o ; v, 4, (0.0, 3.0) ; v, 4, density=True ; v, 4, weights=v * v ; n, 3
histogram_bin_edges: v ; v, 4 ; v, 4, (0.0, 3.0) ; v, o ; v, 4, None, v
histogram2d: v, v * v, 3 ; v, r[0] + v, [o, 3]
histogramdd: a, 3 ; a[:, :2], [3, 4]
bincount: n ; n, length=4 ; n, v[0] + n ; n, minlength=9
digitize: v, o ; v, o, right=True ; v, o[::-1] ; n, xp.array([1, 3])
"""

NUMPY["shapes"] = """
reshape: a, (4, 3) ; a, -1 ; i, (2, -1) ; z, (4, 0) ; s, (1, 1) ; a, (2, 6), 'F'
ravel: a ; a, 'F' ; s ; z
transpose: a ; t3, (1, 2, 0) ; c ; i
permute_dims: t3, (1, 2, 0)
matrix_transpose: t3 ; c
swapaxes: t3, 0, 2 ; a, 0, 1
moveaxis: t3, 0, -1 ; t3, (0, 1), (1, 2)
rollaxis: t3, 2 ; t3, 1, 3
expand_dims: a, 0 ; a, (0, 2) ; s, 0
squeeze: col ; col, 1 ; a[None]
broadcast_to: b, (3, 4) ; col, (2, 3, 4) ; 2, (2, 2) ; m4, (2, 4)
broadcast_arrays: a, b, col ; i, 1.5
broadcast_shapes: (3, 1), (4,)
atleast_1d: s ; a ; 2 ; s, b
atleast_2d: s ; b ; t3
atleast_3d: s ; b ; a
concatenate: [a, p] ; [a, p], 1 ; [a, col], axis=1 ; [i, h] ; [a, b], axis=None ; [a, i],
    dtype='int32' ; [z, a]
concat: [a, p] ; [a, p], axis=1
stack: [a, p] ; [a, p], 1 ; [a, i], -1 ; [s, 1.0]
hstack: [a, p] ; [b, b] ; [s, s]
vstack: [a, p] ; [b, b] ; [s, 1]
dstack: [a, p] ; [b, b]
column_stack: [b, b] ; [a, col] ; [s, s]
split: a, 3 ; a, [1, 2], 1
array_split: a, 2 ; a, 3, 1 ; v, 4
hsplit: a, 2 ; v, [2]
vsplit: a, 3
dsplit: t3, 2
unstack: a ; a, axis=1
append: a, p ; a, col, 1 ; v, 2.0
tile: b, 2 ; a, (2, 1) ; s, 3 ; a, (2, 1, 2)
repeat: a, 2 ; a, 2, 1 ; b, k4, total_repeat_length=6 ; a, xp.array([1, 2, 0]), 0,
    total_repeat_length=3 ; v, 0
flip: a ; a, 0 ; t3, (0, 2) ; i, 1
fliplr: a
flipud: a
rot90: a ; a, 2 ; a, 3 ; t3, 1, (1, 2)
roll: a, 1 ; a, 1, 0 ; a, (1, 2), (0, 1) ; v, -2 ; a, si, 1
pad: a, 1 ; a, ((1, 0), (0, 2)) ; b, 2, 'edge' ; b, 2, 'reflect' ; b, 2, 'wrap' ; b, 2, 'symmetric'
    ; a, 1, constant_values=2.0 ; b, 2, 'linear_ramp', end_values=1.0 ; b, 2, 'mean' ; b, 1,
    'maximum' ; b, 1, 'minimum' ; b, 1, 'median' ; i, 1 ; b, 2, 'empty' ; b, 6, 'reflect',
    reflect_type='odd' ; m, 1 ; b, 2, 'mean', stat_length=2
resize: a, (2, 3) ; v, 9 ; v, (2, 0)
block: [[a, col], [a, col]] ; [b, b] ; [[1, s], [s, 2]]
trim_zeros: n ; n, 'f'
delete: a, 1 ; a, 1, 0 ; a, np.array([0, 2]), 1 ; v, slice(1, 3) ; v, k, assume_unique_indices=True
insert: v, 1, 9.0 ; a, 1, 5.0, axis=0 ; v, np.array([0, 2]), np.array([7.0, 8.0], 'f') ; a, 2,
    b[:3], 1 ; v, k, s
apply_along_axis: lambda x: x.sum(), 0, a ; lambda x: x * x, 1, a ; lambda x, y: x + y, 0, a, 1.0
apply_over_axes: xp.sum, t3, (0, 2)
vectorize(lambda x, y: x * y + 1)(a, b) ; vectorize(xp.dot, signature='(n),(n)->()')(a, b)
fromfunction: lambda x, y: x + 2 * y, (3, 4) ; lambda x: x * x, (5,), dtype='int32' ; lambda x, y:
    x, (2, 3), dtype=float
frompyfunc(lambda x, y: x * y, nin=2, nout=1)(a, b) ; frompyfunc(lambda x, y: x + y, 2, 1,
    identity=0).reduce(a, 1)
"""

NUMPY["indices"] = """
take: a, k, 0 ; a, k ; v, xp.array([0, 9]) ; v, xp.array([0, 9]), mode='clip' ; v, xp.array([0, 9,
    -1]), mode='wrap' ; a, 1, 1 ; v, xp.array([0, 9]), mode='fill', fill_value=7.0 ; a, k, 0,
    unique_indices=True ; i, k4, 1, indices_are_sorted=False
take_along_axis: a, xp.argsort(a, 1), 1 ; a, k4[None], 0 ; v, k, None ; a, xp.array([[0], [9],
    [1]]), 1 ; a, xp.array([[0], [9], [1]]), 1, mode='clip' ; a, k[:, None], 1, fill_value=3.0
put_along_axis: a, k[:, None], 9.0, 1, inplace=False
put: a, k, 7.0, inplace=False ; v, k, o, inplace=False ; v, xp.array([0, 9]), 5.0, mode='clip',
    inplace=False
place: a, m, b, inplace=False ; i, m, k, inplace=False
fill_diagonal: a, 9.0, inplace=False ; A, y3, inplace=False
extract: m, a ; m, a, size=4 ; m, a, size=9, fill_value=5.0
compress: m4, a, 1 ; m4, v ; m4, a, 1, size=2 ; m4, a, 1, size=4, fill_value=3.0
choose: k, [v[:3], o[:3], r[:3]], mode='clip' ; k, [1, 2, 3] ; k4, [b, 2 * b], mode='wrap'
nonzero: i ; m ; i, size=4 ; i, size=12, fill_value=-1
flatnonzero: i ; i, size=4, fill_value=9
argwhere: i ; m, size=3 ; m, size=9, fill_value=7
diag: v ; a ; v, 1 ; a, -1 ; i, 1
diagflat: v ; a ; v, -1
diagonal: a ; a, 1 ; t3, 0, 1, 2 ; i, -1
trace: a ; a, 1 ; i ; t3, 0, 1, 2 ; h
tril: a ; a, 1 ; t3 ; i, -1
triu: a ; a, 1 ; t3 ; i, -1
tri: 3 ; 3, 4, 1 ; 3, dtype='int32'
tril_indices: 3 ; 3, 1 ; 3, m=4
triu_indices: 3 ; 3, 1 ; 3, m=4
tril_indices_from: a ; a, 1
triu_indices_from: a ; a, 1
diag_indices: 3 ; 3, 3
diag_indices_from: A
mask_indices: 3, xp.triu ; 3, xp.triu, 1
indices: (2, 3) ; (2, 3), dtype='float32' ; (2, 3), sparse=True
unravel_index: k, (2, 3) ; 5, (2, 3) ; n, (2, 2)
ravel_multi_index: (k, k), (3, 3), mode='clip' ; (k, k), (3, 4), mode='wrap' ; (k, k), (3, 4),
    'clip', 'F'
ix_: k, k4 ; k, k, k4
searchsorted: o, v ; o, 0.5, 'right' ; o, v, method='sort' ; o, v, method='compare_all' ; o, s ;
    xp.sort(n), n, 'right' ; o, v, 'left', None ; v, o, sorter=xp.argsort(v)
sort: a ; a, 0 ; a, None ; i, 1 ; h ; m ; c ; N ; F ; a, descending=True ; i, 0, stable=False ; z ;
    q
argsort: a ; a, 0 ; a, None ; i, 1 ; N ; r ; r, descending=True ; r, stable=False ; c
sort_complex: c ; a ; i
lexsort: (r, r) ; (n, n[::-1]) ; (a, p) ; (a, p), 0
partition: v, 2 ; a, 1, 0 ; i, 2
argpartition: v, 2 ; a, 1, 0
unique: n ; r ; n, return_counts=True ; n, return_index=True, return_inverse=True ; n, size=3 ; n,
    size=7, fill_value=-1 ; r, return_inverse=True, size=4 ; i % 2, axis=0 ; i % 2, axis=1,
    return_counts=True ; N ; N, equal_nan=False ; n, size=7, return_counts=True, return_index=True ;
    i % 2, axis=0, size=4 ; z
unique_all: n ; r
unique_counts: n
unique_inverse: n
unique_values: n ; n, size=6
union1d: n, k ; r, v ; n, k, size=8 ; n, k, size=8, fill_value=-1
intersect1d: n, k ; r, v ; n, k, return_indices=True ; n, k, size=4 ; n, k, size=4, fill_value=-1 ;
    n, k, return_indices=True, size=5 ; k, k4[:3], assume_unique=True
setdiff1d: n, k ; r, v ; n, k, size=5 ; n, k, size=5, fill_value=-1 ; n, k, assume_unique=True
setxor1d: n, k ; r, v ; n, k, size=6 ; n, k, size=6, fill_value=-1
isin: n, k ; a, b ; n, k, invert=True ; n, k, assume_unique=True ; n, k, method='compare_all' ; n, 2
"""
