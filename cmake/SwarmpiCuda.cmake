# CUDA, where a compiler for it is found: on PATH, or in the usual place. No GPU is needed to build,
# nor to run what was built: cuBLASLt and NCCL are loaded when a GPU is used.
set(SWARMPI_CUDA ON CACHE STRING
    "Build the CUDA kernels: ON: where a fitting nvcc is found; REQUIRED: or not at all; OFF")
set(SWARMPI_HAS_CUDA OFF)
if(SWARMPI_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    find_program(SWARMPI_NVCC nvcc)
    if(NOT SWARMPI_NVCC)
      set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Machine code alone: what the driver compiles at run time may have other bits.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real CACHE STRING
          "The GPUs that the CUDA kernels are compiled for, by compute capability")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit)
    find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    # CMake before 3.26 does not know that nvcc has C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    # With C++20, and with all that is included.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0 AND CUDAToolkit_FOUND
       AND CUBLASLT_INCLUDE)
      set(SWARMPI_HAS_CUDA ON)
    endif()
  endif()
endif()
if(SWARMPI_CUDA STREQUAL REQUIRED AND NOT SWARMPI_HAS_CUDA)
  message(FATAL_ERROR "CUDA 12 or later with cuBLASLt's headers is required and was not found: "
                      "put its nvcc on PATH, or set CMAKE_CUDA_COMPILER")
endif()
set(SWARMPI_HAS_NCCL OFF)
if(SWARMPI_HAS_CUDA)
  # Only its types: the library is loaded when it is used.
  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NCCL_INCLUDE)
    set(SWARMPI_HAS_NCCL ON)
  endif()
endif()
if(SWARMPI_HAS_CUDA)
  message(STATUS "CUDA kernels: ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}; "
          "NCCL: ${SWARMPI_HAS_NCCL}")
else()
  message(STATUS "CUDA kernels: none (no nvcc of CUDA 12 or later found, or SWARMPI_CUDA is off)")
endif()
