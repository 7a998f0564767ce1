"""WGSL for functions of float32.

The language promises little of its own ones: some may be off by 2**-11. These are a few units in
the last place off, whatever the argument.

exp, log           Cephes (S. Moshier, 1989)
erf, erfc          N. Juffa's erff and erfcf (2016)
erf_inv            M. Giles, "Approximating the erfinv function" (2010)
asin, acos, atan   Cephes (S. Moshier, 1989)
large arguments    after N. Juffa's reduction by 192 bits of 2 / pi
"""

TEXT = """
fn head_f32(x: f32) -> u32 {
  return bitcast<u32>(x);
}

fn of_head_f32(head: u32) -> f32 {
  return bitcast<f32>(head);
}

fn near_exp_f32(high: f32, low: f32) -> f32 {
  let r = high - low;
  let p = polynomial(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
    1.6666665459e-1, 5.0000001201e-1);
  return p * r * r + r + 1.0;
}

// log(1 + m) + e * log(2), for m near 0
fn near_log_f32(m: f32, e: f32) -> f32 {
  let z = m * m;
  let p = polynomial(m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
    1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1);
  let y = p * m * z + e * -2.12194440e-4 - 0.5 * z;
  return (m + y) + e * 0.693359375;
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
  let high = masked_f32(a, 0xfffff000u);
  let tail = exp_f32(-high * high) * exp_f32((high - a) * (high + a)) * factor;
  return select(tail, 2.0 - tail, x < 0.0);
}

// the inverse of erf to some digits, for 0 <= a < 1
fn near_erf_inv_f32(a: f32) -> f32 {
  var w = -log1p_f32(-a * a);
  if (a > 0.9) { w = -log_f32((1.0 - a) * (1.0 + a)); }
  if (w < 5.0) {
    let near = w - 2.5;
    return a * polynomial(near, 2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6,
      2.1858087e-4, -1.25372503e-3, -4.17768164e-3, 2.46640727e-1, 1.50140941);
  }
  let far = sqrt(w) - 3.0;
  return a * polynomial(far, -2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3,
    5.73950773e-3, -7.6224613e-3, 9.43887047e-3, 1.00167406, 2.83297682);
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

// what asin(x) is more than x, for z = x * x
fn asin_rest_f32(z: f32, x: f32) -> f32 {
  let p = polynomial(z, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2,
    1.6666752422e-1);
  return p * z * x;
}

fn atan_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  var a = abs(x);
  var start = 0.0;
  if (is_infinite_f32(x)) { return signed_f32(1.57079633, x); }
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

"""
