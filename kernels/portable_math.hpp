#pragma once
// Elementary functions with the same bits on every IEEE machine: mul and add only, never libm's, which picks variants
// by CPU. Accurate to a few units in the last place of double. Used by the reference kernels and, in native mode
// too, by schedule, initial values and bias corrections. Compiled without architecture flags.

namespace swarmpi::kernels {

double portable_exp(double x);
double portable_log(double x);
double portable_tanh(double x);
double portable_sin(double x);
double portable_cos(double x);
/// x^y for x > 0.
double portable_pow(double x, double y);

}  // namespace swarmpi::kernels
