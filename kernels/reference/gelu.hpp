#pragma once
// GELU in its tanh form (Hendrycks and Gimpel, 2016): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715
// x^3))).

namespace swarmpi::kernels::reference {

double gelu(double x);
/// d gelu / dx.
double gelu_slope(double x);

}  // namespace swarmpi::kernels::reference
