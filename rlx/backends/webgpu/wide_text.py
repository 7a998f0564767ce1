"""WGSL for numbers of 64 bits, where a device has them."""

TEXT = """
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
