# What the modules of a cross build need from outside, without one package of the other architecture: headers are the
# same for all, so fmt and spdlog are used as headers only, and GoogleTest is built from its source package.
#
# Linked one by one into a folder of their own: /usr/include itself has the C library of this machine.
find_path(HOST_INCLUDE fmt/core.h REQUIRED NO_CMAKE_FIND_ROOT_PATH)
foreach(name fmt spdlog)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/headers)
  file(CREATE_LINK ${HOST_INCLUDE}/${name} ${PROJECT_BINARY_DIR}/headers/${name} SYMBOLIC)
  add_library(${name}::${name} INTERFACE IMPORTED)
  target_include_directories(${name}::${name} SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/headers)
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(spdlog::spdlog INTERFACE fmt::fmt Threads::Threads)

if(MILLRACE_TESTS)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()
