# Compiler flags. The promise of equal bits rests on them: no contraction of a*b+c anywhere (fma
# is written out where it is meant), no fast-math, and the reference kernels see no architecture
# flags at all.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
option(BUILD_TESTING "Build the tests" ON)
option(SWARMPI_UNITY "Compile the sources of a folder as one unit (never the kernels)" ON)
option(SWARMPI_WERROR "Treat warnings as errors" OFF)
set(SWARMPI_ARCH native CACHE STRING
    "-march of the native kernels; on mixed clusters the oldest CPU, e.g. x86-64-v3")

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")  # no NDEBUG: checks stay on
set(swarmpi_cxx_options -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -ffp-contract=off -fno-fast-math)
if(SWARMPI_WERROR)
  list(APPEND swarmpi_cxx_options -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${swarmpi_cxx_options}>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>")
