# Every dependency is found as a package (Debian, modules, Spack); nothing is downloaded here.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads: their number is set through it
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(dnnl REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)

# Kokkos proper exports Kokkos::kokkos. Debian's Trilinos build exports only the variable below and an include
# folder that does not exist: there the target is made by hand.
find_package(Kokkos REQUIRED)
if(NOT TARGET Kokkos::kokkos)
  find_path(KOKKOS_CORE_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
  find_library(KOKKOS_CORE_LIBRARY NAMES trilinos_kokkoscore kokkoscore REQUIRED)
  add_library(Kokkos::kokkos INTERFACE IMPORTED)
  target_include_directories(Kokkos::kokkos SYSTEM INTERFACE ${KOKKOS_CORE_INCLUDE})
  target_link_libraries(Kokkos::kokkos INTERFACE ${KOKKOS_CORE_LIBRARY})
endif()

# xxHash has no CMake package on Debian.
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(xxhash::xxhash INTERFACE IMPORTED)
target_include_directories(xxhash::xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_link_libraries(xxhash::xxhash INTERFACE ${XXHASH_LIBRARY})
