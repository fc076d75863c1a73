# Every dependency is found as a package (Debian, modules, Spack); nothing is downloaded here.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads: their number is set through it
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(dnnl REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C HL)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt 8 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

# The config of Debian's Trilinos build of Kokkos names an include folder that does not exist; the
# true one is put in its place, as SYSTEM, for its headers warn.
find_package(Kokkos REQUIRED)
find_path(KOKKOS_CORE_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos)
get_target_property(kokkos_includes Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS kokkos_includes)
  if(IS_ABSOLUTE "${folder}" AND NOT EXISTS "${folder}" AND KOKKOS_CORE_INCLUDE)
    set_target_properties(Kokkos::kokkos PROPERTIES
                          INTERFACE_INCLUDE_DIRECTORIES ${KOKKOS_CORE_INCLUDE})
  endif()
endforeach()

# xxHash has no CMake package on Debian.
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(xxhash::xxhash INTERFACE IMPORTED)
target_include_directories(xxhash::xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_link_libraries(xxhash::xxhash INTERFACE ${XXHASH_LIBRARY})
