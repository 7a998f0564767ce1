"""WGSL for bits, comparisons, integers and conversions, also of 64 bits.

A compiler of WGSL may assume that no number is NaN or infinite. So tests for those are tests of
bits, and such constants are made from variables, which no compiler evaluates.
"""

TEXT = """
var<private> infinity_bits: u32 = 0x7f800000u;
var<private> nan_bits: u32 = 0x7fc00000u;
var<private> zero_bits: u32 = 0u;

// 0, which a kernel sets from what no compiler knows: x * 0.0 is taken for 0.0 by some
fn hidden_zero() -> f32 {
  return bitcast<f32>(zero_bits);
}

// -x, of which no compiler sees that x - x is 0.0, for it is not if x is infinite
fn minus_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

fn is_nan_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_finite_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn is_infinite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn infinite_f32() -> f32 {
  return bitcast<f32>(infinity_bits);
}

fn nan_f32() -> f32 {
  return bitcast<f32>(nan_bits);
}

fn signed_f32(x: f32, signed: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(signed) & 0x80000000u));
}

fn top_bits(x: f32, mask: u32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & mask);
}

fn power_of_two(n: i32) -> f32 {
  return bitcast<f32>(u32(n + 127) << 23u);
}

fn scaled_f32(x: f32, n: i32) -> f32 {
  let half = n / 2;
  return x * power_of_two(half) * power_of_two(n - half);
}

fn equals_f32(x: f32, y: f32) -> bool {
  return x == y && !is_nan_f32(x) && !is_nan_f32(y);
}

fn max_f32(x: f32, y: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  if (is_nan_f32(y)) { return y; }
  return select(y, x, x > y);
}

fn min_f32(x: f32, y: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  if (is_nan_f32(y)) { return y; }
  return select(y, x, x < y);
}

fn sign_f32(x: f32) -> f32 {
  if (is_nan_f32(x)) { return x; }
  return select(0.0, signed_f32(1.0, x), x != 0.0);
}

fn rem_f32(x: f32, y: f32) -> f32 {
  let sign_bit = bitcast<u32>(x) & 0x80000000u;
  var a = bitcast<u32>(x) & 0x7fffffffu;
  let b = bitcast<u32>(y) & 0x7fffffffu;
  if (b == 0u || a >= 0x7f800000u || b > 0x7f800000u) { return nan_f32(); }
  if (a < b) { return x; }
  var size = max(i32(a >> 23u), 1);
  let least = max(i32(b >> 23u), 1);
  var top = select(a & 0x7fffffu, (a & 0x7fffffu) | 0x800000u, (a >> 23u) > 0u);
  let low = select(b & 0x7fffffu, (b & 0x7fffffu) | 0x800000u, (b >> 23u) > 0u);
  while (size > least) {
    top = (top % low) << 1u;
    size -= 1;
  }
  top = top % low;
  if (top == 0u) { return bitcast<f32>(sign_bit); }
  while (top < 0x800000u && size > 1) {
    top = top << 1u;
    size -= 1;
  }
  let whole = select(top, (top & 0x7fffffu) | (u32(size) << 23u), top >= 0x800000u);
  return bitcast<f32>(whole | sign_bit);
}

fn popcount_u64(x: u64) -> u64 {
  return u64(countOneBits(u32(x & 0xfffffffflu)) + countOneBits(u32(x >> 32u)));
}

fn clz_u64(x: u64) -> u64 {
  let high = u32(x >> 32u);
  if (high != 0u) { return u64(countLeadingZeros(high)); }
  return u64(32u + countLeadingZeros(u32(x & 0xfffffffflu)));
}

fn minus_f64(x: f64) -> f64 {
  return bitcast<f64>(bitcast<u64>(x) ^ 0x8000000000000000lu);
}

fn is_nan_f64(x: f64) -> bool {
  return !(x <= 0.0lf) && !(x >= 0.0lf);
}

fn is_finite_f64(x: f64) -> bool {
  return abs(x) <= 1.7976931348623157e308lf;
}

fn equals_f64(x: f64, y: f64) -> bool {
  return x == y && !is_nan_f64(x);
}

fn max_f64(x: f64, y: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (is_nan_f64(y)) { return y; }
  if (x > y) { return x; }
  return y;
}

fn min_f64(x: f64, y: f64) -> f64 {
  if (is_nan_f64(x)) { return x; }
  if (is_nan_f64(y)) { return y; }
  if (x < y) { return x; }
  return y;
}

fn sign_f64(x: f64) -> f64 {
  if (x > 0.0lf) { return 1.0lf; }
  if (x < 0.0lf) { return -1.0lf; }
  return select(0.0lf, x, is_nan_f64(x));
}
"""
