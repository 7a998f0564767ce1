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

fn signed_f64(x: f64, sign_of: f64) -> f64 {
  let sign_bit = bitcast<u64>(sign_of) & 0x8000000000000000lu;
  return bitcast<f64>((bitcast<u64>(x) & 0x7ffffffffffffffflu) | sign_bit);
}

fn top_f64(x: f64) -> f64 {
  return bitcast<f64>(bitcast<u64>(x) & 0xffffffff00000000lu);
}

fn scaled_f64(x: f64, n: i32) -> f64 {
  let half = n / 2;
  let first = bitcast<f64>(u64(u32(half + 1023)) << 52u);
  let second = bitcast<f64>(u64(u32(n - half + 1023)) << 52u);
  return x * first * second;
}

// exp(high - low), where both are small
fn near_exp(high: f64, low: f64) -> f64 {
  let r = high - low;
  let t = r * r;
  let p = polynomial(t, 4.13813679705723846039e-8lf, -1.65339022054652515390e-6lf,
    6.61375632143793436117e-5lf, -2.77777777770155933842e-3lf, 1.66666666666666019037e-1lf);
  let c = r - t * p;
  return 1.0lf - ((low - (r * c) / (2.0lf - c)) - high);
}

fn exp_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (x > 709.782712893384lf) { return infinite_f64(); }
  if (x < -745.2lf) { return 0.0lf; }
  let n = round(x * 1.4426950408889634lf);
  let y = near_exp(x - n * 6.93147180369123816490e-1lf, n * 1.90821492927058770002e-10lf);
  return scaled_f64(y, i32(n));
}

fn exp2_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (x >= 1024.0lf) { return infinite_f64(); }
  if (x < -1076.0lf) { return 0.0lf; }
  let n = round(x);
  return scaled_f64(near_exp((x - n) * 6.931471805599453e-1lf, 0.0lf), i32(n));
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

fn log_f64(x: f64) -> f64 {
  if (is_nan_f64(x) || x < 0.0lf) { return nan_f64(); }
  if (x == 0.0lf) { return -infinite_f64(); }
  if (!is_finite_f64(x)) { return x; }
  var a = x;
  var k = 0;
  if (a < 2.2250738585072014e-308lf) {
    a = a * 18014398509481984.0lf;
    k = -54;
  }
  let bits = bitcast<u64>(a);
  k += i32(u32(bits >> 52u)) - 1023;
  var m = bitcast<f64>((bits & 0xffffffffffffflu) | 0x3ff0000000000000lu);
  if (m > 1.4142135623730951lf) {
    m = m * 0.5lf;
    k += 1;
  }
  return near_log_f64(m - 1.0lf, f64(k));
}

fn log1p_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (abs(x) < 1.0e-17lf) { return x; }
  if (x > -0.29lf && x < 0.41lf) { return near_log_f64(x, 0.0lf); }
  return log_f64(1.0lf + x);
}

fn sinh_f64(x: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  let a = abs(x);
  if (a > 700.0lf) {
    let h = exp_f64(0.5lf * a);
    return signed_f64(0.5lf * h * h, x);
  }
  if (a > 40.0lf) { return signed_f64(0.5lf * exp_f64(a), x); }
  let t = expm1_f64(a);
  if (a < 1.0lf) { return signed_f64(0.5lf * (2.0lf * t - t * t / (t + 1.0lf)), x); }
  return signed_f64(0.5lf * (t + t / (t + 1.0lf)), x);
}

fn cbrt_f64(x: f64) -> f64 {
  if (!is_finite_f64(x) || x == 0.0lf) { return x; }
  var a = abs(x);
  var back = 1.0lf;
  if (a < 2.2250738585072014e-308lf) {
    a = a * 18014398509481984.0lf;
    back = 3.814697265625e-6lf;
  }
  let start = u32(bitcast<u64>(a) >> 32u) / 3u + 715094163u;
  var t = bitcast<f64>(u64(start) << 32u);
  for (var i = 0; i < 5; i += 1) { t = t - (t - a / (t * t)) * 0.3333333333333333lf; }
  return signed_f64(t * back, x);
}

fn rem_f64(x: f64, y: f64) -> f64 {
  let sign_bit = bitcast<u64>(x) & 0x8000000000000000lu;
  let a = bitcast<u64>(x) & 0x7ffffffffffffffflu;
  let b = bitcast<u64>(y) & 0x7ffffffffffffffflu;
  if (b == 0lu || a >= 0x7ff0000000000000lu || b > 0x7ff0000000000000lu) { return nan_f64(); }
  if (a < b) { return x; }
  var size = max(i32(u32(a >> 52u)), 1);
  let least = max(i32(u32(b >> 52u)), 1);
  var top = a & 0xffffffffffffflu;
  if ((a >> 52u) > 0lu) { top = top | 0x10000000000000lu; }
  var low = b & 0xffffffffffffflu;
  if ((b >> 52u) > 0lu) { low = low | 0x10000000000000lu; }
  while (size > least) {
    top = (top - top / low * low) << 1u;
    size -= 1;
  }
  top = top - top / low * low;
  if (top == 0lu) { return bitcast<f64>(sign_bit); }
  while (top < 0x10000000000000lu && size > 1) {
    top = top << 1u;
    size -= 1;
  }
  if (top < 0x10000000000000lu) { return bitcast<f64>(top | sign_bit); }
  return bitcast<f64>((top & 0xffffffffffffflu) | (u64(u32(size)) << 52u) | sign_bit);
}

fn pow_f64(x: f64, y: f64) -> f64 {
  if (y == 0.0lf || equals_f64(x, 1.0lf)) { return 1.0lf; }
  if (is_nan_f64(x) || is_nan_f64(y)) { return nan_f64(); }
  let a = abs(x);
  if (!is_finite_f64(y)) {
    if (a == 1.0lf) { return 1.0lf; }
    if ((a > 1.0lf) == (y > 0.0lf)) { return infinite_f64(); }
    return 0.0lf;
  }
  let size = abs(y);
  let is_whole = floor(size) == size;
  let is_odd = is_whole && size < 9007199254740992.0lf && floor(size * 0.5lf) * 2.0lf != size;
  let is_negative = (bitcast<u64>(x) >> 63u) == 1lu;
  var result = 0.0lf;
  if (x == 0.0lf || !is_finite_f64(x)) {
    if ((x == 0.0lf) != (y > 0.0lf)) { result = infinite_f64(); }
  } else {
    if (is_negative && !is_whole) { return nan_f64(); }
    result = positive_power_f64(a, y);
  }
  if (is_negative && is_odd) { return -result; }
  return result;
}

fn positive_power_f64(x: f64, y: f64) -> f64 {
  if (x == 1.0lf) { return 1.0lf; }
  if (abs(y) > 1.0e19lf) {
    if ((x > 1.0lf) == (y > 0.0lf)) { return infinite_f64(); }
    return 0.0lf;
  }
  var a = x;
  var n = 0;
  if (a < 2.2250738585072014e-308lf) {
    a = a * 9007199254740992.0lf;
    n = -53;
  }
  let bits = bitcast<u64>(a);
  n += i32(u32(bits >> 52u)) - 1023;
  let rest = u32(bits >> 32u) & 0xfffffu;
  var high = rest | 0x3ff00000u;
  var k = 0u;
  if (rest > 0x3988eu && rest < 0xbb67au) {
    k = 1u;
  } else if (rest >= 0xbb67au) {
    n += 1;
    high -= 0x00100000u;
  }
  a = bitcast<f64>((u64(high) << 32u) | (bits & 0xfffffffflu));
  var base = 1.0lf;
  var start = 0.0lf;
  var start_low = 0.0lf;
  if (k == 1u) {
    base = 1.5lf;
    start = 5.84962487220764160156e-1lf;
    start_low = 1.35003920212974897128e-8lf;
  }
  // log2(x) as a sum of two numbers
  let u = a - base;
  let v = 1.0lf / (a + base);
  let s = u * v;
  let s_high = top_f64(s);
  let up = ((high >> 1u) | 0x20000000u) + 0x00080000u + (k << 18u);
  var t_high = bitcast<f64>(u64(up) << 32u);
  var t_low = a - (t_high - base);
  let s_low = v * ((u - s_high * t_high) - s_high * t_low);
  let square = s * s;
  let p = polynomial(square, 2.06975017800338417784e-1lf, 2.30660745775561754067e-1lf,
    2.72728123808534006489e-1lf, 3.33333329818377432918e-1lf, 4.28571428578550184252e-1lf,
    5.99999999999994648725e-1lf);
  let r = square * square * p + s_low * (s_high + s);
  let high_square = s_high * s_high;
  t_high = top_f64(3.0lf + high_square + r);
  t_low = r - ((t_high - 3.0lf) - high_square);
  let first = s_high * t_high;
  let second = s_low * t_high + t_low * s;
  let p_high = top_f64(first + second);
  let p_low = second - (p_high - first);
  let z_high = 9.61796700954437255859e-1lf * p_high;
  let z_low = -7.02846165095275826516e-9lf * p_high + p_low * 9.61796693925975554329e-1lf
    + start_low;
  let t = f64(n);
  let t1 = top_f64(((z_high + z_low) + start) + t);
  let t2 = z_low - (((t1 - t) - start) - z_high);
  // times y
  let y1 = top_f64(y);
  let low = (y - y1) * t1 + y * t2;
  let whole = y1 * t1;
  let z = low + whole;
  if (z >= 1024.5lf) { return infinite_f64(); }
  if (z < -1078.0lf) { return 0.0lf; }
  let m = round(z);
  let left = whole - m;
  let e_high = top_f64(low + left);
  let e_first = e_high * 6.93147182464599609375e-1lf;
  let e_second = (low - (e_high - left)) * 6.93147180559945286227e-1lf
    + e_high * -1.90465429995776804525e-9lf;
  return scaled_f64(near_exp(e_first, -e_second), i32(m));
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

fn near_sine_f64(r: f64) -> f64 {
  let z = r * r;
  let p = polynomial(z, 1.58969099521155010221e-10lf, -2.50507602534068634195e-8lf,
    2.75573137070700676789e-6lf, -1.98412698298579493134e-4lf, 8.33333333332248946124e-3lf,
    -1.66666666666666324348e-1lf);
  return r + r * z * p;
}

fn near_cosine_f64(r: f64) -> f64 {
  let z = r * r;
  let p = polynomial(z, -1.13596475577881948265e-11lf, 2.08757232129817482790e-9lf,
    -2.75573143513906633035e-7lf, 2.48015872894767294178e-5lf, -1.38888888888741095749e-3lf,
    4.16666666666666019037e-2lf);
  return 1.0lf - (0.5lf * z - z * z * p);
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

fn atan2_f64(y: f64, x: f64) -> f64 {
  if (is_nan_f64(x) || is_nan_f64(y)) { return nan_f64(); }
  let is_left = (bitcast<u64>(x) >> 63u) == 1lu;
  if (y == 0.0lf) {
    if (is_left) { return signed_f64(3.141592653589793lf, y); }
    return y;
  }
  if (x == 0.0lf) { return signed_f64(1.5707963267948966lf, y); }
  var a = 0.0lf;
  if (!is_finite_f64(x)) {
    if (!is_finite_f64(y)) { a = 0.7853981633974483lf; }
  } else if (!is_finite_f64(y)) {
    a = 1.5707963267948966lf;
  } else {
    a = atan_f64(abs(y) / abs(x));
  }
  if (is_left) { a = 3.141592653589793lf - (a - 1.2246467991473532e-16lf); }
  return signed_f64(a, y);
}

fn asin_ratio(z: f64) -> f64 {
  let p = polynomial(z, 3.47933107596021167570e-5lf, 7.91534994289814532176e-4lf,
    -4.00555345006794114027e-2lf, 2.01212532134862925881e-1lf, -3.25565818622400915405e-1lf,
    1.66666666666666657415e-1lf);
  let q = polynomial(z, 7.70381505559019352791e-2lf, -6.88283971605453293030e-1lf,
    2.02094576023350569471lf, -2.40339491173441421878lf);
  return p * z / (q * z + 1.0lf);
}

fn asin_f64(x: f64) -> f64 {
  let a = abs(x);
  if (is_nan_f64(x) || a > 1.0lf) { return nan_f64(); }
  if (a < 0.5lf) { return x + x * asin_ratio(a * a); }
  let z = 0.5lf * (1.0lf - a);
  let s = sqrt(z);
  return signed_f64(1.5707963267948966lf - 2.0lf * (s + s * asin_ratio(z)), x);
}

fn acos_f64(x: f64) -> f64 {
  let a = abs(x);
  if (is_nan_f64(x) || a > 1.0lf) { return nan_f64(); }
  if (a < 0.5lf) {
    return 1.5707963267948966lf - (x - (6.123233995736766e-17lf - x * asin_ratio(a * a)));
  }
  let z = 0.5lf * (1.0lf - a);
  let s = sqrt(z);
  let y = 2.0lf * (s + s * asin_ratio(z));
  if (x < 0.0lf) { return 3.141592653589793lf - y; }
  return y;
}

fn erfc_tail(a: f64) -> f64 {
  let s = 1.0lf / (a * a);
  var ratio = 0.0lf;
  if (a < 2.857142857142857lf) {
    ratio = large_erf_ratio(s);
  } else {
    ratio = far_erf_ratio(s);
  }
  let z = top_f64(a);
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

fn erf_inv_f64(x: f64) -> f64 {
  let a = abs(x);
  if (is_nan_f64(x) || a > 1.0lf) { return nan_f64(); }
  if (a == 1.0lf) { return signed_f64(infinite_f64(), x); }
  if (a < 1.0e-9lf) { return x * 0.886226925452758lf; }
  // Winitzki's start is good to three digits; each step of Halley's triples them
  let log = log_f64((1.0lf - a) * (1.0lf + a));
  let middle = 4.330746750799873lf + 0.5lf * log;
  var y = sqrt(sqrt(middle * middle - log * 6.802721088435374lf) - middle);
  for (var i = 0; i < 3; i += 1) {
    var off = erf_f64(y) - a;
    if (a > 0.5lf) { off = (1.0lf - a) - erfc_f64(y); }
    let step = off * 0.886226925452758lf * exp_f64(y * y);
    y = y - step / (1.0lf + y * step);
  }
  return signed_f64(y, x);
}
"""
)
