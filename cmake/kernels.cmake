# The only place where a file gets extra ISA flags. Such an object may define no weak symbol (kernels/registry.h says
# why); test `kernel_objects` looks.
#
# No contraction: with it GCC fuses a product and a sum that are two roundings in params.h.
set(generic_flags $<$<CONFIG:Release>:-O3> -ffp-contract=off)
if(MILLRACE_FUZZ)  # fuzzers link these and never run one
  list(APPEND generic_flags -fno-sanitize=all -O1)
endif()
set(avx2_flags ${generic_flags} -mavx2 -mfma -mf16c)
set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its own AVX-512 header warns (GCC bug 105593)
  list(APPEND avx512_flags -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
set(avx512_bf16_flags ${avx512_flags} -mavx512bf16)

foreach(level generic avx2 avx512 avx512_bf16)
  file(GLOB files CONFIGURE_DEPENDS src/kernels/cpu/${level}/*.cpp)
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${${level}_flags}")
  set(${level}_files ${files})
endforeach()

# The loops of sampling: one source for all levels, so one width of register each and nothing beyond.
set(sampling_avx2_flags -mavx2)
set(sampling_avx512_flags -mavx512f)
foreach(level generic avx2 avx512)
  set_source_files_properties(src/sampling/${level}/row_loops.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "${generic_flags};${sampling_${level}_flags}")
endforeach()
set_source_files_properties(src/sampling/row_loops.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

# Headers of these folders compile with those flags only, so not alone.
get_target_property(kernel_headers kernels HEADER_SET)
list(FILTER kernel_headers EXCLUDE REGEX "/cpu/avx")
set_target_properties(kernels PROPERTIES HEADER_SET "${kernel_headers}")

if(MILLRACE_TESTS AND NOT MILLRACE_FUZZ)
  if(NOT MILLRACE_SANITIZE)  # a sanitizer puts weak symbols of its own into every object
    add_test(NAME kernel_objects COMMAND ${PROJECT_SOURCE_DIR}/tools/check_kernel_objects.py
             "$<FILTER:$<TARGET_OBJECTS:kernels>,INCLUDE,/cpu/avx>"
             "$<FILTER:$<TARGET_OBJECTS:sampling>,INCLUDE,/avx[0-9]+/>" COMMAND_EXPAND_LISTS)
  endif()

  # AVX-512 code on machines without it: the same files, compiled against SIMDe's emulation of the intrinsics (SIMDe
  # itself uses AVX2). Test-only.
  find_path(SIMDE_INCLUDE simde/x86/avx512.h)
  # Not under sanitizers: emulated vectors take minutes a file to compile there, and the real files are checked anyway.
  if(SIMDE_INCLUDE AND NOT MILLRACE_SANITIZE)
    foreach(file ${avx512_files} ${avx512_bf16_files})
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src/kernels/cpu ${file})
      string(REPLACE "/" "_" name ${name})
      file(CONFIGURE OUTPUT emulated/${name} CONTENT "#include \"${file}\"\n")
      list(APPEND emulated_files ${PROJECT_BINARY_DIR}/emulated/${name})
    endforeach()
    add_library(kernels_emulated OBJECT ${emulated_files})
    target_link_libraries(kernels_emulated PRIVATE millrace_flags)
    target_include_directories(kernels_emulated SYSTEM PRIVATE ${SIMDE_INCLUDE})
    target_compile_definitions(kernels_emulated PRIVATE MILLRACE_SIMDE SIMDE_ENABLE_NATIVE_ALIASES)
    target_compile_options(kernels_emulated PRIVATE ${avx2_flags} -Wno-psabi -O1)  # -O3 takes minutes to compile
    target_link_libraries(kernels_test PRIVATE kernels_emulated)
    target_compile_definitions(kernels_test PRIVATE MILLRACE_SIMDE)
  elseif(NOT MILLRACE_SANITIZE)
    message(STATUS "libsimde-dev not found: AVX-512 kernels are tested only on CPUs that have it")
  endif()
endif()
