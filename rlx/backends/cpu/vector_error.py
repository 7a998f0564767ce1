"""The error function, its complement and its inverse on vectors.

erf, erfc   float64: FreeBSD's s_erf.c (Sun Microsystems, 1993)
            float32: N. Juffa's erff and erfcf (2016)
erf_inv     after M. Giles, "Approximating the erfinv function" (2010), then Halley's method
"""

from __future__ import annotations

import math

from .vector_exp import Writer, exponential, in_double, logarithm

# (numerator, denominator), lowest power first
_NEAR = (
    [1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
     -5.77027029648944159157e-03, -2.37630166566501626084e-05],
    [1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
     1.32494738004321644526e-04, -3.96022827877536812320e-06],
)  # fmt: skip
_AROUND_ONE = (
    [-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
     3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
     -2.16637559486879084300e-03],
    [1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
     1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02],
)  # fmt: skip
_MIDDLE = (
    [-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
     -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
     -8.12874355063065934246e+01, -9.81432934416914548592e+00],
    [1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
     6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
     6.57024977031928170135e+00, -6.04244152148580987438e-02],
)  # fmt: skip
_FAR = (
    [-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
     -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
     -4.83519191608651397019e+02],
    [1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
     3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
     -2.24409524465858183362e+01],
)  # fmt: skip
_ERF_OF_ONE = 8.45062911510467529297e-01  # rounded to float32
_LARGEST = 28.0  # erfc of more is 0


def error_function(w: Writer, x: str) -> str:
    """erf."""
    return _erf_and_erfc(w, x)[0] if w.is_double else _single_erf(w, x)


def complement(w: Writer, x: str) -> str:
    """erfc, one minus erf."""
    return _erf_and_erfc(w, x)[1] if w.is_double else _single_erfc(w, x)


def _single_erf(w: Writer, x: str) -> str:
    t, s = w.f.intrinsic("fabs", w.vector, x), w.binary("fmul", x, x)
    near = _single_near(w, x, s)
    r = w.fma(w.number(-1.72853470e-5), t, w.number(3.83197126e-4))
    u = w.fma(w.number(-3.88396438e-3), t, w.number(2.42546219e-2))
    r = w.fma(r, s, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = w.fma(r, t, w.number(c))
    r = w.fma(r, t, w.negated(t))
    far = w.binary("fsub", w.number(1.0), exponential(w, r))
    far = w.f.intrinsic("copysign", w.vector, far, x)
    return w.select(w.compare("ogt", t, w.number(0.927734375)), far, near)


def _single_near(w: Writer, x: str, square: str) -> str:
    """erf near 0."""
    terms = [-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1]  # fmt: skip
    return w.fma(w.polynomial(square, terms), x, x)


def _single_erfc(w: Writer, x: str) -> str:
    """exp(-a * a) times a polynomial in (a - 2) / (a + 2), for a = |x|.

    Quotients are corrected.
    """
    a, one = w.f.intrinsic("fabs", w.vector, x), w.number(1.0)
    a = w.select(w.compare("olt", a, w.number(_LARGEST)), a, w.number(_LARGEST))
    r = w.binary("fdiv", one, w.binary("fadd", a, w.number(2.0)))
    q = w.binary("fmul", w.binary("fsub", a, w.number(2.0)), r)
    rest = w.fma(w.binary("fadd", q, one), w.number(-2.0), a)
    q = w.fma(r, w.fma(q, w.negated(a), rest), q)
    p = w.polynomial(
        q,
        [-4.01139259e-4, -1.23075210e-3, 1.31355342e-3, 8.63227434e-3, -8.05991981e-3,
         -5.42046614e-2, 1.64055392e-1, -1.66031361e-1, -9.27639827e-2, 2.76978403e-1],
    )  # fmt: skip
    r = w.binary("fdiv", w.number(0.5), w.binary("fadd", a, w.number(0.5)))
    q = w.fma(p, r, r)
    rest = w.fma(w.binary("fadd", q, q), w.negated(a), one)
    small = w.binary("fadd", w.binary("fsub", p, q), rest)
    total = w.fma(small, r, q)
    lost = w.fma(small, r, w.binary("fsub", q, total))
    # what the rounding lost is put back into the exponent: relative to about 1 / (2 * a + 1)
    square = w.binary("fmul", a, a)
    rest = w.fma(w.negated(a), a, square)
    rest = w.fma(lost, w.fma(a, w.number(2.0), one), rest)
    result = exponential(w, w.negated(square), rest, factor=total)
    result = w.select(
        w.compare("olt", x, w.number(0.0)), w.binary("fsub", w.number(2.0), result), result
    )
    near = w.binary("fsub", one, _single_near(w, x, square))
    result = w.select(w.compare("olt", a, w.number(0.25)), near, result)
    return w.select(w.compare("ord", x, x), result, x)


def _erf_and_erfc(w: Writer, x: str) -> tuple[str, str]:
    """The error function and its complement in float64.

    The four rational functions take one argument and share one division.
    """
    one, size = w.number(1.0), w.f.intrinsic("fabs", w.vector, x)
    size = w.select(w.compare("olt", size, w.number(_LARGEST)), size, w.number(_LARGEST))
    is_near = w.compare("olt", size, w.number(0.84375))
    is_one = w.compare("olt", size, w.number(1.25))
    is_middle = w.compare("olt", size, w.number(1 / 0.35))
    square = w.binary("fmul", size, size)
    far = w.binary("fdiv", one, w.select(is_one, one, square))
    argument = w.select(is_one, w.binary("fsub", size, one), far)
    argument = w.select(is_near, square, argument)
    # over / (1 + under) as over - over * under / (1 + under) keeps the digits of `under`
    over = w.polynomial(argument, _AROUND_ONE[0][::-1])
    under = w.binary("fmul", argument, w.polynomial(argument, _AROUND_ONE[1][:0:-1]))
    around = (w.negated(w.binary("fmul", over, under)), w.binary("fadd", one, under))
    parts = []
    for i in range(2):
        near, middle, end = (
            w.polynomial(argument, table[i][::-1]) for table in (_NEAR, _MIDDLE, _FAR)
        )
        part = w.select(is_middle, middle, end)
        parts.append(w.select(is_near, near, w.select(is_one, around[i], part)))
    ratio = w.binary("fdiv", *parts)
    is_negative = w.compare("olt", x, w.number(0.0))
    # near 0: x + x * ratio
    near_erf = w.fma(size, ratio, size)
    half = w.number(0.5)
    start = w.select(w.compare("olt", size, half), half, one)  # for an exact difference
    grown = w.fma(size, ratio, w.binary("fsub", size, start))
    near_rest = w.binary("fsub", w.binary("fsub", one, start), grown)
    # around 1: a constant, the numerator and the ratio
    one_erf = w.binary("fadd", w.binary("fadd", over, ratio), w.number(_ERF_OF_ONE))
    one_rest = w.binary("fsub", w.binary("fsub", w.number(1 - _ERF_OF_ONE), over), ratio)
    tail = _tail(w, size, w.select(is_one, w.number(0.0), ratio))
    erf = w.select(is_one, one_erf, w.binary("fsub", one, tail))
    erf = w.select(is_near, near_erf, erf)
    erfc = w.select(is_near, near_rest, w.select(is_one, one_rest, tail))
    erfc = w.select(is_negative, w.binary("fadd", one, erf), erfc)
    erf = w.f.intrinsic("copysign", w.vector, erf, x)
    is_known = w.compare("ord", x, x)
    return w.select(is_known, erf, x), w.select(is_known, erfc, x)


def _tail(w: Writer, size: str, ratio: str) -> str:
    """erfc from 1.25, exp(-x * x + ratio) / x, with the square in two parts."""
    square = w.binary("fmul", size, size)
    rest = w.fma(w.negated(size), size, square)
    high = w.binary("fsub", w.number(-0.5625), square)
    lost = w.binary("fsub", w.number(-0.5625), w.binary("fadd", high, square))
    total = w.binary("fadd", high, ratio)
    lost = w.binary("fadd", lost, w.binary("fsub", ratio, w.binary("fsub", total, high)))
    inverse = w.binary("fdiv", w.number(1.0), size)
    rest = w.binary("fadd", rest, w.fma(w.negated(inverse), size, w.number(1.0)))
    return exponential(w, total, w.binary("fadd", rest, lost), factor=inverse)


def inverse_error_function(w: Writer, x: str) -> str:
    """The number of this erf: seven digits, tripled; float32 is computed in float64."""
    if not w.is_double:
        return in_double(inverse_error_function, w, x)
    one = w.number(1.0)
    product = w.binary("fmul", w.binary("fsub", one, x), w.binary("fadd", one, x))
    depth = w.negated(logarithm(w, product))
    near = w.polynomial(
        w.binary("fsub", depth, w.number(2.5)),
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941],
    )  # fmt: skip
    far = w.polynomial(
        w.binary("fsub", w.f.intrinsic("sqrt", w.vector, depth), w.number(4.0)),
        [-1.63404469e-06, -5.32518375e-07, 3.46814691e-05, -7.3327834e-05, 3.07845678e-05,
         -4.7661e-05, 3.40753161e-04, -9.15787921e-04, 1.25254588e-03, 1.00950178, 3.83978435],
    )  # fmt: skip
    y = w.binary("fmul", w.select(w.compare("olt", depth, w.number(5.0)), near, far), x)
    y = _halley(w, y, x)
    size = w.f.intrinsic("fabs", w.vector, x)
    edge = w.f.intrinsic("copysign", w.vector, w.number(math.inf), x)
    return w.select(w.compare("oeq", size, one), edge, y)


def _halley(w: Writer, y: str, x: str) -> str:
    """Improve y towards erf(y) = x.

    Near the ends it uses the complement, which keeps the digits.
    """
    size_x = w.f.intrinsic("fabs", w.vector, x)
    size_y = w.f.intrinsic("fabs", w.vector, y)
    short = w.binary("fsub", w.number(1.0), size_x)
    erf, erfc = _erf_and_erfc(w, size_y)
    by_erf, by_erfc = w.binary("fsub", erf, size_x), w.binary("fsub", short, erfc)
    error = w.select(w.compare("olt", size_x, w.number(0.5)), by_erf, by_erfc)
    square = w.negated(w.binary("fmul", size_y, size_y))
    slope = w.binary("fmul", w.number(2 / math.sqrt(math.pi)), exponential(w, square))
    step = w.binary("fdiv", error, slope)
    damped = w.fma(size_y, step, w.number(1.0))
    better = w.binary("fsub", size_y, w.binary("fdiv", step, damped))
    return w.f.intrinsic("copysign", w.vector, better, x)
