"""`jax.nn`, `jax.random`, `jax.scipy`, `jax.tree` and the functions at the top of `jax`."""

NN: dict[str, str] = {
    "activations": """
relu: a ; i ; h ; s ; o
relu6: 4 * a ; h
sigmoid: a ; h ; 0.5
silu: a ; h
swish: a
softplus: a ; h ; i
soft_sign: a ; h
sparse_plus: a
sparse_sigmoid: a
squareplus: a ; a, 2.0
elu: a ; a, 0.5 ; h
celu: a ; a, 2.0
selu: a ; h
gelu: a ; a, False ; h
glu: a ; a, 1 ; t3, 2
hard_sigmoid: 3 * a ; h
hard_silu: 3 * a
hard_swish: 3 * a
hard_tanh: a ; h ; i
identity: a ; i
leaky_relu: a ; a, 0.3 ; h
log1mexp: p
log_sigmoid: a ; h
log_softmax: a ; a, 0 ; h ; a, where=m ; i ; a, (0, 1)
softmax: a ; a, 0 ; h ; a, where=m ; a, (0, 1) ; i
logsumexp: a ; a, 1 ; a, 0, keepdims=True ; a, b=p ; a, 1, b=a, return_sign=True ; a, where=m ; h ;
    i
logmeanexp: a ; a, 1 ; a, where=m
mish: a ; h
one_hot: k, 4 ; k, 4, dtype='int32' ; k4, 3, axis=0 ; xp.array([0, 9, -1]), 3
standardize: a ; a, 0 ; a, -1, epsilon=0.1 ; a, where=m ; a, mean=s, variance=s
tanh: a ; h
dot_product_attention: t4[:, :, None], t4[:, :, None], t4[:, :, None] ; t4[:, :, None],
    2 * t4[:, :, None], t4[:, :, None], is_causal=True, scale=0.3
"""
}

INITIALIZERS: dict[str, str] = {
    "initial values": """
zeros: K, (2, 3) ; K, (2, 3), 'int32'
ones: K, (2, 3)
constant(2.5)(K, (2, 3)) ; normal()(K, (2, 3)) ; uniform(0.5)(K, (2, 3)) ; truncated_normal()(K, (4,
    3))
glorot_normal()(K, (4, 3)) ; glorot_uniform()(K, (4, 3)) ; xavier_normal()(K, (4, 3)) ;
    xavier_uniform()(K, (4, 3))
he_normal()(K, (4, 3)) ; he_uniform()(K, (4, 3)) ; kaiming_normal()(K, (4, 3)) ;
    kaiming_uniform()(K, (4, 3))
lecun_normal()(K, (4, 3)) ; lecun_uniform()(K, (4, 3)) ; normal(0.1, 'float16')(K, (2, 3))
variance_scaling(2.0, 'fan_avg', 'normal')(K, (4, 3)) ; variance_scaling(2.0, 'fan_in',
    'truncated_normal')(K, (4, 3))
variance_scaling(1.0, 'fan_out', 'uniform', batch_axis=0)(K, (2, 4, 3))
orthogonal()(K, (4, 3)) ; delta_orthogonal()(K, (3, 3, 2, 4))
"""
}

RANDOM: dict[str, str] = {
    "keys and bits": """
key_data(PRNGKey(7)) ; key_data(key(7)) ; key_data(key(7, impl='threefry2x32')) ;
    key_data(wrap_key_data(K)) ; PRNGKey(si)
key_data(wrap_key_data(K, impl='threefry2x32')) ; key_data(split(key(3))) ; key_data(clone(key(3)))
normal(key(3), (3,)) ; bits(split(key(3))[1]) ; PRNGKey(-5) ; PRNGKey(2**31 - 1)
split: K ; K, 3 ; K, (2, 2)
fold_in: K, 3 ; K, si
clone: K
bits: K ; K, (5,) ; K, (2, 3), 'uint8' ; K, (3,), 'uint16'
""",
    "continuous": """
uniform: K ; K, (3, 4) ; K, (3,), 'float16' ; K, (3,), minval=-2.0, maxval=3.0 ; K, (3, 4),
    minval=a, maxval=p + 3 ; K, (0,) ; K, (3,), 'bfloat16'
normal: K ; K, (3, 4) ; K, (3,), 'float16' ; K, (3,), 'complex64' ; K, (3,), 'bfloat16'
truncated_normal: K, -1.0, 1.0 ; K, -1.0, 1.0, (3, 4) ; K, s, 2.0, (3,) ; K, a, p + 3
ball: K, 3 ; K, 2, shape=(4,)
beta: K, 2.0, 3.0 ; K, p, 2.0 ; K, 2.0, 3.0, (5,)
cauchy: K ; K, (5,)
chisquare: K, 3.0 ; K, p ; K, 3.0, (4,)
dirichlet: K, p[0] ; K, p[0], (3,) ; K, p
double_sided_maxwell: K, 1.0, 2.0 ; K, 1.0, 2.0, (4,)
exponential: K ; K, (5,)
f: K, 3.0, 4.0 ; K, p, 2.0 ; K, 3.0, 4.0, (4,)
gamma: K, 2.0 ; K, p ; K, 0.5, (5,) ; K, s, (3,)
loggamma: K, 2.0 ; K, p ; K, 0.5, (5,)
generalized_normal: K, 2.0 ; K, 1.5, (4,)
gumbel: K ; K, (5,) ; K, (5,), mode='low' ; K, (5,), mode='high'
laplace: K ; K, (5,)
logistic: K ; K, (5,)
lognormal: K ; K, 0.5, (5,) ; K, s, (3,)
maxwell: K ; K, (5,)
pareto: K, 2.0 ; K, p ; K, 2.0, (5,)
rayleigh: K, 2.0 ; K, p
t: K, 3.0 ; K, p ; K, 3.0, (4,)
triangular: K, 0.0, 0.5, 1.0 ; K, 0.0, s, 2.0, (4,)
wald: K, 2.0 ; K, p
weibull_min: K, 2.0, 3.0 ; K, p, 2.0 ; K, 2.0, 3.0, (4,)
multivariate_normal: K, y3, S ; K, y3, S, (4,) ; K, y3, S, method='eigh' ; K, y3, S, method='svd'
orthogonal: K, 3 ; K, 3, (2,) ; K, 3, m=2
""",
    "discrete": """
bernoulli: K ; K, 0.3, (5,) ; K, up ; K, 0.3, (5,), mode='high' ; K, up, (3, 4), 'low'
binomial: K, 10, 0.3 ; K, 10.0, 0.3, (4,) ; K, 40.0, up
categorical: K, b ; K, a ; K, b, shape=(5,) ; K, a, 0 ; K, b, shape=(2,), replace=False ; K, b,
    mode='high'
choice: K, v ; K, 5 ; K, v, (3,) ; K, v, (3,), False ; K, v, (3,), p=xp.array([0.1, 0.2, 0.3, 0.1,
    0.1, 0.2]) ; K, a, (2,), axis=1 ; K, v, (3,), False, xp.array([0.1, 0.2, 0.3, 0.1, 0.1, 0.2]) ;
    K, v, (), mode='high'
geometric: K, 0.3 ; K, 0.3, (5,) ; K, up
multinomial: K, 10.0, up[0] / up[0].sum()
permutation: K, 5 ; K, v ; K, a ; K, a, 1 ; K, a, 0, True
poisson: K, 3.0 ; K, p ; K, 30.0, (5,) ; K, 3.0, (2, 2)
rademacher: K ; K, (5,) ; K, (5,), 'float32'
randint: K, (5,), 0, 10 ; K, (), -3, 3 ; K, (5,), 0, 200, 'uint8' ; K, (3, 4), 0, xp.abs(i) + 1 ; K,
    (5,), -2**31, 2**31 - 1 ; K, (4,), 0, 1000, 'int16'
""",
}

SPECIAL: dict[str, str] = {
    "special functions": """
bernoulli: 5
bessel_jn(p, v=2)
beta: p, p2 ; 2.0, p
betainc: p, p2, up
betaln: p, p2 ; 2, 3
boxcox: p, 0.5 ; p, s
boxcox1p: p, 0.5
comb: 5.0 + 0 * p, p ; 5, 2
dawsn: a
digamma: p ; a ; hp ; 2.5
entr: p ; hp
erf: a ; h ; i
erfc: a ; h
erfcx: a
erfinv: u
exp1: p
expi: p ; a
expit: a ; h ; i
expn: 2, p ; k[:, None] + 1, p
factorial: n ; p
fresnel: a
gamma: p ; a
gammainc: p, p2 ; 2.0, p
gammaincc: p, p2
gammaln: p ; hp ; 3
gammasgn: a
hyp1f1: p, p2, u
hyp2f1: 0.5, 1.5, 2.5, u
i0: a
i0e: a
i1: a
i1e: a
kl_div: p, p2
log_ndtr: a ; 4 * a
log_softmax: a ; a, axis=1
loggamma: p
logit: up ; s
logsumexp: a ; a, 1 ; a, b=p ; a, 0, return_sign=True, b=a
multigammaln: p + 3, 2
ndtr: a
ndtri: up
owens_t: a, b
poch: p, p2
polygamma: 1, p ; 2, p ; k, p[:, 0]
rel_entr: p, p2
sici: p
softmax: a ; a, axis=1
spence: p
xlog1py: a, p ; 0.0, p
xlogy: a, p ; i, p
zeta: p + 1, p ; 2.5, p
sph_harm_y: k, k[:1], s + 0 * y3, 1.0 + 0 * y3, n_max=3
wofz: a
"""
}

SCIPY_LINALG: dict[str, str] = {
    "matrices": """
block_diag: A, Y ; i, 2
cho_factor: S ; S, lower=True
cho_solve: (L, True), y3 ; (L.T, False), Y
cholesky: S ; S, lower=True
det: A ; As
eigh: S ; S, eigvals_only=True ; S, lower=False
expm: A ; As ; 0.1 * A ; A, upper_triangular=False
inv: A
lu: A ; a ; A, permute_l=True
lu_factor: A ; As
lu_solve: (A, k - k + xp.array([0, 1, 2])), y3 ; (A, xp.array([1, 1, 2])), Y, 1
qr: A ; a.T ; a.T, mode='economic' ; a, mode='r'
solve: A, y3 ; S, Y, assume_a='pos' ; S, y3, lower=True, assume_a='pos'
solve_triangular: L, y3, lower=True ; L.T, Y ; L, y3, trans=1, lower=True ; L, y3, lower=True,
    unit_diagonal=True
svd: a ; a, full_matrices=False ; a, compute_uv=False
toeplitz: b ; b, v
"""
}

TREE: dict[str, str] = {
    "trees": """
all: [True, 1] ; [True, False]
flatten({'x': a, 'y': [i, None, 2]})[0]
leaves: {'x': a, 'y': [i, 2]} ; [a, [i]], is_leaf=lambda x: isinstance(x, list)
map: lambda x: x * 2, {'x': a, 'y': [i, 2]} ; lambda x, y: x + y, [a, i], [b, 2] ; lambda x: len(x),
    [[a], [i]], is_leaf=lambda x: isinstance(x, list) and not isinstance(x[0], list)
map_with_path: lambda path, x: x * len(path), {'x': a, 'y': [i, 2]}
reduce: lambda x, y: x + y, [s, si, 2] ; lambda x, y: x + y, [s, si], 5 ; lambda x, y: x + y, [s,
    si], initializer=1
reduce_associative: lambda x, y: x + y, [s, si, 2.0, 3] ; lambda x, y: x + y, [], identity=0
leaves_with_path({'x': a, 'y': [i, 2]})[0][1] ; flatten_with_path({'x': a, 'y': [i, 2]})[0][1][1]
unflatten: tree.structure([0, {'x': 1}]), [a, b]
transpose: tree.structure([0, 0]), tree.structure({'x': 0}), [{'x': a}, {'x': b}] ;
    tree.structure([0, 0]), None, [(a, i), (b, j)]
broadcast: [s, si], [[a, b], {'x': i}]
structure([a, {'x': i}]).num_leaves
"""
}

TOP: dict[str, str] = {
    "transforms": """
grad(lambda x: xp.sum(x ** 3))(a) ; grad(lambda x, y: xp.sum(x * y), 1)(a, b) ; grad(lambda x:
    (xp.sum(x ** 2), x), has_aux=True)(a) ; grad(lambda x, y: xp.sum(x * y), (0, 1))(a, b)
grad(lambda z: xp.sum(z * z), holomorphic=True)(c) ; grad(lambda x: 2.0, allow_int=False)(a)
value_and_grad(lambda x: xp.sum(x ** 3))(a) ; value_and_grad(lambda x: (xp.sum(x ** 2), x),
    has_aux=True)(a)
hessian(lambda x: xp.sum(x ** 3) * x[0])(b) ; hessian(lambda x, y: xp.sum(x * y), (0, 1))(b, b)
jacfwd(lambda x: x * x[0])(b) ; jacfwd(lambda z: z * z, holomorphic=True)(c4) ; jacfwd(lambda x: (x,
    x * 2), has_aux=True)(b)
jacrev(lambda x: x * x[0])(b) ; jacrev(lambda z: z * z, holomorphic=True)(c4)
jacobian(lambda x: x * x[0])(b)
jvp: lambda x: x * x, (a,), (p,) ; lambda x: (x * x, x), (a,), (p,), has_aux=True
vjp(lambda x: x * x, a)[1](p) ; vjp(lambda x: (x * x, x), a, has_aux=True)[1](p)
linearize(lambda x: x * x, a)[1](p) ; linearize(lambda x: (x * x, x), a, has_aux=True)[1](p)
linear_transpose(lambda x: x @ w, a)(a @ w)
vmap(lambda x, y: x @ y, (0, None))(a, b) ; vmap(lambda x: x * 2, 1, 1)(a) ; vmap(lambda x: (x, 2 *
    x), out_axes=(1, 0))(a)
vmap(lambda x: x, axis_size=3)(a) ; vmap(lambda x: {'x': x}, 0, {'x': 1})(a) ; vmap(lambda x:
    lax.psum(x, 'n'), axis_name='n')(a)
vmap(lambda x: lax.pmean(x, 'n'), axis_name='n')(a) ; vmap(lambda x: lax.pmax(x, 'n'),
    axis_name='n')(a)
vmap(lambda x: lax.pmin(x, 'n'), axis_name='n')(a) ; vmap(lambda x: lax.all_gather(x, 'n'),
    axis_name='n')(a)
vmap(lambda x: lax.axis_index('n') + x, axis_name='n')(a) ; vmap(lambda x: lax.all_to_all(x, 'n', 0,
    0), axis_name='n')(A)
vmap(lambda x: lax.ppermute(x, 'n', [(0, 1), (1, 2), (2, 0)]), axis_name='n')(a)
vmap(lambda x: lax.psum_scatter(x, 'n'), axis_name='n')(A) ; vmap(lambda x: lax.axis_size('n') * x,
    axis_name='n')(a)
vmap(lambda x: lax.pshuffle(x, 'n', [2, 0, 1]), axis_name='n')(a) ; vmap(lambda x: lax.pswapaxes(x,
    'n', 0), axis_name='n')(A)
jit(lambda x: x * 2)(a) ; jit(lambda x, k: x * k, static_argnums=1)(a, 3) ; jit(lambda x, n: x * n,
    static_argnames='n')(a, n=3)
checkpoint(lambda x: xp.sin(xp.sin(x)))(a) ; remat(lambda x: xp.sin(x))(a)
pure_callback: lambda x: np.asarray(x) * 2, a, a
eval_shape(lambda x, y: x @ y, a, w).shape ; eval_shape(lambda x: x.astype('int32'), a).dtype
closure_convert(lambda x: x * 2, a)[0](a) ; device_get(a) ; block_until_ready(a) ; device_put(a)
ShapeDtypeStruct((2, 3), 'float32').shape ; custom_gradient(lambda x: (x * x, lambda g: (3 *
    g,)))(a)

"""
}
