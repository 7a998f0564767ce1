"""WGSL for functions of float64, where a device has it.

The kernels are those of FreeBSD's e_exp.c, s_expm1.c, e_log.c, s_cbrt.c, e_pow.c, k_sin.c, k_cos.c,
s_atan.c, e_asin.c and s_erf.c (Sun Microsystems, 1993). Large arguments are multiplied by 2 / pi in
192 bits of those that count.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..erf_coefficients import AROUND_ONE, FAR, MIDDLE, NEAR


def _factors(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number!r}lf" for number in reversed(numbers))


RATIOS = "".join(
    f"""
fn {name}_erf_ratio(s: f64) -> f64 {{
  return polynomial(s, {_factors(over)}) / polynomial(s, {_factors(under)});
}}
"""
    for name, (over, under) in zip(
        ("near", "middle", "large", "far"), (NEAR, AROUND_ONE, MIDDLE, FAR), strict=True
    )
)
TEXT = (
    RATIOS
    + """
fn nan_f64() -> f64 {
  return f64(nan_f32());
}

fn infinite_f64() -> f64 {
  return f64(infinite_f32());
}

fn head_f64(x: f64) -> u32 {
  return u32(bitcast<u64>(x) >> 32u);
}

fn of_head_f64(head: u32) -> f64 {
  return bitcast<f64>(u64(head) << 32u);
}

// exp(high - low), where both are small
fn near_exp_f64(high: f64, low: f64) -> f64 {
  let r = high - low;
  let t = r * r;
  let p = polynomial(t, 4.13813679705723846039e-8lf, -1.65339022054652515390e-6lf,
    6.61375632143793436117e-5lf, -2.77777777770155933842e-3lf, 1.66666666666666019037e-1lf);
  let c = r - t * p;
  return 1.0lf - ((low - (r * c) / (2.0lf - c)) - high);
}

// log(1 + f) + k * log(2), for f near 0
fn near_log_f64(f: f64, k: f64) -> f64 {
  let s = f / (2.0lf + f);
  let z = s * s;
  let p = polynomial(z, 1.479819860511658591e-1lf, 1.531383769920937332e-1lf,
    1.818357216161805012e-1lf, 2.222219843214978396e-1lf, 2.857142874366239149e-1lf,
    3.999999999940941908e-1lf, 6.666666666666735130e-1lf);
  let half = 0.5lf * f * f;
  let low = s * (half + p * z) + k * 1.90821492927058770002e-10lf;
  return k * 6.93147180369123816490e-1lf - ((half - low) - f);
}

var<private> many_bits_of_two_over_pi: array<u32, 42> = array<u32, 42>(
  0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
  0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu,
  0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u,
  0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu,
  0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u,
  0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du
);

struct TurnedWide { quarter: u32, rest: f64 }

// x less the nearest multiple of a quarter turn, whose number modulo 4 is `quarter`
fn turned_f64(x: f64) -> TurnedWide {
  if (abs(x) > 1.0e6lf) { return turned_far_f64(x); }
  let n = round(x * 6.36619772367581382433e-1lf);
  let r = ((x - n * 1.57079632673412561417lf) - n * 6.07710050630396597660e-11lf)
    - n * 2.02226624871116645580e-21lf;
  return TurnedWide(bitcast<u32>(i32(n)), r);
}

// from the place where bits of 2 / pi give less than whole turns on
fn turned_far_f64(x: f64) -> TurnedWide {
  let bits = bitcast<u64>(x);
  let m = (bits & 0xffffffffffffflu) | 0x10000000000000lu;
  let first = u32((bits >> 52u) & 0x7fflu) - 1013u;
  let word = first / 32u;
  let shift = first % 32u;
  var product = array<u32, 8>();
  let factors = array<u32, 2>(u32(m & 0xfffffffflu), u32(m >> 32u));
  for (var part = 0u; part < 2u; part += 1u) {
    var carry = 0lu;
    for (var j = 0u; j < 6u; j += 1u) {
      var limb = many_bits_of_two_over_pi[word + 5u - j];
      if (shift > 0u) {
        limb = (limb << shift) | (many_bits_of_two_over_pi[word + 6u - j] >> (32u - shift));
      }
      carry = carry + u64(product[j + part]) + u64(limb) * u64(factors[part]);
      product[j + part] = u32(carry & 0xfffffffflu);
      carry = carry >> 32u;
    }
    product[6u + part] = u32(carry & 0xfffffffflu);
  }
  var quarter = product[5] >> 30u;
  product[5] = product[5] & 0x3fffffffu;
  let is_below = product[5] >= 0x20000000u;
  if (is_below) {
    quarter += 1u;
    var carry = 1lu;
    for (var j = 0u; j < 6u; j += 1u) {
      carry = carry + u64(~product[j]);
      product[j] = u32(carry & 0xfffffffflu);
      carry = carry >> 32u;
    }
    product[5] = product[5] & 0x3fffffffu;
  }
  var size = 0.0lf;
  for (var j = 0u; j < 6u; j += 1u) { size = size * 2.3283064365386963e-10lf + f64(product[j]); }
  size = size * 1.4629180792671596e-9lf;
  let is_negative = is_below != (x < 0.0lf);
  if (x < 0.0lf) { quarter = 0u - quarter; }
  if (is_negative) { size = -size; }
  return TurnedWide(quarter, size);
}

fn asin_rest_f64(z: f64, x: f64) -> f64 {
  let p = polynomial(z, 3.47933107596021167570e-5lf, 7.91534994289814532176e-4lf,
    -4.00555345006794114027e-2lf, 2.01212532134862925881e-1lf, -3.25565818622400915405e-1lf,
    1.66666666666666657415e-1lf);
  let q = polynomial(z, 7.70381505559019352791e-2lf, -6.88283971605453293030e-1lf,
    2.02094576023350569471lf, -2.40339491173441421878lf);
  return x * (p * z / (q * z + 1.0lf));
}

fn atan_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (!is_finite_f64(x)) { return signed_f64(1.5707963267948966lf, x); }
  var a = abs(x);
  var start = 0.0lf;
  if (a > 2.4375lf) {
    start = 1.5707963267948966lf;
    a = -1.0lf / a;
  } else if (a > 1.1875lf) {
    start = 9.82793723247329054082e-1lf;
    a = (a - 1.5lf) / (1.0lf + 1.5lf * a);
  } else if (a > 0.6875lf) {
    start = 7.85398163397448278999e-1lf;
    a = (a - 1.0lf) / (a + 1.0lf);
  } else if (a > 0.4375lf) {
    start = 4.63647609000806093515e-1lf;
    a = (2.0lf * a - 1.0lf) / (2.0lf + a);
  }
  let z = a * a;
  let p = polynomial(z, 1.62858201153657823623e-2lf, -3.65315727442169155270e-2lf,
    4.97687799461593236017e-2lf, -5.83357013379057348645e-2lf, 6.66107313738753120669e-2lf,
    -7.69187620504482999495e-2lf, 9.09088713343650656196e-2lf, -1.11111104054623557880e-1lf,
    1.42857142725034663711e-1lf, -1.99999999998764832476e-1lf, 3.33333333333329318027e-1lf);
  return signed_f64(start + (a - a * z * p), x);
}

fn erfc_tail(a: f64) -> f64 {
  let s = 1.0lf / (a * a);
  var ratio = 0.0lf;
  if (a < 2.857142857142857lf) {
    ratio = large_erf_ratio(s);
  } else {
    ratio = far_erf_ratio(s);
  }
  let z = masked_f64(a, 0xffffffff00000000lu);
  return exp_f64(-z * z - 0.5625lf) * exp_f64((z - a) * (z + a) + ratio) / a;
}

fn erf_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  let a = abs(x);
  if (a < 0.84375lf) { return x + x * near_erf_ratio(a * a); }
  if (a < 1.25lf) {
    return signed_f64(8.45062911510467529297e-1lf + middle_erf_ratio(a - 1.0lf), x);
  }
  if (a > 6.0lf) { return signed_f64(1.0lf, x); }
  return signed_f64(1.0lf - erfc_tail(a), x);
}

fn erfc_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  let a = abs(x);
  if (a < 0.84375lf) {
    let y = near_erf_ratio(a * a);
    if (x < 0.25lf) { return 1.0lf - (x + x * y); }
    return 0.5lf - (x - 0.5lf + x * y);
  }
  if (a < 1.25lf) {
    let y = middle_erf_ratio(a - 1.0lf);
    if (x > 0.0lf) { return 1.54937088489532470703e-1lf - y; }
    return 1.0lf + (8.45062911510467529297e-1lf + y);
  }
  if (a > 28.0lf) {
    if (x > 0.0lf) { return 0.0lf; }
    return 2.0lf;
  }
  let tail = erfc_tail(a);
  if (x < 0.0lf) { return 2.0lf - tail; }
  return tail;
}

// S. Winitzki, "A handy approximation for the error function and its inverse" (2008)
fn near_erf_inv_f64(a: f64) -> f64 {
  if (a < 1.0e-9lf) { return a * 0.886226925452758lf; }
  let log = log_f64((1.0lf - a) * (1.0lf + a));
  let middle = 4.330746750799873lf + 0.5lf * log;
  return sqrt(sqrt(middle * middle - log * 6.802721088435374lf) - middle);
}
"""
)
