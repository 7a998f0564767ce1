"""WGSL for trigonometric functions of float32 and their inverses.

The language's own ones may be off by 2**-11. These are a few units in the last place off, whatever
the argument.

asin, acos, atan   Cephes (S. Moshier, 1989)
large arguments    after N. Juffa's reduction by 192 bits of 2 / pi
"""

TEXT = """
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
