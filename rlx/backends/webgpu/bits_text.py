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

fn round_f16(x: f32) -> f32 {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size >= 0x7f800000u) { return x; }
  if (size >= 0x477ff000u) { return signed_f32(infinite_f32(), x); }
  if (size < 0x38800000u) { return signed_f32(round(abs(x) * 16777216.0) * 5.96046448e-8, x); }
  let near = (size + 0xfffu + ((size >> 13u) & 1u)) & 0xffffe000u;
  return signed_f32(bitcast<f32>(near), x);
}

fn round_bf16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if (is_nan_f32(x)) { return nan_f32(); }
  if (is_infinite(x)) { return x; }
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}

fn bits_of_f16(x: f32) -> u32 {
  let sign_bit = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size > 0x7f800000u) { return sign_bit | 0x7e00u; }
  if (size == 0x7f800000u) { return sign_bit | 0x7c00u; }
  if (size < 0x38800000u) { return sign_bit | u32(abs(x) * 16777216.0); }
  return sign_bit | ((size - 0x38000000u) >> 13u);
}

fn f16_of_bits(bits: u32) -> f32 {
  let size = bits & 0x7fffu;
  let sign_bit = (bits & 0x8000u) << 16u;
  if (size > 0x7c00u) { return nan_f32(); }
  if (size == 0x7c00u) { return bitcast<f32>(infinity_bits | sign_bit); }
  if (size < 0x400u) { return bitcast<f32>(bitcast<u32>(f32(size) * 5.96046448e-8) | sign_bit); }
  return bitcast<f32>(((size << 13u) + 0x38000000u) | sign_bit);
}

fn i32_of_f32(x: f32) -> i32 {
  if (is_nan_f32(x)) { return 0; }
  if (x >= 2147483648.0) { return 2147483647; }
  if (x <= -2147483648.0) { return i32(0x80000000u); }
  return i32(x);
}

fn u32_of_f32(x: f32) -> u32 {
  if (is_nan_f32(x) || x <= 0.0) { return 0u; }
  if (x >= 4294967296.0) { return 4294967295u; }
  return u32(x);
}

fn div_i32(x: i32, y: i32) -> i32 {
  if (y == 0) { return -1; }
  if (y == -1) { return -x; }
  return x / y;
}

fn rem_i32(x: i32, y: i32) -> i32 {
  if (y == 0) { return x; }
  if (y == -1) { return 0; }
  return x - x / y * y;
}

fn div_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { return 4294967295u; }
  return x / y;
}

fn rem_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { return x; }
  return x % y;
}

fn pow_i32(x: i32, y: i32) -> i32 {
  if (y < 0) {
    if (x == 1) { return 1; }
    if (x == -1) { return select(-1, 1, (y & 1) == 0); }
    return 0;
  }
  var total = 1;
  var base = x;
  var left = y;
  while (left > 0) {
    if ((left & 1) == 1) { total = total * base; }
    base = base * base;
    left = left >> 1u;
  }
  return total;
}

fn pow_u32(x: u32, y: u32) -> u32 {
  var total = 1u;
  var base = x;
  var left = y;
  while (left > 0u) {
    if ((left & 1u) == 1u) { total = total * base; }
    base = base * base;
    left = left >> 1u;
  }
  return total;
}

fn floor_div_i32(x: i32, y: i32) -> i32 {
  let whole = x / y;
  return select(whole, whole - 1, x - whole * y < 0);
}

fn floor_rem_i32(x: i32, y: i32) -> i32 {
  let rest = x - x / y * y;
  return select(rest, rest + y, rest < 0);
}

fn shl_u64(x: u64, by: u64) -> u64 {
  if (by >= 64lu) { return 0lu; }
  return x << u32(by);
}

fn shl_i64(x: i64, by: i64) -> i64 {
  return bitcast<i64>(shl_u64(bitcast<u64>(x), bitcast<u64>(by)));
}

fn shr_logical_u64(x: u64, by: u64) -> u64 {
  if (by >= 64lu) { return 0lu; }
  return x >> u32(by);
}

fn shr_logical_i64(x: i64, by: i64) -> i64 {
  return bitcast<i64>(shr_logical_u64(bitcast<u64>(x), bitcast<u64>(by)));
}

fn shr_arithmetic_i64(x: i64, by: i64) -> i64 {
  return x >> u32(min(bitcast<u64>(by), 63lu));
}

fn shr_arithmetic_u64(x: u64, by: u64) -> u64 {
  return bitcast<u64>(shr_arithmetic_i64(bitcast<i64>(x), bitcast<i64>(by)));
}

fn popcount_u64(x: u64) -> u64 {
  return u64(countOneBits(u32(x & 0xfffffffflu)) + countOneBits(u32(x >> 32u)));
}

fn popcount_i64(x: i64) -> i64 {
  return i64(popcount_u64(bitcast<u64>(x)));
}

fn clz_u64(x: u64) -> u64 {
  let high = u32(x >> 32u);
  if (high != 0u) { return u64(countLeadingZeros(high)); }
  return u64(32u + countLeadingZeros(u32(x & 0xfffffffflu)));
}

fn clz_i64(x: i64) -> i64 {
  return i64(clz_u64(bitcast<u64>(x)));
}

fn div_u64(x: u64, y: u64) -> u64 {
  if (y == 0lu) { return 18446744073709551615lu; }
  return x / y;
}

fn rem_u64(x: u64, y: u64) -> u64 {
  if (y == 0lu) { return x; }
  return x - x / y * y;
}

fn div_i64(x: i64, y: i64) -> i64 {
  if (y == 0li) { return -1li; }
  if (y == -1li) { return 0li - x; }
  return x / y;
}

fn rem_i64(x: i64, y: i64) -> i64 {
  if (y == 0li) { return x; }
  if (y == -1li) { return 0li; }
  return x - x / y * y;
}

fn pow_u64(x: u64, y: u64) -> u64 {
  var total = 1lu;
  var base = x;
  var left = y;
  while (left > 0lu) {
    if ((left & 1lu) == 1lu) { total = total * base; }
    base = base * base;
    left = left >> 1u;
  }
  return total;
}

fn pow_i64(x: i64, y: i64) -> i64 {
  if (y >= 0li) { return bitcast<i64>(pow_u64(bitcast<u64>(x), bitcast<u64>(y))); }
  if (x == 1li) { return 1li; }
  if (x != -1li) { return 0li; }
  return select(-1li, 1li, (y & 1li) == 0li);
}

fn i64_of_f32(x: f32) -> i64 {
  if (is_nan_f32(x)) { return 0li; }
  if (x >= 9223372036854775808.0) { return 9223372036854775807li; }
  if (x <= -9223372036854775808.0) { return -9223372036854775807li - 1li; }
  return i64(x);
}

fn u64_of_f32(x: f32) -> u64 {
  if (is_nan_f32(x) || x <= 0.0) { return 0lu; }
  if (x >= 18446744073709551616.0) { return 18446744073709551615lu; }
  return u64(x);
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

fn i32_of_f64(x: f64) -> i32 {
  if (is_nan_f64(x)) { return 0; }
  if (x >= 2147483647.0lf) { return 2147483647; }
  if (x <= -2147483648.0lf) { return i32(0x80000000u); }
  return i32(x);
}

fn u32_of_f64(x: f64) -> u32 {
  if (is_nan_f64(x) || x <= 0.0lf) { return 0u; }
  if (x >= 4294967295.0lf) { return 4294967295u; }
  return u32(x);
}

fn i64_of_f64(x: f64) -> i64 {
  if (is_nan_f64(x)) { return 0li; }
  if (x >= 9223372036854775807.0lf) { return 9223372036854775807li; }
  if (x <= -9223372036854775808.0lf) { return -9223372036854775807li - 1li; }
  return i64(x);
}

fn u64_of_f64(x: f64) -> u64 {
  if (is_nan_f64(x) || x <= 0.0lf) { return 0lu; }
  if (x >= 18446744073709551615.0lf) { return 18446744073709551615lu; }
  return u64(x);
}
"""
