"""WGSL for trigonometric and error functions of float64, where a device has it.

The kernels are those of FreeBSD's k_sin.c, k_cos.c, s_atan.c, e_asin.c and s_erf.c (Sun
Microsystems, 1993). Large arguments are multiplied by 2 / pi in 192 bits of those that count.
"""

TEXT = """
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

fn near_erf_ratio(s: f64) -> f64 {
  let p = polynomial(s, -2.3763016656650163e-05lf, -0.005770270296489442lf, -0.02848174957559851lf,
    -0.3250421072470015lf, 0.12837916709551256lf);
  let q = polynomial(s, -3.960228278775368e-06lf, 0.00013249473800432164lf, 0.005081306281875766lf,
    0.0650222499887673lf, 0.39791722395915535lf, 1.0lf);
  return p / q;
}

fn middle_erf_ratio(s: f64) -> f64 {
  let p = polynomial(s, -0.002166375594868791lf, 0.035478304325618236lf, -0.11089469428239668lf,
    0.31834661990116175lf, -0.3722078760357013lf, 0.41485611868374833lf, -0.0023621185607526594lf);
  let q = polynomial(s, 0.011984499846799107lf, 0.01363708391202905lf, 0.12617121980876164lf,
    0.07182865441419627lf, 0.540397917702171lf, 0.10642088040084423lf, 1.0lf);
  return p / q;
}

fn large_erf_ratio(s: f64) -> f64 {
  let p = polynomial(s, -9.814329344169145lf, -81.2874355063066lf, -184.60509290671104lf,
    -162.39666946257347lf, -62.375332450326006lf, -10.558626225323291lf, -0.6938585727071818lf,
    -0.009864944034847148lf);
  let q = polynomial(s, -0.0604244152148581lf, 6.570249770319282lf, 108.63500554177944lf,
    429.00814002756783lf, 645.3872717332679lf, 434.56587747522923lf, 137.65775414351904lf,
    19.651271667439257lf, 1.0lf);
  return p / q;
}

fn far_erf_ratio(s: f64) -> f64 {
  let p = polynomial(s, -483.5191916086514lf, -1025.0951316110772lf, -637.5664433683896lf,
    -160.63638485582192lf, -17.757954917754752lf, -0.799283237680523lf, -0.0098649429247001lf);
  let q = polynomial(s, -22.44095244658582lf, 474.52854120695537lf, 2553.0504064331644lf,
    3199.8582195085955lf, 1536.729586084437lf, 325.7925129965739lf, 30.33806074348246lf, 1.0lf);
  return p / q;
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
