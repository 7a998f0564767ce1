"""WGSL for exponentials and logarithms of float64, where a device has it.

The kernels are those of e_exp.c, s_expm1.c, e_log.c, s_cbrt.c and e_pow.c (Sun Microsystems, 1993).
"""

TEXT = """
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
"""
