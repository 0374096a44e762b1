#pragma once

#include "backend/cpu/simd.hpp"

namespace tpinfer {
namespace {

/// e^x to about 1 ulp. -infinity gives 0, NaN passes, results below the smallest normal number are rounded once.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q of degree 4 by a minimax fit (relative error 3e-9).
inline Lanes exponential(Lanes x) {
  const Lanes inside = max(set1(-104.0F), min(set1(89.0F), x));  // e^-104 rounds to 0, e^89 to infinity
  const Lanes magic = set1(0x1.8p23F);                           // x + magic is a whole number, rounded to nearest
  const Lanes n = sub(add(mul(inside, set1(1.44269504F)), magic), magic);
  Lanes r = mul_add(n, set1(-0.693359375F), inside);  // n times these 9 bits is exact
  r = mul_add(n, set1(2.12194440e-4F), r);
  Lanes q = set1(0.00138143182F);
  q = mul_add(q, r, set1(0.00836885162F));
  q = mul_add(q, r, set1(0.0416684002F));
  q = mul_add(q, r, set1(0.166665196F));
  q = mul_add(q, r, set1(0.49999994F));
  const Lanes p = add(set1(1.0F), mul_add(mul(r, r), q, r));
  return nan_or(x, times_power_of_two(p, n));
}

/// The error function to about 1e-7. Up to 1: x times a polynomial in x^2; above: 1 - e^polynomial; both minimax fits.
inline Lanes error_function(Lanes x) {
  const Lanes t = absolute(x);
  const Lanes s = mul(x, x);
  Lanes near = set1(7.8891193e-05F);
  near = mul_add(near, s, set1(-0.000802084105F));
  near = mul_add(near, s, set1(0.00518953521F));
  near = mul_add(near, s, set1(-0.0268544443F));
  near = mul_add(near, s, set1(0.112836003F));
  near = mul_add(near, s, set1(-0.37612626F));
  near = mul(x, mul_add(near, s, set1(1.12837911F)));
  const Lanes u = min(set1(4.0F), t);  // from 4 on the result rounds to 1
  Lanes far = set1(0.0001855749F);
  far = mul_add(far, u, set1(-0.00293961563F));
  far = mul_add(far, u, set1(0.0218053516F));
  far = mul_add(far, u, set1(-0.103037432F));
  far = mul_add(far, u, set1(-0.638225615F));
  far = mul_add(far, u, set1(-1.12704003F));
  far = mul_add(far, u, set1(-0.000353708921F));
  far = copy_sign(sub(set1(1.0F), exponential(far)), x);
  return where_less(t, set1(1.0F), near, far);
}

}  // namespace
}  // namespace tpinfer
