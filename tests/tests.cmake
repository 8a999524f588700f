# Tests that run the built program: each Python file FOLDER/x_test.py is one ctest, FOLDER_x. Exit status 77 is "what it
# needs is not on this machine". Label `slow`: left out of the sanitizer suites.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
string(REPLACE ";" "+" sanitizers "${MILLRACE_SANITIZE}")

# millrace_program_tests(FILE... [SLOW x...] [SLOW_TIMEOUT seconds] [TIMED x...] [LABELS label...])
# TIMED: they compare times, and run alone. LABELS: of each.
function(millrace_program_tests)
  cmake_parse_arguments(arg "" "SLOW_TIMEOUT" "SLOW;TIMED;LABELS" ${ARGN})
  foreach(file ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    get_filename_component(name ${file} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    set(test ${folder}_${name})
    add_test(NAME ${test} COMMAND Python3::Interpreter ${file})
    set_tests_properties(${test} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS "${arg_LABELS}"
      ENVIRONMENT "MILLRACE_BIN=$<TARGET_FILE:millrace>;MILLRACE_SANITIZE=${sanitizers}")
    if(name IN_LIST arg_SLOW)
      set_property(TEST ${test} APPEND PROPERTY LABELS slow)
      if(arg_SLOW_TIMEOUT)
        set_property(TEST ${test} PROPERTY TIMEOUT ${arg_SLOW_TIMEOUT})
      endif()
    endif()
    if(name IN_LIST arg_TIMED)
      set_property(TEST ${test} PROPERTY RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()

file(GLOB cli_tests CONFIGURE_DEPENDS tests/cli/*_test.py)
millrace_program_tests(${cli_tests} SLOW smollm2 identity bench_kv kv_cases SLOW_TIMEOUT 3000 TIMED kv_cases)

# The server on loopback, each with its own port.
file(GLOB server_tests CONFIGURE_DEPENDS tests/server/*_test.py tests/server/chaos.py)
millrace_program_tests(${server_tests} SLOW chaos equality kv life speed TIMED clients kv life speed)

# Real clients against a server; what is installed, and the service manager's side of a server. None for the sanitizer suites.
file(GLOB clients_tests CONFIGURE_DEPENDS tests/clients/*_test.py)
millrace_program_tests(${clients_tests} LABELS clients slow)
file(GLOB packaging_tests CONFIGURE_DEPENDS tests/packaging/*_test.py)
millrace_program_tests(${packaging_tests} LABELS packaging slow)
