# Included by CTest, not by CMake (see SwarmpiSuites.cmake).
#
# add_suites(LAYER PROGRAM): adds a test for each suite of the GoogleTest program. Each disabled
# GoogleTest test becomes a disabled test of its own, so that CTest counts and names it.
function(add_suites layer program)
  set(listed "")
  set(failed "it does not exist")
  if(EXISTS ${program})
    execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE listed
                    RESULT_VARIABLE failed ERROR_QUIET)
  endif()
  if(NOT failed STREQUAL "0")
    add_test(${layer}.lists_its_suites ${program} --gtest_list_tests)  # this test fails
    return()
  endif()
  string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")  # types and values of parameters
  string(REPLACE "\n" ";" lines "${listed}")
  set(suite "")
  set(suites "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
      set(suite ${CMAKE_MATCH_1})
    elseif(line MATCHES "^  ([A-Za-z0-9_/]+)$")
      set(test ${suite}.${CMAKE_MATCH_1})
      if(test MATCHES "(^|[./])DISABLED_")
        string(REPLACE DISABLED_ "" name ${test})
        add_test(${name} ${program} --gtest_filter=${test})
        set_tests_properties(${name} PROPERTIES DISABLED TRUE LABELS unit)
      else()
        list(APPEND suites ${suite})
      endif()
    endif()
  endforeach()
  if(NOT suite)
    message(FATAL_ERROR "${program} --gtest_list_tests names no test")
  endif()
  list(REMOVE_DUPLICATES suites)
  foreach(suite IN LISTS suites)
    set(name ${layer}.${suite})
    add_test(${name} ${program} --gtest_filter=${suite}.*)
    # A suite counts as skipped if each of its tests was skipped: the output ends with their list.
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300 RESOURCE_GROUPS cores:10
      SKIP_REGULAR_EXPRESSION
      "\n\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+(\n  YOU HAVE [^\n]*\n+)?$")
  endforeach()
endfunction()
