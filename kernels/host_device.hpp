#pragma once
// Marks the functions of one element that kernels on a device use as well as the host.

#ifdef __CUDACC__
#define SWARMPI_HOST_DEVICE __host__ __device__
#else
#define SWARMPI_HOST_DEVICE
#endif
