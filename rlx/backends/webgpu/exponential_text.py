"""WGSL for exponentials, logarithms and hyperbolic functions of float32.

The language promises little of its own ones. These are a few units in the last place off.

exp, log   Cephes (S. Moshier, 1989)
expm1      FreeBSD's s_expm1f.c (Sun Microsystems, 1993)
pow        FreeBSD's e_powf.c
"""

TEXT = """
fn exp_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  if (x > 88.722839) { return infinite_f32(); }
  if (x < -104.0) { return 0.0; }
  let n = round(x * 1.44269504);
  let r = (x - n * 0.693359375) - n * -2.12194440e-4;
  let p = polynomial(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
    1.6666665459e-1, 5.0000001201e-1);
  return scaled_f32(p * r * r + r + 1.0, i32(n));
}

fn exp2_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  if (x >= 128.0) { return infinite_f32(); }
  if (x < -150.0) { return 0.0; }
  let n = round(x);
  return scaled_f32(exp_f32((x - n) * 0.693147181), i32(n));
}

fn log_f32(x: f32) -> f32 {
  if (is_nan_f32(x) || x < 0.0) { return nan_f32(); }
  if (x == 0.0) { return -infinite_f32(); }
  if (is_infinite(x)) { return x; }
  var bits = bitcast<u32>(x);
  var e = 0.0;
  if (bits < 0x00800000u) {
    bits = bitcast<u32>(f32(bits));
    e = -149.0;
  }
  e += f32(i32(bits >> 23u) - 126);
  var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f000000u);
  if (bits < 0x00800000u) { return -infinite_f32(); }
  if (m < 0.707106781) {
    e -= 1.0;
    m = m + m - 1.0;
  } else {
    m = m - 1.0;
  }
  return near_log(m, e);
}

fn log1p_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  if (x > -0.29 && x < 0.41) { return near_log(x, 0.0); }
  return log_f32(1.0 + x);
}

// log(1 + m) + e * log(2), for m near 0
fn near_log(m: f32, e: f32) -> f32 {
  if (abs(m) < 1.0e-8 && e == 0.0) { return m; }
  let z = m * m;
  let p = polynomial(m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
    1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1);
  let y = p * m * z + e * -2.12194440e-4 - 0.5 * z;
  return (m + y) + e * 0.693359375;
}

fn sinh_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  let a = abs(x);
  if (a > 80.0) {
    let h = exp_f32(0.5 * a);
    return signed_f32(0.5 * h * h, x);
  }
  let t = expm1_f32(a);
  let y = select(0.5 * (t + t / (t + 1.0)), 0.5 * (2.0 * t - t * t / (t + 1.0)), a < 1.0);
  return signed_f32(y, x);
}

fn cbrt_f32(x: f32) -> f32 {
  if (is_nan_f32(x) || is_infinite(x)) { return x; }
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits == 0u) { return x; }
  if (bits < 0x00800000u) { return signed_f32(root(2.0 * f32(bits)) * 8.88178420e-16, x); }
  return signed_f32(root(abs(x)), x);
}

fn root(a: f32) -> f32 {
  var t = bitcast<f32>(bitcast<u32>(a) / 3u + 709958130u);
  t = t - (t - a / (t * t)) * 0.333333333;
  t = t - (t - a / (t * t)) * 0.333333333;
  return t - (t - a / (t * t)) * 0.333333333;
}

fn is_odd(y: f32) -> bool {
  let a = abs(y);
  return a < 16777216.0 && floor(a) == a && (u32(a) & 1u) == 1u;
}

fn pow_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0 || equals_f32(x, 1.0)) { return 1.0; }
  if (is_nan_f32(x) || is_nan_f32(y)) { return nan_f32(); }
  let a = abs(x);
  let is_whole = is_infinite(y) || abs(y) >= 8388608.0 || floor(y) == y;
  if (is_infinite(y)) {
    if (a == 1.0) { return 1.0; }
    return select(0.0, infinite_f32(), (a > 1.0) == (y > 0.0));
  }
  let flips = (bitcast<u32>(x) >> 31u) == 1u && is_odd(y);
  var size = 0.0;
  if ((bitcast<u32>(x) & 0x7fffffffu) == 0u || is_infinite(x)) {
    size = select(0.0, infinite_f32(), is_infinite(x) == (y > 0.0));
  } else {
    if (x < 0.0 && !is_whole) { return nan_f32(); }
    size = positive_power(a, y);
  }
  return select(size, -size, flips);
}

fn positive_power(x: f32, y: f32) -> f32 {
  if (abs(y) > 4.0e9) {
    if (x == 1.0) { return 1.0; }
    return select(0.0, infinite_f32(), (x > 1.0) == (y > 0.0));
  }
  var bits = bitcast<u32>(x);
  var n = 0;
  if (bits < 0x00800000u) {
    bits = bitcast<u32>(f32(bits));
    n = -149;
  }
  n += i32(bits >> 23u) - 127;
  let rest = bits & 0x7fffffu;
  var whole = rest | 0x3f800000u;
  var k = 0u;
  if (rest > 0x1cc471u && rest < 0x5db3d7u) {
    k = 1u;
  } else if (rest >= 0x5db3d7u) {
    n += 1;
    whole -= 0x00800000u;
  }
  let a = bitcast<f32>(whole);
  let base = select(1.0, 1.5, k == 1u);
  // log2(x) as a sum of two numbers
  let u = a - base;
  let v = 1.0 / (a + base);
  let s = u * v;
  let s_high = top_bits(s, 0xfffff000u);
  let up = ((whole >> 1u) & 0xfffff000u) | 0x20000000u;
  var t_high = bitcast<f32>(up + 0x00400000u + (k << 21u));
  var t_low = a - (t_high - base);
  let s_low = v * ((u - s_high * t_high) - s_high * t_low);
  let square = s * s;
  let p = polynomial(square, 2.0697501302e-1, 2.3066075146e-1, 2.7272811532e-1, 3.3333334327e-1,
    4.2857143283e-1, 6.0000002384e-1);
  let r = square * square * p + s_low * (s_high + s);
  let high_square = s_high * s_high;
  t_high = top_bits(3.0 + high_square + r, 0xfffff000u);
  t_low = r - ((t_high - 3.0) - high_square);
  let first = s_high * t_high;
  let second = s_low * t_high + t_low * s;
  let p_high = top_bits(first + second, 0xfffff000u);
  let p_low = second - (p_high - first);
  let z_high = 9.6191406250e-1 * p_high;
  let start = select(0.0, 5.84960938e-1, k == 1u);
  let start_low = select(0.0, 1.56322085e-6, k == 1u);
  let z_low = -1.1736857402e-4 * p_high + p_low * 9.6179670095e-1 + start_low;
  let t = f32(n);
  let t1 = top_bits(((z_high + z_low) + start) + t, 0xfffff000u);
  let t2 = z_low - (((t1 - t) - start) - z_high);
  // times y
  let y1 = top_bits(y, 0xfffff000u);
  let low = (y - y1) * t1 + y * t2;
  let high = y1 * t1;
  let z = low + high;
  if (z >= 128.5) { return infinite_f32(); }
  if (z < -151.0) { return 0.0; }
  let m = round(z);
  let left = high - m;
  let e_high = top_bits(low + left, 0xffff8000u);
  let e_first = e_high * 6.93145752e-1;
  let e_second = (low - (e_high - left)) * 6.9314718246e-1 + e_high * 1.42860654e-6;
  return scaled_f32(exp_f32(e_first + e_second), i32(m));
}
"""
