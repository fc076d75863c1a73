# What `cmake --install` puts where, and an env.sh in the build folder and in what is installed.
include(GNUInstallDirs)
include(SwarmpiEnvironment)

# mpirun stands beside the compiler wrapper; CMake's own search may find that of another MPI.
get_filename_component(folder_of_mpi "${MPI_CXX_COMPILER}" DIRECTORY)
if(NOT EXISTS "${folder_of_mpi}/mpirun")
  get_filename_component(folder_of_mpi "${MPIEXEC_EXECUTABLE}" DIRECTORY)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter)
get_filename_component(folder_of_python "${Python3_EXECUTABLE}" DIRECTORY)
set(SWARMPI_FOLDERS ${folder_of_mpi} ${folder_of_python})
set(SWARMPI_MODULES "$ENV{LOADEDMODULES}" CACHE STRING
    "What env.sh loads before it sets PATH, separated by colons: the modules of the build")
swarmpi_write_environment(${CMAKE_BINARY_DIR}/env.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})

set(share ${CMAKE_INSTALL_DATADIR}/swarmpi)
install(TARGETS swarmpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs docs DESTINATION ${share})
install(DIRECTORY postprocess DESTINATION ${share} USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "*.py" PATTERN "*.png"
        PATTERN "*_test.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
# Not those that build: there is no source to build.
install(DIRECTORY jobscripts DESTINATION ${share} USE_SOURCE_PERMISSIONS
        PATTERN "setup.sh" EXCLUDE PATTERN "workstation.sh" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(FILES README.md CITATION.cff DESTINATION ${share})
install(CODE "
  include(\"${CMAKE_CURRENT_LIST_DIR}/SwarmpiEnvironment.cmake\")
  set(SWARMPI_FOLDERS \"${SWARMPI_FOLDERS}\")
  set(SWARMPI_MODULES \"${SWARMPI_MODULES}\")
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  swarmpi_write_environment(\"\$ENV{DESTDIR}\${prefix}/env.sh\"
    \"\${prefix}/${CMAKE_INSTALL_BINDIR}\" \"\${prefix}/${share}\" \"\${prefix}/env.sh\")
  message(STATUS \"Installing: \$ENV{DESTDIR}\${prefix}/env.sh\")
")
