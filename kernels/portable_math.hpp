#pragma once
// Elementary functions with the same bits on every IEEE machine: add, multiply and divide only,
// never libm's, which picks variants by CPU. Within 1 unit in the last place of double (tanh: 3),
// over all finite arguments unless stated. Infinities, NaNs, overflow and underflow (denormal
// results too) go as in libm. Used by the reference kernels and, in native mode too, by schedule,
// initial values and bias corrections. Compiled without architecture flags.

namespace swarmpi::kernels {

double portable_exp(double x);
double portable_log(double x);
double portable_tanh(double x);
/// |x| <= 2^20; NaN beyond.
double portable_sin(double x);
/// |x| <= 2^20; NaN beyond.
double portable_cos(double x);
/// x^y for finite x > 0 and finite y.
double portable_pow(double x, double y);

}  // namespace swarmpi::kernels
