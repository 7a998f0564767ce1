"""WGSL for functions that float32 and float64 compute alike, but for some numbers.

expm1, pow   FreeBSD's s_expm1.c and e_pow.c, and those of float32 (Sun Microsystems, 1993)
"""

from __future__ import annotations

import re

NUMBERS = {
    "BITS": ("u32", "u64"),
    "NOTHING": ("0u", "0lu"),
    "SIGN": ("0x80000000u", "0x8000000000000000lu"),
    "SIZE": ("0x7fffffffu", "0x7ffffffffffffffflu"),
    "INFINITY": ("0x7f800000u", "0x7ff0000000000000lu"),
    "FRACTION": ("0x7fffffu", "0xffffffffffffflu"),
    "LEADING": ("0x800000u", "0x10000000000000lu"),
    "PLACES": ("23u", "52u"),
    "BIAS": ("127", "1023"),
    "LEAST_POWER": ("149", "1074"),
    "MOST_EXP": ("88.722839", "709.782712893384"),
    "LEAST_EXP": ("104.0", "745.2"),
    "MOST_EXP2": ("128.0", "1024.0"),
    "LEAST_EXP2": ("150.0", "1076.0"),
    "LEAST_EXPM1": ("18.0", "40.0"),
    "HALF_LOG_2": ("0.34657359", "0.34657359027997264"),
    "ONE_OVER_LOG_2": ("1.44269504", "1.4426950408889634"),
    "LOG_2": ("0.693147181", "0.6931471805599453"),
    "LOG_2_HIGH": ("0.693138123", "6.93147180369123816490e-1"),
    "LOG_2_LOW": ("9.05800061e-6", "1.90821492927058770002e-10"),
    "SHORT_LOG_2": ("0.693359375", "6.93147180369123816490e-1"),
    "REST_OF_LOG_2": ("-2.12194440e-4", "1.90821492927058770002e-10"),
    "SQUARE_ROOT_OF_2": ("1.41421354", "1.4142135623730954"),
    "TINY": ("1.0e-8", "1.0e-17"),
    "EXPM1_FACTORS": (
        "1.5807170421e-3, -3.3333212137e-2",
        "-2.01099218183624371326e-7, 4.00821782732936239552e-6, "
        "-7.93650757867487942473e-5, 1.58730158725481460165e-3, "
        "-3.33333333333331316428e-2",
    ),
    "MIDDLE": ("23", "20"),
    "FLAT_TANH": ("10.0", "22.0"),
    "SMALL_TANH": ("0.5493061", "0.5493"),
    "LARGE_SINH": ("80.0", "40.0"),
    "LARGE_COSH": ("80.0", "700.0"),
    "TWO_IF_ODD": ("2.0", "1.0"),
    "CUBE_ROOT_OF_LEAST": ("8.88178420e-16", "1.7031839360032603e-108"),
    "CUBE_ROOT_START": ("709958130u", "715094163u"),
    "CUBE_ROOT_STEPS": ("3", "5"),
    "THIRD": ("0.333333333", "0.3333333333333333"),
    "HALF_PI": ("1.57079633", "1.5707963267948966"),
    "REST_OF_HALF_PI": ("-4.37113883e-8", "6.123233995736766e-17"),
    "PI": ("3.14159265", "3.141592653589793"),
    "REST_OF_PI": ("-8.74227766e-8", "1.2246467991473532e-16"),
    "QUARTER_PI": ("0.785398163", "0.7853981633974483"),
    "SINE_FACTORS": (
        "-1.95152959e-4, 8.33216087e-3, -1.66666546e-1",
        "1.58969099521155010221e-10, -2.50507602534068634195e-8, 2.75573137070700676789e-6, "
        "-1.98412698298579493134e-4, 8.33333333332248946124e-3, -1.66666666666666324348e-1",
    ),
    "COSINE_FACTORS": (
        "2.44331571e-5, -1.38873162e-3, 4.16666456e-2",
        "-1.13596475577881948265e-11, 2.08757232129817482790e-9, -2.75573143513906633035e-7, "
        "2.48015872894767294178e-5, -1.38888888888741095749e-3, 4.16666666666666019037e-2",
    ),
    "SMALL_ERF_INV": ("1.0e-4", "1.0e-9"),
    "ERF_INV_STEPS": ("1", "3"),
    "HALF_ROOT_OF_PI": ("0.886226925", "0.886226925452758"),
    # of powers: bits of the head of a number, then parts of logarithms to the base of 2 and back
    "HEAD_FRACTION": ("0x7fffffu", "0xfffffu"),
    "NEAR_ONE": ("0x1cc471u", "0x3988eu"),
    "NEAR_TWO": ("0x5db3d7u", "0xbb67au"),
    "TOP_OF_HEAD": ("0xfffff000u", "0xffffffffu"),
    "HALF_STEP": ("0x00400000u", "0x00080000u"),
    "STEP_PLACE": ("21u", "18u"),
    "TOP": ("0xfffff000u", "0xffffffff00000000lu"),
    "TOP_OF_REST": ("0xffff8000u", "0xffffffff00000000lu"),
    "LARGE_POWER": ("4.0e9", "1.0e19"),
    "OVERFLOW": ("128.5", "1024.5"),
    "UNDERFLOW": ("151.0", "1078.0"),
    "LOG2_OF_3_HALVES": ("5.84960938e-1", "5.84962487220764160156e-1"),
    "REST_OF_LOG2": ("1.56322085e-6", "1.35003920212974897128e-8"),
    "LOG2_FACTORS": (
        "2.0697501302e-1, 2.3066075146e-1, 2.7272811532e-1, 3.3333334327e-1, 4.2857143283e-1, "
        "6.0000002384e-1",
        "2.06975017800338417784e-1, 2.30660745775561754067e-1, 2.72728123808534006489e-1, "
        "3.33333329818377432918e-1, 4.28571428578550184252e-1, 5.99999999999994648725e-1",
    ),
    "CP_TOP": ("9.6191406250e-1", "9.61796700954437255859e-1"),
    "CP_REST": ("-1.1736857402e-4", "-7.02846165095275826516e-9"),
    "CP": ("9.6179670095e-1", "9.61796693925975554329e-1"),
    "LN_2_TOP": ("6.93145752e-1", "6.93147182464599609375e-1"),
    "LN_2": ("6.9314718246e-1", "6.93147180559945286227e-1"),
    "LN_2_REST": ("1.42860654e-6", "-1.90465429995776804525e-9"),
}
"""What stands for a word in the text: in float32, in float64.

`CP` is two thirds of 1 / log(2). The head of a number is its upper 32 bits.
"""

TEXT = """
fn exp_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  if (x > MOST_EXP) { return infinite_T(); }
  if (x < -LEAST_EXP) { return 0.0; }
  let n = round(x * ONE_OVER_LOG_2);
  return scaled_T(near_exp_T(x - n * SHORT_LOG_2, n * REST_OF_LOG_2), i32(n));
}

fn exp2_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  if (x >= MOST_EXP2) { return infinite_T(); }
  if (x < -LEAST_EXP2) { return 0.0; }
  let n = round(x);
  return scaled_T(exp_T((x - n) * LOG_2), i32(n));
}

fn log_T(x: T) -> T {
  if (is_nan_T(x) || x < 0.0) { return nan_T(); }
  if (x == 0.0) { return -infinite_T(); }
  if (is_infinite_T(x)) { return x; }
  let parts = parts_T(x);
  if (parts.size >= SQUARE_ROOT_OF_2) {
    return near_log_T(0.5 * parts.size - 1.0, T(parts.power + 1));
  }
  return near_log_T(parts.size - 1.0, T(parts.power));
}

fn log1p_T(x: T) -> T {
  if (is_nan_T(x) || abs(x) < TINY) { return x; }
  if (x > -0.29 && x < 0.41) { return near_log_T(x, 0.0); }
  return log_T(1.0 + x);
}

fn cbrt_T(x: T) -> T {
  let bits = bitcast<BITS>(x) & SIZE;
  if (!is_finite_T(x) || bits == NOTHING) { return x; }
  if (bits < LEADING) {
    return signed_T(root_T(TWO_IF_ODD * T(bits)) * CUBE_ROOT_OF_LEAST, x);
  }
  return signed_T(root_T(abs(x)), x);
}

fn root_T(a: T) -> T {
  var t = of_head_T(head_T(a) / 3u + CUBE_ROOT_START);
  for (var i = 0; i < CUBE_ROOT_STEPS; i += 1) { t = t - (t - a / (t * t)) * THIRD; }
  return t;
}

fn pow_T(x: T, y: T) -> T {
  if (y == 0.0 || equals_T(x, 1.0)) { return 1.0; }
  if (is_nan_T(x) || is_nan_T(y)) { return nan_T(); }
  let a = abs(x);
  if (is_infinite_T(y)) {
    if (a == 1.0) { return 1.0; }
    return select(0.0, infinite_T(), (a > 1.0) == (y > 0.0));
  }
  let size = abs(y);
  let is_whole = floor(size) == size;
  let is_odd = is_whole && floor(size * 0.5) * 2.0 != size;
  let is_negative = (bitcast<BITS>(x) & SIGN) != NOTHING;
  let is_zero = (bitcast<BITS>(x) & SIZE) == NOTHING;
  var result: T = 0.0;
  if (is_zero || is_infinite_T(x)) {
    if (is_zero != (y > 0.0)) { result = infinite_T(); }
  } else {
    if (is_negative && !is_whole) { return nan_T(); }
    result = positive_power_T(a, y);
  }
  return select(result, -result, is_negative && is_odd);
}

fn positive_power_T(x: T, y: T) -> T {
  if (abs(y) > LARGE_POWER) {
    if (x == 1.0) { return 1.0; }
    return select(0.0, infinite_T(), (x > 1.0) == (y > 0.0));
  }
  let parts = parts_T(x);
  var a = parts.size;
  var n = parts.power;
  let fraction = head_T(a) & HEAD_FRACTION;
  let is_middle = fraction > NEAR_ONE && fraction < NEAR_TWO;
  let k = select(0u, 1u, is_middle);
  if (fraction >= NEAR_TWO) {
    n += 1;
    a = 0.5 * a;
  }
  let base: T = select(1.0, 1.5, is_middle);
  // log2(x) as a sum of two numbers
  let u = a - base;
  let v = 1.0 / (a + base);
  let s = u * v;
  let s_high = masked_T(s, TOP);
  let up = ((head_T(a) >> 1u) & TOP_OF_HEAD) | 0x20000000u;
  var t_high = of_head_T(up + HALF_STEP + (k << STEP_PLACE));
  var t_low = a - (t_high - base);
  let s_low = v * ((u - s_high * t_high) - s_high * t_low);
  let square = s * s;
  let p = polynomial(square, LOG2_FACTORS);
  let r = square * square * p + s_low * (s_high + s);
  let high_square = s_high * s_high;
  t_high = masked_T(3.0 + high_square + r, TOP);
  t_low = r - ((t_high - 3.0) - high_square);
  let first = s_high * t_high;
  let second = s_low * t_high + t_low * s;
  let p_high = masked_T(first + second, TOP);
  let p_low = second - (p_high - first);
  let z_high = CP_TOP * p_high;
  let start = select(0.0, LOG2_OF_3_HALVES, is_middle);
  let start_low = select(0.0, REST_OF_LOG2, is_middle);
  let z_low = CP_REST * p_high + p_low * CP + start_low;
  let t = T(n);
  let t1 = masked_T(((z_high + z_low) + start) + t, TOP);
  let t2 = z_low - (((t1 - t) - start) - z_high);
  // times y
  let y1 = masked_T(y, TOP);
  let low = (y - y1) * t1 + y * t2;
  let high = y1 * t1;
  let z = low + high;
  if (z >= OVERFLOW) { return infinite_T(); }
  if (z < -UNDERFLOW) { return 0.0; }
  let m = round(z);
  let left = high - m;
  let e_high = masked_T(low + left, TOP_OF_REST);
  let e_second = (low - (e_high - left)) * LN_2 + e_high * LN_2_REST;
  return scaled_T(near_exp_T(e_high * LN_2_TOP, -e_second), i32(m));
}

fn expm1_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  if (x > MOST_EXP) { return infinite_T(); }
  if (x < -LEAST_EXPM1) { return -1.0; }
  var k = 0;
  var r = x;
  var c: T = 0.0;
  if (abs(x) > HALF_LOG_2) {
    let n = round(x * ONE_OVER_LOG_2);
    k = i32(n);
    let high = x - n * LOG_2_HIGH;
    let low = n * LOG_2_LOW;
    r = high - low;
    c = (high - r) - low;
  }
  let half = 0.5 * r;
  let square = r * half;
  let r1 = 1.0 + square * polynomial(square, EXPM1_FACTORS);
  let t = 3.0 - r1 * half;
  var e = square * ((r1 - t) / (6.0 - r * t));
  if (k == 0) { return r - (r * e - square); }
  e = r * (e - c) - c;
  e = e - square;
  if (k == -1) { return 0.5 * (r - e) - 0.5; }
  if (k == 1) {
    if (r < -0.25) { return -2.0 * (e - (r + 0.5)); }
    return 1.0 + 2.0 * (r - e);
  }
  if (k < 0 || k > 56) { return scaled_T(r - e + 1.0, k) - 1.0; }
  let small = scaled_T(1.0, -k);
  if (k < MIDDLE) { return scaled_T(r - e + (1.0 - small), k); }
  return scaled_T(r - (e + small) + 1.0, k);
}

fn logistic_T(x: T) -> T {
  return 1.0 / (1.0 + exp_T(-x));
}

fn tanh_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  let a = abs(x);
  if (a > FLAT_TANH) { return signed_T(1.0, x); }
  if (a > SMALL_TANH) { return signed_T(1.0 - 2.0 / (expm1_T(2.0 * a) + 2.0), x); }
  let t = expm1_T(-2.0 * a);
  return signed_T(-t / (t + 2.0), x);
}

fn sinh_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  let a = abs(x);
  if (a > LARGE_COSH) {
    let h = exp_T(0.5 * a);
    return signed_T(0.5 * h * h, x);
  }
  if (a > LARGE_SINH) { return signed_T(0.5 * exp_T(a), x); }
  let t = expm1_T(a);
  let y = select(0.5 * (t + t / (t + 1.0)), 0.5 * (2.0 * t - t * t / (t + 1.0)), a < 1.0);
  return signed_T(y, x);
}

fn cosh_T(x: T) -> T {
  let a = abs(x);
  if (a > LARGE_COSH) {
    let h = exp_T(0.5 * a);
    return 0.5 * h * h;
  }
  let e = exp_T(a);
  return 0.5 * e + 0.5 / e;
}

fn asinh_T(x: T) -> T {
  if (!is_finite_T(x)) { return x; }
  let a = abs(x);
  if (a > 1.0e8) { return signed_T(log_T(a) + LOG_2, x); }
  return signed_T(log1p_T(a + a * a / (sqrt(a * a + 1.0) + 1.0)), x);
}

fn acosh_T(x: T) -> T {
  if (is_nan_T(x) || x < 1.0) { return nan_T(); }
  if (x > 1.0e8) { return log_T(x) + LOG_2; }
  let t = x - 1.0;
  return log1p_T(t + sqrt(2.0 * t + t * t));
}

fn atanh_T(x: T) -> T {
  let a = abs(x);
  if (is_nan_T(x) || a > 1.0) { return nan_T(); }
  if (a == 1.0) { return signed_T(infinite_T(), x); }
  return signed_T(0.5 * log1p_T(2.0 * a / (1.0 - a)), x);
}

fn sin_T(x: T) -> T {
  if (x == 0.0) { return x; }
  if (!is_finite_T(x)) { return nan_T(); }
  let t = turned_T(x);
  var y = near_sine_T(t.rest);
  if ((t.quarter & 1u) == 1u) { y = near_cosine_T(t.rest); }
  if ((t.quarter & 2u) == 2u) { return -y; }
  return y;
}

fn cos_T(x: T) -> T {
  if (!is_finite_T(x)) { return nan_T(); }
  let t = turned_T(x);
  var y = near_cosine_T(t.rest);
  if ((t.quarter & 1u) == 1u) { y = near_sine_T(t.rest); }
  if (((t.quarter + 1u) & 2u) == 2u) { return -y; }
  return y;
}

fn tan_T(x: T) -> T {
  if (x == 0.0) { return x; }
  if (!is_finite_T(x)) { return nan_T(); }
  let t = turned_T(x);
  let s = near_sine_T(t.rest);
  let c = near_cosine_T(t.rest);
  if ((t.quarter & 1u) == 1u) { return -c / s; }
  return s / c;
}

fn near_sine_T(r: T) -> T {
  let z = r * r;
  return r + r * z * polynomial(z, SINE_FACTORS);
}

fn near_cosine_T(r: T) -> T {
  let z = r * r;
  return 1.0 - (0.5 * z - z * z * polynomial(z, COSINE_FACTORS));
}

fn atan2_T(y: T, x: T) -> T {
  if (is_nan_T(x) || is_nan_T(y)) { return nan_T(); }
  let is_left = (bitcast<BITS>(x) & SIGN) != NOTHING;
  if (y == 0.0) { return select(y, signed_T(PI, y), is_left); }
  if (x == 0.0) { return signed_T(HALF_PI, y); }
  var a: T = 0.0;
  if (is_infinite_T(x)) {
    if (is_infinite_T(y)) { a = QUARTER_PI; }
  } else if (is_infinite_T(y)) {
    a = HALF_PI;
  } else {
    // some devices divide by no number near the largest
    let scale = select(1.0, 9.31322574615478515625e-10, abs(x) > 1.0e30);
    a = atan_T((abs(y) * scale) / (abs(x) * scale));
  }
  return signed_T(select(a, PI - (a - REST_OF_PI), is_left), y);
}

fn asin_T(x: T) -> T {
  let a = abs(x);
  if (is_nan_T(x) || a > 1.0) { return nan_T(); }
  if (a < 0.5) { return x + asin_rest_T(a * a, x); }
  let z = 0.5 * (1.0 - a);
  let s = sqrt(z);
  return signed_T(HALF_PI - 2.0 * (s + asin_rest_T(z, s)), x);
}

fn acos_T(x: T) -> T {
  let a = abs(x);
  if (is_nan_T(x) || a > 1.0) { return nan_T(); }
  if (a < 0.5) { return HALF_PI - (x - (REST_OF_HALF_PI - asin_rest_T(a * a, x))); }
  let z = 0.5 * (1.0 - a);
  let s = sqrt(z);
  let y = 2.0 * (s + asin_rest_T(z, s));
  return select(y, PI - y, x < 0.0);
}

fn erf_inv_T(x: T) -> T {
  let a = abs(x);
  if (is_nan_T(x) || a > 1.0) { return nan_T(); }
  if (a == 1.0) { return signed_T(infinite_T(), x); }
  var y = near_erf_inv_T(a);
  if (a < SMALL_ERF_INV) { return signed_T(y, x); }
  // each step of Halley's triples the digits
  for (var i = 0; i < ERF_INV_STEPS; i += 1) {
    var off = erf_T(y) - a;
    if (a > 0.5) { off = (1.0 - a) - erfc_T(y); }
    let step = off * HALF_ROOT_OF_PI * exp_T(y * y);
    y = y - step / (1.0 + y * step);
  }
  return signed_T(y, x);
}
"""

_WORD = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_FLOAT = re.compile(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?")


def text_for(text: str, register: str) -> str:
    """The functions of a text for `f32` or `f64`.

    >>> print(text_for("fn log_2_T() -> T { return LOG_2; }", "f64"))
    fn log_2_f64() -> f64 { return 0.6931471805599453lf; }
    """
    is_double = register == "f64"
    text = _WORD.sub(lambda word: NUMBERS[word[0]][is_double], text)
    text = re.sub(r"(?<=_)T\b|\bT\b", register, text)
    return _FLOAT.sub(lambda number: f"{number[0]}lf", text) if is_double else text
