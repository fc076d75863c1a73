# swarmpi_write_environment(FILE PROGRAMS SHARE): an env.sh that puts the folder PROGRAMS on PATH
# and, behind it, those of SWARMPI_FOLDERS (of mpirun and python3) that no shell has there anyway.
# Modules named in SWARMPI_MODULES, separated by colons, are loaded first. Works in scripts as well:
# what is installed gets its own at the moment of the installation, which alone knows the prefix.
set(SWARMPI_ENVIRONMENT_TEMPLATE ${CMAKE_CURRENT_LIST_DIR}/env.sh.in)

function(swarmpi_write_environment file programs share)
  set(SWARMPI_ENV ${programs}/env.sh)
  if(ARGC GREATER 3)
    set(SWARMPI_ENV ${ARGV3})
  endif()
  set(SWARMPI_SHARE ${share})
  set(folders ${programs})
  foreach(folder IN LISTS SWARMPI_FOLDERS)
    if(NOT folder MATCHES "^(/usr)?/bin$")
      list(APPEND folders ${folder})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(JOIN folders ":" SWARMPI_PATHS)
  set(SWARMPI_LOAD_MODULES "")
  if(SWARMPI_MODULES)
    string(REPLACE ":" " " modules "${SWARMPI_MODULES}")
    string(CONCAT SWARMPI_LOAD_MODULES
           "# The modules that were loaded as it was configured.\n"
           "if command -v module >/dev/null 2>&1; then module load ${modules}; fi\n")
  endif()
  if("${SWARMPI_PATHS}${SWARMPI_SHARE}${SWARMPI_ENV}" MATCHES "[\"$`\\\\;]")
    message(FATAL_ERROR "a shell cannot be told of a folder whose name has a quote, a dollar, a "
                        "backslash or a semicolon: ${SWARMPI_ENV}")
  endif()
  configure_file(${SWARMPI_ENVIRONMENT_TEMPLATE} ${file} @ONLY)
endfunction()
