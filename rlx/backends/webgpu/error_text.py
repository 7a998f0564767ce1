"""WGSL for the error function of float32, its complement and its inverse.

erf, erfc   N. Juffa's erff and erfcf (2016)
erf_inv     M. Giles, "Approximating the erfinv function" (2010), then a step of Newton's
"""

TEXT = """
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
"""
