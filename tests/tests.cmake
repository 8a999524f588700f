# Tests that run the built program: each tests/cli/x_test.py is one ctest, cli_x. Exit status 77 is "what it needs is not
# on this machine". Label `slow`: left out of the sanitizer suites.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB program_tests CONFIGURE_DEPENDS tests/cli/*_test.py)
set(slow_tests smollm2 identity bench_kv kv_cases)
string(REPLACE ";" "+" sanitizers "${MILLRACE_SANITIZE}")
foreach(file ${program_tests})
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "_test$" "" name ${name})
  add_test(NAME cli_${name} COMMAND Python3::Interpreter ${file})
  set_tests_properties(cli_${name} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "MILLRACE_BIN=$<TARGET_FILE:millrace>;MILLRACE_SANITIZE=${sanitizers}")
  if(name IN_LIST slow_tests)
    set_tests_properties(cli_${name} PROPERTIES LABELS slow TIMEOUT 3000)
  endif()
  if(name STREQUAL kv_cases)  # O9.7 compares times
    set_tests_properties(cli_${name} PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()

# tests/server/x_test.py is server_x: the server on loopback, each with its own port. Those that measure time run alone.
file(GLOB server_tests CONFIGURE_DEPENDS tests/server/*_test.py tests/server/chaos.py)
set(slow_server_tests chaos equality kv life speed)
set(timed_server_tests clients kv life speed)
foreach(file ${server_tests})
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "_test$" "" name ${name})
  add_test(NAME server_${name} COMMAND Python3::Interpreter ${file})
  set_tests_properties(server_${name} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "MILLRACE_BIN=$<TARGET_FILE:millrace>;MILLRACE_SANITIZE=${sanitizers}")
  if(name IN_LIST slow_server_tests)
    set_tests_properties(server_${name} PROPERTIES LABELS slow)
  endif()
  if(name IN_LIST timed_server_tests)
    set_tests_properties(server_${name} PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()

# tests/clients/x_test.py is clients_x: real clients against a server, label `clients`. tests/packaging/x_test.py is
# packaging_x: what is installed, and the service manager's side of a server. None for the sanitizer suites.
file(GLOB service_tests CONFIGURE_DEPENDS tests/clients/*_test.py tests/packaging/*_test.py)
foreach(file ${service_tests})
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "_test$" "" name ${name})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  add_test(NAME ${folder}_${name} COMMAND Python3::Interpreter ${file})
  set_tests_properties(${folder}_${name} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS "${folder};slow"
    ENVIRONMENT "MILLRACE_BIN=$<TARGET_FILE:millrace>")
endforeach()
