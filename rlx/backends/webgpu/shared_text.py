"""WGSL for functions that float32 and float64 compute alike, but for some numbers.

expm1   FreeBSD's s_expm1f.c and s_expm1.c (Sun Microsystems, 1993)
"""

from __future__ import annotations

import re

NUMBERS = {
    "MOST_EXP": ("88.722839", "709.782712893384"),
    "LEAST_EXPM1": ("18.0", "40.0"),
    "HALF_LOG_2": ("0.34657359", "0.34657359027997264"),
    "ONE_OVER_LOG_2": ("1.44269504", "1.4426950408889634"),
    "LOG_2": ("0.693147181", "0.6931471805599453"),
    "LOG_2_HIGH": ("0.693138123", "6.93147180369123816490e-1"),
    "LOG_2_LOW": ("9.05800061e-6", "1.90821492927058770002e-10"),
    "EXPM1_FACTORS": (
        "1.5807170421e-3, -3.3333212137e-2",
        "-2.01099218183624371326e-7, 4.00821782732936239552e-6, "
        "-7.93650757867487942473e-5, 1.58730158725481460165e-3, "
        "-3.33333333333331316428e-2",
    ),
    "MIDDLE": ("23", "20"),
    "FLAT_TANH": ("10.0", "22.0"),
    "SMALL_TANH": ("0.5493061", "0.5493"),
    "LARGE_COSH": ("80.0", "700.0"),
}
"""What stands for a word in the text: in float32, in float64."""

TEXT = """
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
"""

_WORD = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_FLOAT = re.compile(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?")


def text_for(register: str) -> str:
    """The functions for `f32` or `f64`.

    >>> print(text_for("f64").split("\\n\\n")[1])
    fn logistic_f64(x: f64) -> f64 {
      return 1.0lf / (1.0lf + exp_f64(-x));
    }
    """
    is_double = register == "f64"
    text = _WORD.sub(lambda word: NUMBERS[word[0]][is_double], TEXT)
    text = re.sub(r"(?<=_)T\b|\bT\b", register, text)
    return _FLOAT.sub(lambda number: f"{number[0]}lf", text) if is_double else text
