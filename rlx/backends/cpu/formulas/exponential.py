"""Vector code of exp, log, tanh and logistic, on which other functions build.

Polynomials without branches after Cephes (S. Moshier, "Methods and Programs for Mathematical
Functions", 1989).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..llvm.host import host
from ..llvm.text import Function, Vector


class Writer:
    """Short names for the arithmetic of one vector type."""

    def __init__(self, f: Function, vector: Vector) -> None:
        self.f, self.vector = f, vector
        self.is_double = vector.dtype == "float64"
        self.integer = vector.with_dtype("int64" if self.is_double else "int32")
        self.mask = vector.with_dtype("bool").text

    def widened(self) -> Writer:
        """The writer of as many numbers of float64."""
        return Writer(self.f, self.vector.with_dtype("float64"))

    def number(self, x: float) -> str:
        """A constant in all lanes."""
        return self.f.constant(self.vector, x)

    def binary(self, word: str, x: str, y: str) -> str:
        """`fadd`, `fmul` and so on."""
        return self.f.emit(f"{word} {self.vector.text} {x}, {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        """x * y + z, rounded once."""
        return self.f.intrinsic("fma", self.vector, x, y, z)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The highest power first."""
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.number(c))
        return total

    def negated(self, x: str) -> str:
        """-x."""
        return self.f.emit(f"fneg {self.vector.text} {x}")

    def compare(self, word: str, x: str, y: str) -> str:
        """A lane mask."""
        return self.f.emit(f"fcmp {word} {self.vector.text} {x}, {y}")

    def select(self, mask: str, yes: str, no: str) -> str:
        """Lane by lane."""
        return self.f.select(self.vector, mask, yes, no)

    def power_of_two(self, n: str) -> str:
        """2 to an integer (as a vector of integers), by the exponent bits."""
        bias, shift = (1023, 52) if self.is_double else (127, 23)
        f, kind = self.f, self.integer
        biased = f.emit(f"add {kind.text} {n}, {f.constant(kind, bias)}")
        bits = f.emit(f"shl {kind.text} {biased}, {f.constant(kind, shift)}")
        return f.emit(f"bitcast {kind.text} {bits} to {self.vector.text}")

    @property
    def scales_at_once(self) -> bool:
        """Whether `scaled` is one instruction: in whole registers of AVX-512."""
        return "+avx512f" in host().features and not self.is_short

    @property
    def is_short(self) -> bool:
        """Whether the numbers do not fill a register of AVX-512."""
        size = self.vector.lanes * (8 if self.is_double else 4)
        return "+avx512f" in host().features and size % 64 != 0

    def whole(self) -> Writer:
        """The writer of a whole register."""
        return Writer(self.f, Vector(self.vector.dtype, 8 if self.is_double else 16))

    def repeated(self, x: str, whole: Writer) -> str:
        """A whole register of these numbers, again and again."""
        lanes = self.vector.lanes
        if lanes == 1:
            return self.f.splat(x, whole.vector)
        return self.f.shuffle(
            self.vector, x, "poison", [i % lanes for i in range(whole.vector.lanes)]
        )

    def first_of(self, x: str, whole: Writer) -> str:
        """As many of the first numbers of a whole register as there are lanes."""
        return whole.f.shuffle(whole.vector, x, "poison", range(self.vector.lanes))

    def scaled(self, y: str, n: str) -> str:
        """y * 2**n, rounded once; n is an integer as a vector of floats, or NaN."""
        return self._of_all_lanes("mask.scalef", [y, n], has_mode=True)

    def inverse(self, x: str) -> str:
        """1 / x for a finite x that is not tiny; perhaps off by a unit."""
        if self.is_double or not self.scales_at_once:
            return self.binary("fdiv", self.number(1.0), x)
        # a division of 16 numbers takes 16 cycles; 14 digits and a step of Newton's take 4
        y = self._of_all_lanes("rcp14", [x])
        return self.fma(y, self.fma(self.negated(x), y, self.number(1.0)), y)

    def exponent(self, x: str) -> str:
        """The exponent of the greatest power of two up to x > 0, as floats."""
        return self._of_all_lanes("mask.getexp", [x], has_mode=True)

    def fraction(self, x: str) -> str:
        """x > 0 divided by a power of two, from 0.5 to 1."""
        return self._of_all_lanes("mask.getmant", [x], has_mode=True, setting=2)

    def corrected(self, y: str, x: str, table: int) -> str:
        """Fix y by a table where x is NaN, zero, one, infinite or negative.

        The fourth of 4 bits each is for 1, the others from the lowest for NaN (two), 0, -inf, inf,
        less and more than 0. 0 stands for y, 2 for x as a NaN, 3 for NaN, 4 for -inf, 5 for inf.
        """

        def emit(part: Writer, values: Sequence[str]) -> str:
            numbers = part.integer
            given = [(numbers.text, part.f.constant(numbers, table)), ("i32", "0")]
            return part._instruction("mask.fixupimm", values, given, ["4"])

        return self._by_register([y, x], emit)

    def _of_all_lanes(
        self, name: str, values: Sequence[str], has_mode: bool = False, setting: int | None = None
    ) -> str:
        """Apply a masked instruction of AVX-512 to each register."""

        def emit(part: Writer, values: Sequence[str]) -> str:
            given = [] if setting is None else [("i32", str(setting))]
            given.append((part.vector.text, "zeroinitializer"))
            return part._instruction(name, values, given, ["4"] * has_mode)  # 4: as ever

        return self._by_register(values, emit)

    def _by_register(
        self, values: Sequence[str], emit: Callable[[Writer, Sequence[str]], str]
    ) -> str:
        """Split vectors until each is one register."""
        lanes = self.vector.lanes
        if lanes * (8 if self.is_double else 4) == 64:
            return emit(self, values)
        half = Writer(self.f, Vector(self.vector.dtype, lanes // 2))
        found = []
        for places in (range(lanes // 2), range(lanes // 2, lanes)):
            parts = [self.f.shuffle(self.vector, x, "poison", places) for x in values]
            found.append(half._by_register(parts, emit))
        return half.f.shuffle(half.vector, found[0], found[1], range(lanes))

    def _instruction(
        self,
        name: str,
        values: Sequence[str],
        given: Sequence[tuple[str, str]],
        mode: Sequence[str],
    ) -> str:
        """An instruction of AVX-512 on one register, of all lanes."""
        element, mask = ("pd", "i8") if self.is_double else ("ps", "i16")
        kind, full = self.vector.text, f"@llvm.x86.avx512.{name}.{element}.512"
        operands = [*((kind, x) for x in values), *given, (mask, "-1"), *(("i32", m) for m in mode)]
        return self.f.call(kind, full, *operands)


def in_double(kernel: Callable[..., str], w: Writer, *values: str) -> str:
    """A function of float32 computed in float64 and rounded once."""
    wide = w.widened()
    given = [w.f.emit(f"fpext {w.vector.text} {x} to {wide.vector.text}") for x in values]
    return w.f.emit(f"fptrunc {wide.vector.text} {kernel(wide, *given)} to {w.vector.text}")


# (exp(r) - 1 - r) / r**2, highest power first, for |r| <= log(2) / 2: Cephes and Taylor's terms
_EXP_SINGLE = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
               1.6666665459e-1, 5.0000001201e-1]  # fmt: skip
_EXP_DOUBLE = [1 / math.factorial(k) for k in reversed(range(2, 14))]


def exponential(w: Writer, x: str, low: str = "", factor: str = "") -> str:
    """`factor * exp(x + low)`, overflow and subnormal results included.

    `low` is what rounding lost of x; the result has hardly more rounding than exp(x).
    """
    f, least, most = w.f, (-746.0 if w.is_double else -104.0), (710.0 if w.is_double else 89.0)
    vanishes = w.compare("olt", x, w.number(least))
    # processors take a hundred cycles where a result underflows: of zero they do not
    start = w.number(least if factor else 0.0)
    held = w.select(vanishes, start, x)
    held = w.select(w.compare("ogt", held, w.number(most)), w.number(most), held)
    n = f.intrinsic("roundeven", w.vector, w.binary("fmul", held, w.number(1 / math.log(2))))
    # log(2) in two parts; the first has 16 digits, so that its product is exact
    r = w.fma(n, w.number(-6.93145751953125e-1), held)
    r = w.fma(n, w.number(-1.42860682030941723212e-6), r)
    r = w.binary("fadd", r, low) if low else r
    p = w.polynomial(r, _EXP_DOUBLE if w.is_double else _EXP_SINGLE)
    grown = w.fma(p, w.binary("fmul", r, r), r)
    y = w.fma(factor, grown, factor) if factor else w.binary("fadd", grown, w.number(1.0))
    y = y if factor else w.select(vanishes, w.number(0.0), y)
    if w.scales_at_once:
        return w.scaled(y, n)
    kind = w.integer.text
    # a NaN would be poison as an integer: it is put back at the end
    known = w.select(w.compare("ord", x, x), n, w.number(0.0))
    whole = f.emit(f"fptosi {w.vector.text} {known} to {kind}")
    half = f.emit(f"ashr {kind} {whole}, {f.constant(w.integer, 1)}")
    rest = f.emit(f"sub {kind} {whole}, {half}")
    y = w.binary("fmul", w.binary("fmul", y, w.power_of_two(half)), w.power_of_two(rest))
    return w.select(w.compare("ord", x, x), y, x)


def logarithm(w: Writer, x: str) -> str:
    """The natural logarithm; -inf at 0, NaN below."""
    if w.scales_at_once:
        e, m = w.binary("fadd", w.exponent(x), w.number(1.0)), w.fraction(x)
    else:
        e, m = _parts(w, x)
    # 0.5 <= m < 1
    below = w.compare("olt", m, w.number(math.sqrt(0.5)))
    e = w.select(below, w.binary("fsub", e, w.number(1.0)), e)
    m = w.select(below, w.binary("fadd", m, m), m)
    r = w.binary("fsub", m, w.number(1.0))
    z = w.binary("fmul", r, r)
    cubic = w.binary("fmul", w.binary("fmul", r, z), _log_tail(w, r))
    y = w.fma(e, w.number(-2.121944400546905827679e-4), cubic)
    y = w.fma(z, w.number(-0.5), y)
    y = w.fma(e, w.number(0.693359375), w.binary("fadd", r, y))
    if w.scales_at_once:
        return w.corrected(y, x, 0x03530422)
    infinity = w.number(math.inf)
    y = w.select(w.compare("oeq", x, infinity), infinity, y)
    y = w.select(w.compare("oeq", x, w.number(0.0)), w.number(-math.inf), y)
    y = w.select(w.compare("olt", x, w.number(0.0)), w.number(math.nan), y)
    return w.select(w.compare("ord", x, x), y, x)


def _parts(w: Writer, x: str) -> tuple[str, str]:
    """The exponent and the fraction of positive numbers."""
    f, kind = w.f, w.integer.text
    tiny, scale = (2.0**-1022, 2.0**54) if w.is_double else (2.0**-126, 2.0**25)
    shift, bias = (52, 1022) if w.is_double else (23, 126)
    small = w.compare("olt", x, w.number(tiny))
    scaled = w.select(small, w.binary("fmul", x, w.number(scale)), x)
    bits = f.emit(f"bitcast {w.vector.text} {scaled} to {kind}")
    exponent = f.emit(f"ashr {kind} {bits}, {f.constant(w.integer, shift)}")
    exponent = f.emit(f"sub {kind} {exponent}, {f.constant(w.integer, bias)}")
    e = f.emit(f"sitofp {kind} {exponent} to {w.vector.text}")
    e = w.select(small, w.binary("fsub", e, w.number(math.log2(scale))), e)
    fraction = f.emit(f"and {kind} {bits}, {f.constant(w.integer, (1 << shift) - 1)}")
    fraction = f.emit(f"or {kind} {fraction}, {f.constant(w.integer, bias << shift)}")
    return e, f.emit(f"bitcast {kind} {fraction} to {w.vector.text}")


def _log_tail(w: Writer, r: str) -> str:
    """The factor of r**3 in log(1 + r)."""
    if not w.is_double:
        return w.polynomial(
            r,
            [7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
             1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
             3.3333331174e-1],
        )  # fmt: skip
    top = [
        1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854,
        1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666,
    ]  # fmt: skip
    under = [
        1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1,
        7.11544750618563894466e1, 2.31251620126765340583e1,
    ]  # fmt: skip
    return w.binary("fdiv", w.polynomial(r, top), w.polynomial(r, under))


def hyperbolic_tangent(w: Writer, x: str) -> str:
    """The hyperbolic tangent: a polynomial near 0, by the exponential elsewhere."""
    size = w.f.intrinsic("fabs", w.vector, x)
    z = w.binary("fmul", x, x)
    if w.is_double:
        top = [-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3]
        under = [1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3]
        tail = w.binary("fdiv", w.polynomial(z, top), w.polynomial(z, under))
    else:
        tail = w.polynomial(
            z,
            [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
             -3.33332819422e-1],
        )  # fmt: skip
    near = w.fma(w.binary("fmul", z, tail), x, x)
    held = w.select(w.compare("ogt", size, w.number(22.0)), w.number(22.0), size)  # 1 from there
    grown = w.binary("fadd", exponential(w, w.binary("fadd", held, held)), w.number(1.0))
    far = w.fma(w.inverse(grown), w.number(-2.0), w.number(1.0))
    y = w.select(w.compare("ult", size, w.number(0.625)), near, far)
    return w.f.intrinsic("copysign", w.vector, y, x)


def logistic(w: Writer, x: str) -> str:
    """1 / (1 + exp(-x))."""
    # the exponential of a negative number does not overflow
    size, one = w.f.intrinsic("fabs", w.vector, x), w.number(1.0)
    shrunk = exponential(w, w.negated(size))
    top = w.select(w.compare("olt", x, w.number(0.0)), shrunk, one)
    inverse = w.inverse(w.binary("fadd", one, shrunk))
    # one step of long division by the unrounded sum; y is top / 2 at least: the difference is exact
    y = w.binary("fmul", top, inverse)
    rest = w.fma(w.negated(y), shrunk, w.binary("fsub", top, y))
    return w.fma(rest, inverse, y)
