# Each tests/fuzz/x_fuzz.cpp is a libFuzzer program x_fuzz; its seeds lie in tests/fuzz/corpus/x.
file(GLOB fuzz_files CONFIGURE_DEPENDS tests/fuzz/*_fuzz.cpp)
foreach(file ${fuzz_files})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE model text)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
