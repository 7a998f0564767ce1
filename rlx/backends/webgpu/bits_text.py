"""WGSL for what needs the bits of numbers: tests, signs, parts, remainders.

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

fn infinite_f32() -> f32 {
  return bitcast<f32>(infinity_bits);
}

fn nan_f32() -> f32 {
  return bitcast<f32>(nan_bits);
}

fn popcount_u64(x: u64) -> u64 {
  return u64(countOneBits(u32(x & 0xfffffffflu)) + countOneBits(u32(x >> 32u)));
}

fn clz_u64(x: u64) -> u64 {
  let high = u32(x >> 32u);
  if (high != 0u) { return u64(countLeadingZeros(high)); }
  return u64(32u + countLeadingZeros(u32(x & 0xfffffffflu)));
}
"""

OF_FLOATS = """
// -x, of which no compiler sees that x - x is 0.0, for it is not if x is infinite
fn minus_T(x: T) -> T {
  return bitcast<T>(bitcast<BITS>(x) ^ SIGN);
}

fn is_nan_T(x: T) -> bool {
  return (bitcast<BITS>(x) & SIZE) > INFINITY;
}

fn is_finite_T(x: T) -> bool {
  return (bitcast<BITS>(x) & INFINITY) != INFINITY;
}

fn is_infinite_T(x: T) -> bool {
  return (bitcast<BITS>(x) & SIZE) == INFINITY;
}

fn equals_T(x: T, y: T) -> bool {
  return x == y && !is_nan_T(x) && !is_nan_T(y);
}

fn max_T(x: T, y: T) -> T {
  if (is_nan_T(x)) { return x; }
  if (is_nan_T(y)) { return y; }
  return select(y, x, x > y);
}

fn min_T(x: T, y: T) -> T {
  if (is_nan_T(x)) { return x; }
  if (is_nan_T(y)) { return y; }
  return select(y, x, x < y);
}

fn sign_T(x: T) -> T {
  if (is_nan_T(x)) { return x; }
  return select(0.0, signed_T(1.0, x), x != 0.0);
}

fn signed_T(x: T, sign_of: T) -> T {
  return bitcast<T>((bitcast<BITS>(x) & SIZE) | (bitcast<BITS>(sign_of) & SIGN));
}

fn masked_T(x: T, mask: BITS) -> T {
  return bitcast<T>(bitcast<BITS>(x) & mask);
}

fn power_of_two_T(n: i32) -> T {
  return bitcast<T>(BITS(u32(n + BIAS)) << PLACES);
}

fn scaled_T(x: T, n: i32) -> T {
  let half = n / 2;
  return x * power_of_two_T(half) * power_of_two_T(n - half);
}

struct Parts_T { size: T, power: i32 }

// a number above 0 as one from 1 to 2, times a power of two
fn parts_T(x: T) -> Parts_T {
  var bits = bitcast<BITS>(x);
  var n = -BIAS;
  if (bits < LEADING) {
    bits = bitcast<BITS>(T(bits));
    n -= LEAST_POWER;
  }
  let size = bitcast<T>((bits & FRACTION) | bitcast<BITS>(power_of_two_T(0)));
  return Parts_T(size, n + i32(u32(bits >> PLACES)));
}

fn rem_T(x: T, y: T) -> T {
  let sign_bit = bitcast<BITS>(x) & SIGN;
  let a = bitcast<BITS>(x) & SIZE;
  let b = bitcast<BITS>(y) & SIZE;
  if (b == NOTHING || a >= INFINITY || b > INFINITY) { return nan_T(); }
  if (a < b) { return x; }
  var size = max(i32(u32(a >> PLACES)), 1);
  let least = max(i32(u32(b >> PLACES)), 1);
  var top = select(a & FRACTION, (a & FRACTION) | LEADING, a >= LEADING);
  let low = select(b & FRACTION, (b & FRACTION) | LEADING, b >= LEADING);
  while (size > least) {
    top = (top - top / low * low) << 1u;
    size -= 1;
  }
  top = top - top / low * low;
  if (top == NOTHING) { return bitcast<T>(sign_bit); }
  while (top < LEADING && size > 1) {
    top = top << 1u;
    size -= 1;
  }
  let whole = select(top, (top & FRACTION) | (BITS(u32(size)) << PLACES), top >= LEADING);
  return bitcast<T>(whole | sign_bit);
}
"""
"""For float32 and float64: see `shared_text.py`."""
