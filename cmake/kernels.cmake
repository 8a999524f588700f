# The only place where a file gets extra ISA flags. Such an object may define no weak symbol (kernels/registry.h says
# why); test `kernel_objects` looks.
#
# No contraction: with it GCC fuses a product and a sum that are two roundings in params.h.
set(generic_flags $<$<CONFIG:Release>:-O3> -ffp-contract=off)
if(MILLRACE_FUZZ)  # fuzzers link these and never run one
  list(APPEND generic_flags -fno-sanitize=all -O1)
endif()
set(avx2_flags ${generic_flags} -mavx2 -mfma -mf16c)
set(avx_vnni_flags ${avx2_flags} -mavxvnni)
set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its own AVX-512 header warns (GCC bug 105593)
  list(APPEND avx512_flags -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
set(avx512_bf16_flags ${avx512_flags} -mavx512bf16)
set(amx_flags ${avx512_bf16_flags} -mamx-tile -mamx-int8 -mamx-bf16)
# arm_neon.h of GCC 12 offers the dot product from 8.2 on only; CPUs that have it are that, or later.
set(neon_flags ${generic_flags} -march=armv8.2-a+dotprod)
set(neon_i8mm_flags ${generic_flags} -march=armv8.2-a+dotprod+i8mm)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(levels avx2 avx_vnni avx512 avx512_bf16 amx)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(levels neon neon_i8mm)
endif()

get_target_property(kernel_sources kernels SOURCES)
list(FILTER kernel_sources EXCLUDE REGEX "/cpu/[^/]+/")  # only this architecture's levels come back
foreach(level generic ${levels})
  file(GLOB files CONFIGURE_DEPENDS src/kernels/cpu/${level}/*.cpp)
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${${level}_flags}")
  set(${level}_files ${files})
  list(APPEND kernel_sources ${files})
endforeach()
set_target_properties(kernels PROPERTIES SOURCES "${kernel_sources}")

# The loops of sampling: one source for all levels, so one width of register each and nothing beyond.
if(avx2 IN_LIST levels)
  set(sampling_avx2_flags -mavx2)
  set(sampling_avx512_flags -mavx512f)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # as above
    list(APPEND sampling_avx512_flags -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
endif()
foreach(level generic avx2 avx512)
  set_source_files_properties(src/sampling/${level}/row_loops.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "${generic_flags};${sampling_${level}_flags}")
endforeach()
set_source_files_properties(src/sampling/row_loops.cpp src/sampling/sampler.cpp src/sampling/selection.cpp
  PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

# Headers of these folders compile with those flags only, so not alone.
get_target_property(kernel_headers kernels HEADER_SET)
list(FILTER kernel_headers EXCLUDE REGEX "/cpu/(avx|amx|neon)")
set_target_properties(kernels PROPERTIES HEADER_SET "${kernel_headers}")

if(MILLRACE_TESTS AND NOT MILLRACE_FUZZ)
  if(NOT MILLRACE_SANITIZE)  # a sanitizer puts weak symbols of its own into every object
    if(TARGET sampling)  # not in a cross build
      set(sampling_objects "$<FILTER:$<TARGET_OBJECTS:sampling>,INCLUDE,/avx[0-9]+/>")
    endif()
    add_test(NAME kernel_objects COMMAND ${PROJECT_SOURCE_DIR}/tools/check_kernel_objects.py ${CMAKE_NM}
             "$<FILTER:$<TARGET_OBJECTS:kernels>,INCLUDE,/cpu/(avx|amx|neon)>" ${sampling_objects} COMMAND_EXPAND_LISTS)
  endif()

  # emulate(avx512 ...): the files of these levels once more, into kernels_test, without their flags: they compile to
  # something that runs on AVX2. The test runs it where the CPU lacks the level. A file of its own for each, because
  # the flags above go with the name.
  function(emulate level)
    set(copies)
    foreach(file ${${level}_files})
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src/kernels/cpu ${file})
      string(REPLACE "/" "_" name ${name})
      file(CONFIGURE OUTPUT emulated/${name} CONTENT "#include \"${file}\"\n")
      list(APPEND copies ${PROJECT_BINARY_DIR}/emulated/${name})
    endforeach()
    add_library(${level}_emulated OBJECT ${copies})
    target_link_libraries(${level}_emulated PRIVATE millrace_flags)
    target_compile_options(${level}_emulated PRIVATE ${avx2_flags} -Wno-psabi -O1)  # -O3 takes minutes to compile
    target_link_libraries(kernels_test PRIVATE ${level}_emulated)
  endfunction()

  if("avx2" IN_LIST levels)
    # AVX-VNNI: one instruction, written in AVX2.
    emulate(avx_vnni)
    target_compile_definitions(avx_vnni_emulated PRIVATE MILLRACE_EMULATED)

    # AVX-512: SIMDe's emulation of the intrinsics, which uses AVX2. AMX: on top of that, tiles in plain C++.
    find_path(SIMDE_INCLUDE simde/x86/avx512.h)
    # Not under sanitizers: emulated vectors take minutes a file to compile there, and the real files are checked
    # anyway.
    if(SIMDE_INCLUDE AND NOT MILLRACE_SANITIZE)
      foreach(level avx512 avx512_bf16 amx)
        emulate(${level})
        target_include_directories(${level}_emulated SYSTEM PRIVATE ${SIMDE_INCLUDE})
        target_compile_definitions(${level}_emulated PRIVATE MILLRACE_SIMDE SIMDE_ENABLE_NATIVE_ALIASES)
      endforeach()
      target_compile_definitions(kernels_test PRIVATE MILLRACE_SIMDE)
    elseif(NOT MILLRACE_SANITIZE)
      message(STATUS "libsimde-dev not found: AVX-512 kernels are tested only on CPUs that have it")
    endif()
  endif()
endif()
