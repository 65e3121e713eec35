# SPDX-License-Identifier: BSD-3-Clause
# Builds and installs Cinnabar with Meson while a CMake project is configured, for projects that fetch its sources:
#
#   include(FetchContent)
#   FetchContent_Declare(cinnabar_source URL ...)
#   FetchContent_MakeAvailable(cinnabar_source)  # only downloads, as there is no CMakeLists.txt
#   include(${cinnabar_source_SOURCE_DIR}/tools/packaging/from_source.cmake)
#   cinnabar_from_source(-Ducx=disabled)         # options of Meson, or none
#   find_package(cinnabar REQUIRED)
#
# The build is in cinnabar-build, the installed tree in cinnabar, both in the project's build folder; CMAKE_PREFIX_PATH gets
# the latter. The project's compilers are used. A later configuration builds what has changed.
get_filename_component(_CINNABAR_SOURCE "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

function(_cinnabar_run doing)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "Cinnabar: ${doing} failed (${result}):\n${output}")
  endif()
endfunction()

function(cinnabar_from_source)
  find_program(CINNABAR_MESON meson)
  if(NOT CINNABAR_MESON)
    message(FATAL_ERROR "Cinnabar is built with Meson, which is not here (Debian: meson ninja-build)")
  endif()
  set(build "${CMAKE_BINARY_DIR}/cinnabar-build")
  set(prefix "${CMAKE_BINARY_DIR}/cinnabar")
  set(again)
  if(EXISTS "${build}/build.ninja")
    set(again --reconfigure)
  endif()
  set(compilers "CC=${CMAKE_C_COMPILER}" "CXX=${CMAKE_CXX_COMPILER}")
  if(NOT CMAKE_C_COMPILER OR NOT CMAKE_CXX_COMPILER)
    set(compilers)
  endif()
  message(STATUS "Cinnabar: building ${_CINNABAR_SOURCE}")
  _cinnabar_run("meson setup" "${CMAKE_COMMAND}" -E env ${compilers} "${CINNABAR_MESON}" setup "${build}"
    "${_CINNABAR_SOURCE}" "--prefix=${prefix}" -Dtests=false -Dtools=false ${ARGN} ${again})
  _cinnabar_run("meson install" "${CINNABAR_MESON}" install -C "${build}")
  list(INSERT CMAKE_PREFIX_PATH 0 "${prefix}")
  set(CMAKE_PREFIX_PATH "${CMAKE_PREFIX_PATH}" PARENT_SCOPE)
endfunction()
