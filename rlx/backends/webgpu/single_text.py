"""WGSL for functions of float32.

The language promises little of its own ones: some may be off by 2**-11. These are a few units in
the last place off, whatever the argument.

exp, log           Cephes (S. Moshier, 1989)
pow                FreeBSD's e_powf.c
erf, erfc          N. Juffa's erff and erfcf (2016)
erf_inv            M. Giles, "Approximating the erfinv function" (2010), then a step of Newton's
asin, acos, atan   Cephes (S. Moshier, 1989)
large arguments    after N. Juffa's reduction by 192 bits of 2 / pi
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

fn near_erf(x: f32) -> f32 {
  let s = x * x;
  let p = polynomial(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
    -3.76125336e-1, 1.28379166e-1);
  return p * x + x;
}

fn erf_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  let t = abs(x);
  if (t <= 0.927734375) { return near_erf(x); }
  if (t > 4.0) { return signed_f32(1.0, x); }
  let s = x * x;
  var r = -1.72853470e-5 * t + 3.83197126e-4;
  let u = -3.88396438e-3 * t + 2.42546219e-2;
  r = r * s + u;
  r = r * t - 1.06777877e-1;
  r = r * t - 6.34846687e-1;
  r = r * t - 1.28717512e-1;
  r = r * t - t;
  return signed_f32(1.0 - exp_f32(r), x);
}

fn erfc_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  let a = min(abs(x), 28.0);
  if (a < 0.25) { return 1.0 - near_erf(x); }
  let q = (a - 2.0) / (a + 2.0);
  let p = polynomial(q, -4.01139259e-4, -1.23075210e-3, 1.31355342e-3, 8.63227434e-3,
    -8.05991981e-3, -5.42046614e-2, 1.64055392e-1, -1.66031361e-1, -9.27639827e-2, 2.76978403e-1);
  let factor = (1.0 + p) / (1.0 + 2.0 * a);
  // the square of the upper bits is exact
  let high = top_bits(a, 0xfffff000u);
  let tail = exp_f32(-high * high) * exp_f32((high - a) * (high + a)) * factor;
  return select(tail, 2.0 - tail, x < 0.0);
}

fn erf_inv_f32(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan_f32(x) || a > 1.0) { return nan_f32(); }
  if (a == 1.0) { return signed_f32(infinite_f32(), x); }
  var w = -log1p_f32(-x * x);
  var p = 0.0;
  if (a > 0.9) { w = -log_f32((1.0 - a) * (1.0 + a)); }
  if (w < 5.0) {
    w = w - 2.5;
    p = polynomial(w, 2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 2.1858087e-4,
      -1.25372503e-3, -4.17768164e-3, 2.46640727e-1, 1.50140941);
  } else {
    w = sqrt(w) - 3.0;
    p = polynomial(w, -2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3, 5.73950773e-3,
      -7.6224613e-3, 9.43887047e-3, 1.00167406, 2.83297682);
  }
  let y = p * a;
  if (a < 1.0e-4) { return signed_f32(y, x); }
  let off = select(erf_f32(y) - a, (1.0 - a) - erfc_f32(y), a > 0.5);
  let step = off * 0.886226925 * exp_f32(y * y);
  return signed_f32(y - step / (1.0 + y * step), x);
}

struct Turned { quarter: u32, rest: f32 }

// x less the nearest multiple of a quarter turn, whose number modulo 4 is `quarter`
fn turned_f32(x: f32) -> Turned {
  if (abs(x) > 1000.0) { return turned_far(x); }
  let n = round(x * 0.636619772);
  let r = ((x - n * 1.5703125) - n * 4.837512969970703e-4) - n * 7.549789948768648e-8;
  return Turned(bitcast<u32>(i32(n)), r);
}

fn two_over_pi(i: u32) -> u32 {
  switch i {
    case 1u: { return 0x28be60dbu; }
    case 2u: { return 0x9391054au; }
    case 3u: { return 0x7f09d5f4u; }
    case 4u: { return 0x7d4d3770u; }
    case 5u: { return 0x36d8a566u; }
    case 6u: { return 0x4f10e410u; }
    default: { return 0u; }
  }
}

fn product_high(x: u32, y: u32) -> u32 {
  let x0 = x & 0xffffu;
  let x1 = x >> 16u;
  let y0 = y & 0xffffu;
  let y1 = y >> 16u;
  let low = x0 * y0;
  let middle = x1 * y0 + (low >> 16u);
  let other = x0 * y1 + (middle & 0xffffu);
  return x1 * y1 + (middle >> 16u) + (other >> 16u);
}

fn turned_far(x: f32) -> Turned {
  if (!is_finite_f32(x)) { return Turned(0u, nan_f32()); }
  let bits = bitcast<u32>(x);
  let e = ((bits >> 23u) & 0xffu) - 126u;
  let m = (bits << 8u) | 0x80000000u;
  let i = e >> 5u;
  let shift = e & 31u;
  var high = two_over_pi(i);
  var middle = two_over_pi(i + 1u);
  var low = two_over_pi(i + 2u);
  if (shift > 0u) {
    let next = two_over_pi(i + 3u);
    high = (high << shift) | (middle >> (32u - shift));
    middle = (middle << shift) | (low >> (32u - shift));
    low = (low << shift) | (next >> (32u - shift));
  }
  // the product with m in 64 bits, of which the upper two count quarter turns
  let carried = product_high(m, low);
  let p_low = m * middle + carried;
  let p_high = product_high(m, middle) + select(0u, 1u, p_low < carried) + m * high;
  var quarter = p_high >> 30u;
  var top = p_high & 0x3fffffffu;
  var bottom = p_low;
  var is_below = false;
  if ((top & 0x20000000u) != 0u) {
    quarter += 1u;
    is_below = true;
    bottom = ~p_low + 1u;
    top = (~top & 0x3fffffffu) + select(0u, 1u, bottom == 0u);
  }
  let size = (f32(top) * 4294967296.0 + f32(bottom)) * 3.40612158e-19;
  let is_negative = is_below != (x < 0.0);
  return Turned(select(quarter, 0u - quarter, x < 0.0), select(size, -size, is_negative));
}

fn near_sine_f32(r: f32) -> f32 {
  let z = r * r;
  let p = polynomial(z, -1.95152959e-4, 8.33216087e-3, -1.66666546e-1);
  return p * z * r + r;
}

fn near_cosine_f32(r: f32) -> f32 {
  let z = r * r;
  let p = polynomial(z, 2.44331571e-5, -1.38873162e-3, 4.16666456e-2);
  return p * z * z - 0.5 * z + 1.0;
}

fn atan_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  var a = abs(x);
  var start = 0.0;
  if (is_infinite(x)) { return signed_f32(1.57079633, x); }
  if (a > 2.41421356) {
    start = 1.57079633;
    a = -1.0 / a;
  } else if (a > 0.414213562) {
    start = 0.785398163;
    a = (a - 1.0) / (a + 1.0);
  }
  let z = a * a;
  let p = polynomial(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1);
  return signed_f32(start + (p * z * a + a), x);
}

fn atan2_f32(y: f32, x: f32) -> f32 {
  if (is_nan_f32(x) || is_nan_f32(y)) { return nan_f32(); }
  let is_left = (bitcast<u32>(x) >> 31u) == 1u;
  if (y == 0.0) { return select(y, signed_f32(3.14159265, y), is_left); }
  if (x == 0.0) { return signed_f32(1.57079633, y); }
  if (is_infinite(x)) {
    let near = select(0.0, 3.14159265, is_left);
    let far = select(0.785398163, 2.35619449, is_left);
    return signed_f32(select(near, far, is_infinite(y)), y);
  }
  if (is_infinite(y)) { return signed_f32(1.57079633, y); }
  var over = abs(y);
  var under = abs(x);
  if (under > 1.0e30) {
    over *= 9.3132257e-10;
    under *= 9.3132257e-10;
  }
  let a = atan_f32(over / under);
  return signed_f32(select(a, 3.14159265 - (a + 8.74227766e-8), is_left), y);
}

fn small_asin(z: f32, x: f32) -> f32 {
  let p = polynomial(z, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2,
    1.6666752422e-1);
  return p * z * x + x;
}

fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan_f32(x) || a > 1.0) { return nan_f32(); }
  if (a > 0.5) {
    let z = 0.5 * (1.0 - a);
    return signed_f32(1.57079633 - 2.0 * small_asin(z, sqrt(z)), x);
  }
  return signed_f32(small_asin(a * a, a), x);
}

fn acos_f32(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan_f32(x) || a > 1.0) { return nan_f32(); }
  if (a > 0.5) {
    let z = 0.5 * (1.0 - a);
    let y = 2.0 * small_asin(z, sqrt(z));
    return select(y, 3.14159265 - y, x < 0.0);
  }
  return 1.57079633 - (small_asin(a * a, x));
}
"""
