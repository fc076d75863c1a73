# swarmpi_suites(LAYER): CTest runs each suite of LAYER_test (GoogleTest) in one process, as test
# LAYER.SUITE. CTest lists the suites when it starts, with the script AddSuites.cmake.
set(SWARMPI_ADD_SUITES ${CMAKE_CURRENT_LIST_DIR}/AddSuites.cmake)

function(swarmpi_suites layer)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${layer}_suites.cmake)
  file(GENERATE OUTPUT ${file} CONTENT
       "include([==[${SWARMPI_ADD_SUITES}]==])
add_suites(${layer} [==[$<TARGET_FILE:${layer}_test>]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()
