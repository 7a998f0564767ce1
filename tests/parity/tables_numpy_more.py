"""`jax.numpy`: creation, products, polynomials, dtypes, ufuncs; `linalg` and `fft`."""

MORE: dict[str, str] = {}

MORE["creation"] = """
array: 2 ; 2.5 ; [1, 2] ; [1.5, 2] ; a ; i, 'float16' ; True ; 1j ; [[1, 2], [3, 4]], dtype='int8' ;
    a, ndmin=3 ; [s, 2.0] ; [a, p] ; [] ; range(3)
asarray: 2 ; [1, 2] ; a ; a, 'int32' ; h ; d
copy: a ; i
zeros: 3 ; (2, 3) ; (), 'int32' ; 3, bool ; (0, 4)
ones: 3 ; (2, 3), 'float16'
empty: 3 ; (2, 3), 'int32'
full: 3, 2 ; (2, 2), 1.5 ; 3, s ; (2, 4), b ; 3, 2, 'float16' ; 3, True ; 3, 1j
zeros_like: a ; i ; a, 'int32' ; a, shape=(2,) ; 2
ones_like: a ; h ; c
empty_like: a ; i
full_like: a, 2 ; i, 2.7 ; a, b ; h, s ; a, 1, 'int32' ; a, 3, shape=(2, 2)
eye: 3 ; 3, 4 ; 3, 4, 1 ; 3, dtype='int32' ; 3, k=-1
identity: 3 ; 2, 'int32'
arange: 5 ; 1, 5 ; 0, 1, 0.3 ; 5.0 ; 5, dtype='float16' ; 5, 0, -2 ; 0
linspace: 0, 1, 5 ; 0, 1, 5, endpoint=False ; 0, 1, 5, retstep=True ; s, b, 4 ; s, b, 4, axis=1 ; 0,
    10, 5, dtype='int32' ; 0, 1, 1 ; 2, 3, 0
logspace: 0, 2, 5 ; 0, 2, 5, base=2.0 ; s, 2.0, 4 ; 0, 2, 4, endpoint=False
geomspace: 1, 100, 5 ; s, 4.0, 4 ; 1, 1000, 4, endpoint=False ; p[:, 0], 9.0, 4, axis=1
meshgrid: v, b ; v, b, indexing='ij' ; v, b, sparse=True ; b
vander: v ; v, 3 ; v, 3, True ; n, 3
mgrid[0:3, 0:2] ; mgrid[0:1:4j] ; ogrid[0:3, 0:2] ; r_[1:4, 0, 4] ; r_[b, s, b] ; c_[b, b] ; s_[1:2]
astype: a, 'int32' ; i, 'float16' ; c, 'complex64' ; a, 'bool' ; m, 'int32' ; h, 'float32'
float32: 3 ; [1, 2] ; i
int32: 2.7 ; a
int8: 5 ; i
uint8: 5
uint16: 5
uint32: 5
int16: i
bool_: i ; 0
float16: a
bfloat16: a
complex64: a ; 1j
hanning: 5 ; 1
hamming: 5
blackman: 5
bartlett: 6
kaiser: 5, 3.0
from_dlpack: np.arange(3, dtype='int32')
frombuffer: b'\\x01\\x02', 'uint8'
fromstring: '1 2 3', dtype='int32', sep=' '
packbits: m ; m, 1 ; q, 0 ; m, -1, 'little'
unpackbits: q ; q, 1 ; q, 0, 10 ; q, -1, None, 'little'
"""

MORE["products"] = """
dot: a, w ; a, b ; b, b ; 2, a ; i, k4 ; c, b ; t3, w ; h, h.T ; z, w ; i, a.T ; m4, m4 ; a, w,
    preferred_element_type='float32'
matmul: a, w ; t3, w ; b, w ; a, b ; i, j.T ; h, h.T ; c, c.T ; t3, t4 ; m, m.T ; i8, i8.T,
    preferred_element_type='int32'
vdot: a, p ; c, c ; b, i[0]
inner: a, b ; a, p ; c, c ; s, a
outer: b, v ; a, p ; i, 2
tensordot: a, w, 1 ; t3, t4, ([2], [1]) ; a, p, 2 ; a, b, 0
einsum: 'ij,jk->ik', a, w ; 'ij->ji', a ; 'ii', A ; 'ij,ij->', a, p ; 'bij,bjk->bik', t3, t4 ;
    '...j,jk', t3, w ; 'i,j->ij', b, v ; 'ij->', i ; 'ij,jk,kl->il', a, w, w.T ; a, [0, 1], w, [1,
    2], [0, 2] ; 'ij,j', c, b ; 'ii->i', A ; 'ij,jk->ki', h, h.T
einsum_path: 'ij,jk,kl->il', a, w, w.T ; 'ij,jk', a, w ; 'ij,jk,kl->il', a, w, w.T,
    optimize='optimal'
kron: A, Y ; b, v ; i, 2
cross: y3, A ; A, y3 ; A[:, :2], A[:, :2] ; A, A, axis=0 ; A[:, :2], A
vecdot: a, p ; a, b ; c, c ; a, p, axis=0
matvec: a, b ; t3, b ; c, c4
vecmat: b, w ; c4, w
convolve: v, b ; b, v, 'same' ; v, b, 'valid' ; n, k ; c4, b ; v, b, precision=None
correlate: v, b ; b, v, 'same' ; v, b, 'full' ; c4, c4
"""

MORE["polynomials"] = """
poly: v ; A ; k
polyadd: v, b ; n, k
polysub: v, b ; n, k
polymul: v, b ; n, k ; v, b, trim_leading_zeros=True
polydiv: v, b ; v, b, trim_leading_zeros=True
polyval: v, a ; v, 2.0 ; n, k ; v, c ; v, a, unroll=1
polyder: v ; v, 2
polyint: v ; v, 2 ; v, 2, y3[:2] ; v, k=s
polyfit: o, r, 2 ; o, r, 2, w=o * o ; o, r, 1, full=True ; o, r, 2, cov=True ; o, A[:1].repeat(5, 0)
    * r[:, None], 1
roots: v ; k
interp: v, o, r ; v, o, r, left=-1.0 ; v, o, r, right=9.0 ; s, o, r ; v, o, r, period=3.0 ; v, o, r,
    'extrapolate', 'extrapolate'
"""

MORE["dtypes"] = """
result_type: a, i ; i, 1.5 ; h, g ; i, q ; 'int8', 'uint8' ; 1, 2.5 ; a, 1j ; m, 1 ; uw, i ; h, a
promote_types: 'int8', 'uint8' ; 'int32', 'float16' ; 'float16', 'bfloat16' ; 'uint32', 'int8' ;
    'bool', 'int8' ; 'complex64', 'float32' ; 'uint32', 'int32'
can_cast: 'int32', 'float32' ; 'float32', 'int32' ; 'int8', 'int32' ; 'float32', 'int32', 'unsafe' ;
    'int8', 'uint8', 'same_kind'
issubdtype: 'float32', xp.floating ; 'int32', xp.floating ; 'bfloat16', xp.floating ; 'uint8',
    xp.integer ; 'int8', xp.signedinteger
isdtype: xp.float32, 'real floating' ; xp.int8, ('integral', 'bool') ; xp.int8, xp.int8 ;
    xp.complex64, 'numeric'
dtype: 'float32' ; xp.int8
iscomplexobj: c ; a ; 1j
isrealobj: c ; a
isscalar: 2 ; s ; a ; 'x' ; np.float32(2)
iterable: a ; s ; 2
ndim: a ; s ; 2 ; [1, 2]
shape: a ; s ; 2 ; [[1, 2]]
size: a ; a, 0 ; 2
finfo('float32').eps ; finfo('bfloat16').max ; iinfo('int8').max ; iinfo('uint32').max
array_repr: i ; a, precision=2
array_str: i ; a, precision=2
"""

MORE["ufuncs"] = """
add.reduce: a ; a, 1 ; i, None ; a, axis=(0, 1), keepdims=True ; a, initial=2.0 ; a, where=m
multiply.reduce: a ; i, 1
maximum.reduce: a ; a, 1
minimum.reduce: a, axis=1
logical_and.reduce: m ; m, 1
logical_or.reduce: m
logical_xor.reduce: m
bitwise_and.reduce: i
bitwise_or.reduce: i, 1
bitwise_xor.reduce: i
logaddexp.reduce: a ; a, 1
logaddexp2.reduce: a
add.accumulate: a ; a, 1
multiply.accumulate: a ; i, 1
maximum.accumulate: a ; a, 1
minimum.accumulate: a, 1
logaddexp.accumulate: a, 1
add.outer: b, v ; i, k
multiply.outer: b, v
subtract.outer: b, v
maximum.outer: b, v
add.at: v, k, 1.0, inplace=False ; a, (k, k), y3, inplace=False
multiply.at: v, k, 2.0, inplace=False
subtract.at: v, k, 2.0, inplace=False
maximum.at: v, k, 2.0, inplace=False
negative.at: v, k, inplace=False
add.reduceat: v, k ; a, k, 1 ; v, xp.array([0, 3])
multiply.reduceat: v, xp.array([0, 3])
add.nin ; add.nout ; add.identity ; multiply.identity ; add.nargs ; maximum.identity
"""

LINALG: dict[str, str] = {
    "linear algebra": """
cholesky: S ; S, upper=True ; S[None] ; S, symmetrize_input=False
cond: A ; A, 1 ; As ; A, 'fro'
cross: y3, A
det: A ; As ; C ; S
diagonal: A ; As ; a, offset=1
eig: S @ A
eigh: S ; S, 'U' ; S[None]
eigvals: S
eigvalsh: S ; S, 'U'
inv: A ; As ; C
lstsq: a.T, b ; a, y3 ; a.T, b, numpy_resid=True
matmul: a, w
matrix_norm: a ; a, ord=1 ; a, ord='nuc' ; t3 ; a, ord=2, keepdims=True
matrix_power: A, 3 ; A, -2 ; A, 0 ; As, 2
matrix_rank: A ; a ; A, 1e-3
matrix_transpose: t3 ; c
multi_dot: [a, w, w.T] ; [a, w] ; [a, w, w.T, b]
norm: a ; b ; b, 1 ; b, np.inf ; b, 3 ; a, 'fro' ; a, 'nuc' ; a, 2 ; a, axis=1 ; a, 1, axis=0 ; c ;
    i ; a, keepdims=True ; a, -2 ; b, 0 ; a, np.inf ; a, 1
outer: b, v
pinv: a ; A ; C ; S, hermitian=True
qr: A ; a.T ; a.T, 'complete' ; a.T, 'r'
slogdet: A ; As ; C ; -A
solve: A, y3 ; A, Y ; As, As ; C, Y
svd: a ; a, full_matrices=False ; a, compute_uv=False ; S, hermitian=True
svdvals: a ; As
tensordot: t3, t4, axes=([2], [1])
tensorinv: xp.reshape(xp.eye(6) + 0.1, (2, 3, 6)) ; A, 1
tensorsolve: xp.reshape(xp.eye(6) + 0.1, (2, 3, 6)), a[:2, :3]
trace: A ; As ; a, offset=1
vecdot: a, p ; c, c ; a, p, axis=0
vector_norm: a ; a, axis=1 ; b, ord=1 ; a, axis=0, keepdims=True ; b, ord=np.inf ; c
"""
}

FFT: dict[str, str] = {
    "Fourier": """
fft: a ; c ; a, 6 ; a, axis=0 ; c, norm='ortho' ; i ; c, norm='forward' ; v
ifft: a ; c ; c, 3 ; c, axis=0, norm='ortho'
rfft: a ; v ; a, 3 ; a, axis=0 ; i
irfft: c ; c4 ; c, 5 ; c, axis=0 ; c, norm='ortho'
hfft: c ; c, 5
ihfft: a ; v, 4
fft2: a ; t3 ; c
ifft2: c
rfft2: a ; t3
irfft2: c
fftn: a ; t3 ; t3, (2, 2), (0, 1)
ifftn: c ; t3
rfftn: t3
irfftn: c
fftfreq: 5 ; 6, 0.5
rfftfreq: 5 ; 6, 0.5
fftshift: a ; v ; a, 0
ifftshift: a ; v
"""
}
