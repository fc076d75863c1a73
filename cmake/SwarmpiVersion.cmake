# Build information for src/core/version.cpp. Included, after swarmpi_layer(core ...), it adds a
# target that looks at the git work tree before every build; as a script (cmake -P) it writes the
# header, only if something changed.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  list(JOIN swarmpi_cxx_options " " options)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}" flags)
  add_custom_target(swarmpi_build_info
    COMMAND ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_SOURCE_DIR}"
            "-DHEADER=${CMAKE_BINARY_DIR}/generated/swarmpi_build.hpp"
            "-DVERSION=${PROJECT_VERSION}" "-DTYPE=${CMAKE_BUILD_TYPE}" "-DFLAGS=${flags}"
            "-DARCHITECTURE=${SWARMPI_ARCH}" -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/swarmpi_build.hpp
    VERBATIM)
  add_dependencies(swarmpi_core swarmpi_build_info)
  target_include_directories(swarmpi_core PRIVATE ${CMAKE_BINARY_DIR}/generated)
  return()
endif()

set(commit unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE}
                          describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
string(REPLACE "\"" "\\\"" FLAGS "${FLAGS}")
string(CONCAT content
  "#pragma once\n"
  "#define SWARMPI_BUILD_VERSION \"${VERSION}\"\n"
  "#define SWARMPI_BUILD_COMMIT \"${commit}\"\n"
  "#define SWARMPI_BUILD_TYPE \"${TYPE}\"\n"
  "#define SWARMPI_BUILD_FLAGS \"${FLAGS}\"\n"
  "#define SWARMPI_BUILD_ARCHITECTURE \"${ARCHITECTURE}\"\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT "${old}" STREQUAL "${content}")
  file(WRITE ${HEADER} "${content}")
endif()
